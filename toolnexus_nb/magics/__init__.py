"""The extension in a shell: registered, completed, taken back. This folder is the only importer of IPython.

Loading it must not be felt: what parses, shows and runs is in the siblings `soul`, `run`
and `manage`, imported when a magic is first used.
"""

from __future__ import annotations

import sys
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

from IPython.core.completer import SimpleCompletion, context_matcher
from IPython.core.error import UsageError
from IPython.core.magic import Magics, no_var_expand
from traitlets import Enum, Float, Int, Unicode

if TYPE_CHECKING:
    from IPython.core.completer import CompletionContext
    from IPython.core.interactiveshell import InteractiveShell

    from ..completion import Names
    from ..conversation import Run
    from ..memory import MemoryEdit
    from ..session import Session
    from ..soul import Soul
    from .manage import ManageCommand
    from .run import RunCommand
    from .soul import SoulCommand

VIEWS: Final = ("auto", "widget", "html", "text")
MEMORY: Final = ("on", "ask", "off")

_PACKAGE: Final = "toolnexus_nb"
_MATCHER: Final = "toolnexus_nb.magics"
_MODELS: Final = ("local", "mirror", "openai:", "anthropic:", "openrouter:", "ollama:", "lmstudio:", "llamacpp:")


class SoulMagics(Magics):
    """Magics to look at a persona directory (%soul) and to run it (%%agent)."""

    view = Enum(VIEWS, "auto", help="Face of %soul: auto takes the widget in a notebook, text in a terminal.").tag(config=True)
    model = Unicode("", help="Model when -m is not given; empty takes local where it is installed, else mirror.").tag(config=True)
    base_url = Unicode("", help="Server when --base-url is not given.").tag(config=True)
    style = Enum(("", "openai", "anthropic"), "", help="Dialect spoken at base_url; empty means openai.").tag(config=True)
    memory = Enum(MEMORY, "on", help="May the agent write MEMORY.md and USER.md: on, ask, off.").tag(config=True)
    max_turns = Int(10, min=1, help="Requests per run.").tag(config=True)
    timeout_seconds = Float(120.0, min=0.1, help="Seconds of silence after which a run is ended.").tag(config=True)

    # What @magics_class would collect from decorated methods; the functions are Doors.
    registered = True
    magics = {"line": {}, "cell": {}}  # noqa: RUF012  each instance gets its own in __init__

    # IPython declares it as possibly None; magics without a shell do not exist here.
    shell: Any

    def __init__(self, shell: InteractiveShell) -> None:
        super().__init__(shell)
        self.souls: dict[str, Soul] = {}
        self.last: Soul | None = None
        self.session: Session | None = None
        #: Conversations kept by name with %agent --fork.
        self.branches: dict[str, Session] = {}
        #: Every memory write since the kernel started, oldest first: %agent --undo takes them back in turn.
        self.edits: list[MemoryEdit] = []
        self.magics["line"] = {"soul": Door(self, "soul"), "agent": Door(self, "agent")}
        self.magics["cell"] = {"agent": Door(self, "agent", cell=True)}

    @cached_property
    def soul_command(self) -> SoulCommand:
        from .soul import SoulCommand

        return SoulCommand(self)

    @cached_property
    def run_command(self) -> RunCommand:
        from .run import RunCommand

        return RunCommand(self)

    @cached_property
    def manage_command(self) -> ManageCommand:
        from .manage import ManageCommand

        return ManageCommand(self)

    def function(self, name: str, *, cell: bool = False) -> Any:
        """Return the real magic behind a Door."""
        if name == "soul":
            return self.soul_command.soul
        return self.run_command.agent if cell else self.manage_command.agent

    def show(self, soul: Soul) -> None:
        """Show a Soul; the formatter of every Soul in this shell."""
        self.soul_command.show(soul)

    def complete(self, context: CompletionContext) -> dict[str, Any]:
        """Complete flags, persona names and models on the lines of the magics (a v2 matcher)."""
        line = context.line_with_cursor
        magic, space, arguments = line.lstrip().partition(" ")
        name, cell = magic.lstrip("%"), magic.startswith("%%")
        if magic not in ("%soul", "%agent", "%%agent") or not space:
            return {"completions": []}
        from ..completion import complete

        found = complete(arguments, context.cursor_position - (len(line) - len(arguments)), self._names(self.function(name, cell=cell)))
        return {
            "completions": [SimpleCompletion(text=word, type="param") for word in found.words],
            "matched_fragment": found.fragment,
            "suppress": False,
        }

    def _names(self, function: Any) -> Names:
        from ..completion import Names
        from .line import options_of

        options = options_of(function)
        models = [*_MODELS, *([self.model] if self.model else [])]
        functions = [name for name, value in self.shell.user_ns.items() if callable(value) and not name.startswith("_")]
        choices = {flag: values for flag, values in options.items() if values}
        values = {"-m": models, "--model": models, "--tool": functions, "--switch": [*self.branches], **choices}
        return Names([*options], [*self.souls], values)

    def close(self) -> None:
        """Close every live view."""
        if "soul_command" in self.__dict__:
            self.soul_command.close()


