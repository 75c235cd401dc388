"""An agent that can be run: Agent.stream / run, from_dir. Whatever `%%agent` does, this does.

Border: none of its own; the loop is in `turns`.
"""

from __future__ import annotations

import os
from collections.abc import Generator
from dataclasses import dataclass

from .conversation import Event, Message, Run, Tool
from .errors import PersonaError, PromptError
from .lint import help_for
from .memory import MemoryEdit, memory_tool
from .planning import opened, plan
from .providers import Ask, WireRequest
from .providers.endpoints import provider
from .soul import Soul, compose_soul
from .spec import Budget, Options, Spec
from .tools import as_tool
from .turns import Turns

__all__ = ["Agent", "Budget", "Options", "Spec", "from_dir", "persona"]


@dataclass(frozen=True, slots=True)
class Agent:
    """A name and a Spec that can be run. `home` is the persona directory, "" when there is none."""

    name: str
    spec: Spec
    home: str = ""

    def run(self, prompt: str, options: Options | None = None) -> Run:
        """Run to the end and return the Run; see `stream` for what is raised."""
        events = self.stream(prompt, options)
        while True:
            try:
                next(events)
            except StopIteration as end:
                run: Run = end.value
                return run

    def stream(self, prompt: str, options: Options | None = None) -> Generator[Event, None, Run]:
        """Yield the events of a run as they happen; the generator's return value is the Run.

        A run that fails, stalls or is interrupted still returns its Run, with all that it
        has. Only what keeps a run from starting is raised, by this call: PromptError for a
        blank prompt, ModelError, MissingKeyError, LocalModelError. Throwing KeyboardInterrupt
        into the generator ends it as Stop does.
        """
        options = options or Options()
        if not prompt.strip():
            raise PromptError("the prompt is blank: there is nothing to send: write a message")
        return Turns(self.spec, self.tools(options), prompt, options, opened(plan(self.spec, options))).stream()

    def request(self, prompt: str, options: Options | None = None) -> WireRequest:
        """Return the first request `stream` would send, in its dialect; nothing is sent or started, no key is needed."""
        options = options or Options()
        there = plan(self.spec, options, needs_key=False)
        messages = (*options.history, Message("user", prompt))
        ask = Ask(there.endpoint, self.spec.prompt, messages, self.tools(options), there.params, options.role)
        return provider(there.endpoint.style).request(ask).with_headers(there.endpoint.headers)

    def tools(self, options: Options) -> tuple[Tool, ...]:
        """Return the tools of a run: the Spec's, the Options', with `memory` as the Options want it."""
        tools = {tool.name: tool for tool in map(as_tool, (*self.spec.tools, *options.tools))}
        if options.memory == "off":
            tools.pop("memory", None)
        elif self.home and "memory" in tools:
            confirm = (options.confirm or _never) if options.memory == "ask" else None
            tools["memory"] = memory_tool(self.home, confirm=confirm, confirm_outside=options.confirm, on_edit=options.on_edit)
        return tuple(tools.values())


def from_dir(directory: str | os.PathLike[str], *, memory: bool = True) -> Agent:
    """Make a persona directory an agent: its soul composed now, the memory tool last.

    Raises PersonaError when none of the seven files is there.
    """
    soul = compose_soul(directory)
    if not soul.found:
        raise PersonaError(help_for(directory))
    return persona(soul, memory=memory, shown_as=os.fsdecode(directory))


def persona(soul: Soul, *, memory: bool = True, shown_as: str = "") -> Agent:
    """Make an agent of a soul that was composed before: the frozen snapshot is what runs."""
    tools = (memory_tool(soul.root),) if memory else ()
    return Agent(soul.name, Spec(f"persona agent from {shown_as or soul.root}", soul, tools=tools), soul.root)


def _never(_edit: MemoryEdit) -> bool:
    """Answer for a caller that wants to be asked and gave nobody to ask."""
    return False
