"""One conversation with one frozen soul: history, usage so far, writes that can be undone.

Border: `saving` for files. A session never reads the persona again; it only says whether
the disk has moved on.
"""

from __future__ import annotations

import os
from collections.abc import Generator
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from . import saving
from .agent import Agent, Options, Spec
from .conversation import Event, Message, Notice, Run, Usage
from .errors import SessionError
from .memory import MemoryEdit, memory_tool
from .providers import WireRequest
from .soul import Soul


class _Mark(NamedTuple):
    """The conversation as it was before the prompt of `cell` was sent."""

    cell: str
    messages: tuple[Message, ...]
    usage: Usage
    turns: int
    runs: int


@dataclass(slots=True)
class Session:
    """A conversation under way. The soul is the Agent's and stays as it was composed.

    `edits` are the memory writes that can be undone, oldest first. Sessions may share the
    list: what one has written can be undone after another has begun.
    """

    agent: Agent
    model: str = ""
    messages: tuple[Message, ...] = ()
    usage: Usage = Usage()
    turns: int = 0
    runs: int = 0
    edits: list[MemoryEdit] = field(default_factory=list)
    _marks: list[_Mark] = field(default_factory=list, repr=False)

    def stream(self, prompt: str, options: Options, cell: str = "") -> Generator[Event, None, Run]:
        """Run one prompt as the next of this conversation, see `Agent.stream`.

        `cell` names the notebook cell it comes from. Where that cell sent a prompt before, this
        one takes its place, and the prompts after it are dropped; memory writes stay made.
        """
        kept = self._marks_before(cell)
        replaced = self._marks[len(kept) :]
        mark = replaced[0] if replaced else _Mark(cell, self.messages, self.usage, self.turns, self.runs)
        events = self.agent.stream(prompt, replace(options, history=mark.messages, on_edit=self.edits.append))
        # Only now: what keeps a run from starting leaves the conversation as it was.
        if len(replaced) > 1:
            later = "1 later turn is" if len(replaced) == 2 else f"{len(replaced) - 1} later turns are"
            yield Notice(f"this cell's earlier turn is replaced and {later} dropped; %agent --fork NAME, before, keeps a branch")
        run = yield from events
        self._marks = [*kept, mark]
        self.messages, self.model = run.messages, run.model
        self.usage, self.turns, self.runs = mark.usage + run.usage, mark.turns + run.turns, mark.runs + 1
        return run

    def _marks_before(self, cell: str) -> list[_Mark]:
        """Return the marks before the prompt of that cell: all of them where it sent none."""
        cells = [mark.cell for mark in self._marks]
        return self._marks[: cells.index(cell)] if cell and cell in cells else self._marks

    def fork(self) -> Session:
        """Return a copy that goes its own way from here; the writes that can be undone are shared."""
        return replace(self, _marks=list(self._marks))

    def request(self, prompt: str, options: Options, cell: str = "") -> WireRequest:
        """Return the request that `stream` would send first; nothing is sent."""
        return self.agent.request(prompt, replace(options, history=self.history(cell)))

    def history(self, cell: str = "") -> tuple[Message, ...]:
        """Return the messages that go before the next prompt of a cell."""
        kept = self._marks_before(cell)
        return self.messages if len(kept) == len(self._marks) else self._marks[len(kept)].messages

    def reset(self) -> None:
        """Forget the conversation; the soul and the writes that can be undone stay."""
        self.messages, self.usage, self.turns, self.runs = (), Usage(), 0, 0
        self._marks.clear()

    def stale(self) -> list[str]:
        """Name the files of the persona that changed on disk since its soul was composed."""
        soul = self.agent.spec.soul
        return soul.stale() if isinstance(soul, Soul) else []

    def undo(self) -> MemoryEdit:
        """Take the last memory write back and return it, see `undo`."""
        return undo(self.edits)

    def save(self, path: str | os.PathLike[str], *, force: bool = False) -> None:
        """Write the conversation as JSON, mode 0600: soul text, messages, usage; no key, no path.

        The soul and the messages are written as they are, secrets included. A file that is
        there and is no saved session is kept, unless `force`; SessionError says so.
        """
        state = saving.Saved(self.agent.name, self.model, self.agent.spec.prompt, self.messages, self.usage, self.turns, self.runs)
        saving.write(path, state, force=force)


def undo(edits: list[MemoryEdit]) -> MemoryEdit:
    """Take the last of the memory writes back and return it; it leaves the list.

    Raises SessionError when there is none, or when the file has changed since.
    """
    if not edits:
        raise SessionError("nothing to undo: no memory has been written")
    edits[-1].undo()
    return edits.pop()


def load(path: str | os.PathLike[str], home: str | os.PathLike[str] = "") -> Session:
    """Read a saved conversation back, with the soul it was held with.

    The persona may write its memory only into `home`; without one it has no memory tool, for
    a file does not decide where something is written. Raises SessionError, in one line, for a
    file that is not there, not a session, damaged, or of a later version.
    """
    saved, directory = saving.read(path), os.path.abspath(home) if home else ""
    tools = (memory_tool(directory),) if directory else ()
    agent = Agent(saved.name, Spec(f"persona agent {saved.name}", saved.soul, tools=tools), directory)
    return Session(agent, saved.model, saved.messages, saved.usage, saved.turns, saved.runs)