class Door:
    """A magic that imports what is behind it when it is called or asked for its help."""

    def __init__(self, magics: SoulMagics, name: str, *, cell: bool = False) -> None:
        self.__name__ = name
        self._magics, self._cell = magics, cell
        # A directory may be called {x}; the magic expands what is no such name itself.
        no_var_expand(self)

    @property
    def __doc__(self) -> str:  # type: ignore[override]
        return str(self._magics.function(self.__name__, cell=self._cell).__doc__)

    def __call__(self, line: str, *cell: str) -> Any:
        try:
            return self._magics.function(self.__name__, cell=self._cell)(line, *cell)
        except UsageError as error:
            from .line import Refused

            raise Refused(*error.args) from None


def load(shell: InteractiveShell) -> None:
    """Register the magics, the formatters and the matcher in a shell."""
    unload(shell)
    magics = SoulMagics(shell)
    shell.register_magics(magics)
    formatter: Any = shell.display_formatter
    formatter.ipython_display_formatter.for_type_by_name(f"{_PACKAGE}.soul", "Soul", magics.show)
    formatter.mimebundle_formatter.for_type_by_name(f"{_PACKAGE}.conversation", "Run", _run_bundle)
    shell.Completer.custom_matchers.append(context_matcher(identifier=_MATCHER)(_Matcher(magics)))


class _Matcher:
    """The matcher as an object of its own: IPython hangs attributes on it, which a bound method refuses."""

    def __init__(self, magics: SoulMagics) -> None:
        self._magics = magics
        self.__qualname__ = _MATCHER

    def __call__(self, context: CompletionContext) -> dict[str, Any]:
        return self._magics.complete(context)


def _run_bundle(run: Run, include: Any = None, exclude: Any = None) -> Any:  # noqa: ARG001  the formatter's signature
    from ..render import bundle
    from ..render.reply import run_metadata

    return bundle(run), {"toolnexus_nb": run_metadata(run)}


def unload(shell: InteractiveShell) -> None:
    """Take everything back that `load` registered; nothing happens where nothing was."""
    ours: list[Any] = [known for known in shell.configurables if _is_ours(known)]
    for magics in ours:
        magics.close()
        shell.configurables.remove(magics)
    manager = shell.magics_manager
    manager.registry.pop(SoulMagics.__name__, None)
    for names in manager.magics.values():
        # By type: IPython keeps stand-ins here that import all core magics when asked for an attribute.
        for name in [name for name, function in names.items() if _is_ours(function)]:
            del names[name]
    formatter: Any = shell.display_formatter
    _forget(formatter.ipython_display_formatter, "soul", "Soul")
    _forget(formatter.mimebundle_formatter, "conversation", "Run")
    matchers = shell.Completer.custom_matchers
    matchers[:] = [matcher for matcher in matchers if getattr(matcher, "matcher_identifier", "") != _MATCHER]


def _is_ours(value: object) -> bool:
    # By name: after the module was reloaded the old instance is of another class.
    return type(value).__module__ == __name__ and type(value).__name__ in (SoulMagics.__name__, Door.__name__)


def _forget(formatter: Any, module: str, name: str) -> None:
    formatter.deferred_printers.pop((f"{_PACKAGE}.{module}", name), None)
    if loaded := sys.modules.get(f"{_PACKAGE}.{module}"):
        formatter.type_printers.pop(getattr(loaded, name), None)
