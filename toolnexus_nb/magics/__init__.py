"""The extension in a shell: registered, completed, taken back. This folder is the only importer of IPython."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, Final

from IPython.core.completer import SimpleCompletion, context_matcher

from ..completion import Names, complete
from .agent import AgentMagic
from .line import options_of
from .soul import SoulMagic

if TYPE_CHECKING:
    from IPython.core.completer import CompletionContext
    from IPython.core.interactiveshell import InteractiveShell

    from ..conversation import Run

_PACKAGE: Final = "toolnexus_nb"
_MATCHER: Final = "toolnexus_nb.magics"
_MODELS: Final = ("local", "mirror", "openai:", "anthropic:", "openrouter:", "ollama:", "lmstudio:", "llamacpp:")


class SoulMagics(SoulMagic, AgentMagic):
    """Magics to look at a persona directory (%soul) and to run it (%%agent)."""

    # @magics_class would register what is defined in this class body alone.
    magics = {kind: SoulMagic.magics[kind] | AgentMagic.magics[kind] for kind in ("line", "cell")}

    def __init__(self, shell: InteractiveShell) -> None:
        super().__init__(shell)
        self.souls, self.last, self.session = {}, None, None
        self._shown = {}

    def complete(self, context: CompletionContext) -> dict[str, Any]:
        """Complete flags, persona names and models on the lines of %soul and %%agent (a v2 matcher)."""
        line = context.line_with_cursor
        magic, space, arguments = line.lstrip().partition(" ")
        function = {"%soul": self.soul, "%agent": self.agent, "%%agent": self.agent}.get(magic)
        if function is None or not space:
            return {"completions": []}
        found = complete(arguments, context.cursor_position - (len(line) - len(arguments)), self._names(function))
        return {
            "completions": [SimpleCompletion(text=word, type="param") for word in found.words],
            "matched_fragment": found.fragment,
            "suppress": False,
        }

    def _names(self, function: Any) -> Names:
        options = options_of(function)
        models = [*_MODELS, *([self.model] if self.model else [])]
        functions = [name for name, value in self.shell.user_ns.items() if callable(value) and not name.startswith("_")]
        choices = {flag: values for flag, values in options.items() if values}
        return Names([*options], [*self.souls], {"-m": models, "--model": models, "--tool": functions, **choices})


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
        for name in [name for name, function in names.items() if _is_ours(getattr(function, "__self__", None))]:
            del names[name]
    formatter: Any = shell.display_formatter
    _forget(formatter.ipython_display_formatter, "soul", "Soul")
    _forget(formatter.mimebundle_formatter, "conversation", "Run")
    matchers = shell.Completer.custom_matchers
    matchers[:] = [matcher for matcher in matchers if getattr(matcher, "matcher_identifier", "") != _MATCHER]


def _is_ours(value: object) -> bool:
    # By name: after the module was reloaded the old instance is of another class.
    return type(value).__name__ == SoulMagics.__name__ and type(value).__module__ == __name__


def _forget(formatter: Any, module: str, name: str) -> None:
    formatter.deferred_printers.pop((f"{_PACKAGE}.{module}", name), None)
    if loaded := sys.modules.get(f"{_PACKAGE}.{module}"):
        formatter.type_printers.pop(getattr(loaded, name), None)
