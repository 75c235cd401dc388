"""Look at, teach and iterate an AI persona directory in a notebook.

    %load_ext toolnexus_nb
    %soul ava/                 what the agent is really told, file by file
    %%agent ava                run it inline

    from toolnexus_nb import compose_soul, from_dir
    soul, found = compose_soul("ava/")
    run = from_dir("ava/").run("hello")

Every name below is loaded on first use: importing this package imports no third party.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

    from .agent import Agent, Budget, Options, Spec, from_dir
    from .conversation import Message, Run, Tool, ToolCall, ToolResult, Usage
    from .diff import changes
    from .errors import RunFailed, ToolnexusError
    from .lint import findings
    from .memory import memory_tool
    from .session import Session
    from .soul import BOOTSTRAP_ORDER, CAP_BYTES, Section, Soul, compose_soul
    from .tools import as_tool

__version__ = "0.1.0"

_HOMES: Final = {
    "soul": ("BOOTSTRAP_ORDER", "CAP_BYTES", "Section", "Soul", "compose_soul"),
    "agent": ("Agent", "Budget", "Options", "Spec", "from_dir"),
    "conversation": ("Message", "Run", "Tool", "ToolCall", "ToolResult", "Usage"),
    "memory": ("memory_tool",),
    "session": ("Session",),
    "tools": ("as_tool",),
    "diff": ("changes",),
    "lint": ("findings",),
    "errors": ("RunFailed", "ToolnexusError"),
}
_WHERE: Final = {name: module for module, names in _HOMES.items() for name in names}

__all__ = [
    "BOOTSTRAP_ORDER",
    "CAP_BYTES",
    "Agent",
    "Budget",
    "Message",
    "Options",
    "Run",
    "RunFailed",
    "Section",
    "Session",
    "Soul",
    "Spec",
    "Tool",
    "ToolCall",
    "ToolResult",
    "ToolnexusError",
    "Usage",
    "as_tool",
    "changes",
    "compose_soul",
    "findings",
    "from_dir",
    "memory_tool",
]


def __getattr__(name: str) -> Any:
    if name not in _WHERE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f".{_WHERE[name]}", __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


def load_ipython_extension(shell: InteractiveShell) -> None:
    """Register %soul, %%agent and what shows a Soul or a Run; called by %load_ext."""
    from .magics import load

    load(shell)


def unload_ipython_extension(shell: InteractiveShell) -> None:
    """Take all of it back; called by %unload_ext and before %reload_ext."""
    from .magics import unload

    unload(shell)
