"""One conversation with one frozen soul: history, usage so far, writes that can be undone.

Border: `disk` for save and load. A session never reads the persona again; it only says
whether the disk has moved on.
"""

from __future__ import annotations

import json
import os
from collections.abc import Generator
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Final

from . import disk
from .agent import Agent, Options, Spec
from .conversation import Event, Message, Reasoning, Run, ToolCall, Usage
from .errors import SessionError
from .memory import MemoryEdit, memory_tool
from .providers import WireRequest
from .soul import Soul

_FORMAT: Final = "toolnexus_nb session"
_VERSION: Final = 1


@dataclass(slots=True)
class Session:
    """A conversation under way. The soul is the Agent's and stays as it was composed."""

    agent: Agent
    model: str = ""
    messages: tuple[Message, ...] = ()
    usage: Usage = Usage()
    turns: int = 0
    runs: int = 0
    edits: list[MemoryEdit] = field(default_factory=list)

    def stream(self, prompt: str, options: Options) -> Generator[Event, None, Run]:
        """Run one prompt as the next of this conversation, see `Agent.stream`."""
        run = yield from self.agent.stream(prompt, replace(options, history=self.messages, on_edit=self.edits.append))
        self.messages, self.model = run.messages, run.model
        self.usage, self.turns, self.runs = self.usage + run.usage, self.turns + run.turns, self.runs + 1
        return run

    def request(self, prompt: str, options: Options) -> WireRequest:
        """Return the request that `stream` would send first; nothing is sent."""
        return self.agent.request(prompt, replace(options, history=self.messages))

    def reset(self) -> None:
        """Forget the conversation; the soul and the writes that can be undone stay."""
        self.messages, self.usage, self.turns, self.runs = (), Usage(), 0, 0

    def stale(self) -> list[str]:
        """Name the files of the persona that changed on disk since its soul was composed."""
        soul = self.agent.spec.soul
        return soul.stale() if isinstance(soul, Soul) else []

    def undo(self) -> MemoryEdit:
        """Take the last memory write back and return it.

        Raises SessionError when there is none, or when the file has changed since.
        """
        if not self.edits:
            raise SessionError("nothing to undo: this session has written no memory")
        edit = self.edits[-1]
        edit.undo()
        return self.edits.pop()

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the conversation as JSON: soul text, messages, usage; no key, no file of the persona."""
        state = {
            "format": _FORMAT,
            "version": _VERSION,
            "name": self.agent.name,
            "home": self.agent.home,
            "does": self.agent.spec.does,
            "model": self.model,
            "soul": self.agent.spec.prompt,
            "soul_digest": self.agent.spec.digest,
            "messages": [asdict(message) for message in self.messages],
            "usage": asdict(self.usage),
            "turns": self.turns,
            "runs": self.runs,
        }
        try:
            disk.write_atomic(path, json.dumps(state, indent=1).encode())
        except OSError as error:
            raise SessionError(f"{os.fsdecode(path)}: cannot be written: {error.strerror}: name another file") from None


def load(path: str | os.PathLike[str]) -> Session:
    """Read a saved conversation back, with the soul it was held with.

    Raises SessionError for a file that is not there, not a session, or of a later version.
    """
    shown = os.fsdecode(path)
    try:
        state = json.loads(disk.read_whole(path))
        if state["format"] != _FORMAT or state["version"] != _VERSION:
            raise SessionError(f"{shown}: not a session of version {_VERSION}: save it anew with %agent --save FILE")
        return _restore(state)
    except OSError as error:
        raise SessionError(f"{shown}: cannot be read: {error.strerror or error}: name a file that %agent --save wrote") from None
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise SessionError(f"{shown}: not a saved session: name a file that %agent --save wrote") from None


def _restore(state: dict[str, Any]) -> Session:
    home = str(state["home"])
    tools = (memory_tool(home),) if home else ()
    agent = Agent(str(state["name"]), Spec(str(state["does"]), str(state["soul"]), tools=tools), home)
    return Session(
        agent,
        str(state["model"]),
        tuple(_message(message) for message in state["messages"]),
        Usage(**state["usage"]),
        int(state["turns"]),
        int(state["runs"]),
    )


def _message(state: dict[str, Any]) -> Message:
    calls = tuple(ToolCall(call["id"], call["name"], call["arguments_json"]) for call in state["tool_calls"])
    reasoning = tuple(Reasoning(**block) for block in state["reasoning"])
    return Message(**{**state, "tool_calls": calls, "reasoning": reasoning})
