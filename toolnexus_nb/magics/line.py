"""What the magics share: the shell they live in, the parsing of their lines, errors in one line."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from IPython.core.error import UsageError
from IPython.utils.process import arg_split  # type: ignore[attr-defined]
from IPython.utils.text import DollarFormatter

from ..errors import RunFailed, ToolnexusError

if TYPE_CHECKING:
    from ..soul import Soul
    from . import SoulMagics


class OneLine:
    """Makes an exception one line: the cell has shown all there is to see, and our own frames are nobody's business."""

    def _render_traceback_(self) -> list[str]:
        return [f"{type(self).__name__}: {self}"]


class Refused(OneLine, UsageError):
    """A UsageError that a kernel reports as an error: of the plain one it only prints the words, and nbmake and nbval pass the cell."""


# Front ends and runners read the class's name.
Refused.__name__ = UsageError.__name__


class Command:
    """The ground of the magics: the instance that keeps souls, session and traits, and its shell."""

    def __init__(self, magics: SoulMagics) -> None:
        self.magics = magics
        self.shell: Any = magics.shell

    @property
    def in_kernel(self) -> bool:
        """True where outputs go to a front end, False in a terminal or a plain shell."""
        return getattr(self.shell, "kernel", None) is not None

    @property
    def cell(self) -> str:
        """What names the cell that runs, the same when it is run again; "" where nothing does, as in a terminal."""
        parent = self.shell.get_parent() if self.in_kernel else {}
        return str(parent.get("metadata", {}).get("cellId") or "")

    def say(self, text: str) -> None:
        """Print, also on a terminal that cannot show every sign."""
        from ..render.text import for_terminal

        print(for_terminal(text, getattr(sys.stdout, "encoding", None) or "utf-8"))

    def publish(self, data: dict[str, Any], *, metadata: dict[str, Any], display_id: str = "", update: bool = False) -> None:
        """Send a mimebundle to the front end, as a new output or in the place of `display_id`."""
        transient = {"display_id": display_id} if display_id else {}
        self.shell.display_pub.publish(data, metadata, transient=transient, update=update)

    def where(self, words: str) -> str | None:
        """Return the directory a line names; None when it names none and here is no persona."""
        # "%soul DIR;" hides the result; the semicolon is not part of the name.
        if words.endswith(";") and not os.path.exists(words):
            words = words.removesuffix(";").rstrip()
        if not words:
            return os.curdir if compose(os.curdir).found else None
        for meant in (words, os.path.expanduser(words)):
            if os.path.exists(meant):
                return meant
        if words in self.magics.souls:
            return self.magics.souls[words].root
        # {name} and $name are tried last: a directory may really be called so.
        try:
            expanded = self.filled(words)
        except UsageError:
            return words
        return expanded if os.path.exists(expanded) else words

    def filled(self, text: str) -> str:
        """Return the text with {expression} and $name replaced from the notebook's namespace."""
        try:
            return str(DollarFormatter().vformat(text, (), self.shell.user_ns))
        except Exception as error:  # an expression of the user's can raise anything
            raise UsageError(f"{type(error).__name__}: {error}: cannot fill in: define the name, or write {{{{ for a brace") from None

    def compose(self, where: str) -> Soul:
        """Return the soul of a directory; a UsageError that helps when there is none."""
        soul = compose(where)
        if soul.found:
            return soul
        from difflib import get_close_matches

        from ..lint import help_for

        words = help_for(where)
        near = get_close_matches(where, self.magics.souls, 1) if "did you mean" not in words and not os.path.exists(where) else []
        raise UsageError(words + (f"; did you mean {near[0]}?" if near else ""))


def compose(directory: str) -> Soul:
    from ..soul import compose_soul

    return compose_soul(directory)


def parse(magic: Any, line: str, *, elsewhere: Any = None, hint: str = "") -> argparse.Namespace:
    """Parse a magic's line; what is wrong with it becomes one line with the nearest match.

    An option that the magic `elsewhere` takes, and this one does not, is answered with the `hint`.
    """
    name = f"%{magic.parser.prog}"
    try:
        words = _words(line)
        args: argparse.Namespace = magic.parser.parse_args(words)
    except UsageError as error:
        if flag := _of_the_other(words, magic, elsewhere):
            raise UsageError(f"{name}: " + (hint if "{" not in hint else f"{flag} {hint.format(flag=flag)}")) from None
        raise UsageError(f"{name}: {error}{_meant(words, options_of(magic))}; {name}? shows the options") from None
    except ValueError as error:
        raise UsageError(f"{name}: {error}: close the quotes; {name}? shows the options") from None
    return args


def _of_the_other(words: list[str], magic: Any, elsewhere: Any) -> str:
    """Return the first flag that only the other magic takes, "" when there is none."""
    if elsewhere is None:
        return ""
    theirs = options_of(elsewhere).keys() - options_of(magic).keys()
    return next((flag for word in words if (flag := word.partition("=")[0]) in theirs), "")


def _words(line: str) -> list[str]:
    """Split a line at blanks. Quotes around a word hold it together; inside of one, as in JSON, they are characters."""
    split = _without_comment(arg_split(line))
    words = [word[1:-1] if len(word) > 1 and word[0] == word[-1] and word[0] in "'\"" else word for word in split]
    # The ";" that hides a result is no part of a flag's value; where a directory comes last, `where` sees to it.
    if words and any(word.startswith("-") for word in words) and words[-1].endswith(";") and not os.path.exists(words[-1]):
        words[-1] = words[-1].removesuffix(";")
    return [word for word in words if word]


def _without_comment(words: list[str]) -> list[str]:
    """Drop what follows a "#" that stands alone or begins a word, unless a directory is called so."""
    if os.path.exists(" ".join(words)):
        return words
    for place, word in enumerate(words):
        named = os.path.exists(word) or os.path.exists(" ".join(words[: place + 1]))
        if word.startswith("#") and not named:
            return words[:place]
    return words


def _meant(words: list[str], options: Mapping[str, list[str]]) -> str:
    """Return the hint for the first flag that there is not, or the first value that its flag does not take."""
    for word, following in pairwise([*words, ""]):
        flag, equals, value = word.partition("=")
        if flag.startswith("-") and not flag[1:2].isdigit() and flag not in options:
            return nearly(flag, [*options])
        if choices := options.get(flag):
            given = value if equals else following
            if given not in choices:
                return nearly(given, choices)
    return ""


def options_of(magic: Any) -> dict[str, list[str]]:
    """Return the flags of a magic, each with its choices, [] where it has none."""
    actions = magic.parser._actions  # noqa: SLF001  argparse has no public way to list its options
    return {flag: list(action.choices or ()) for action in actions for flag in action.option_strings}


def nearly(word: str, known: list[str]) -> str:
    """Return "; did you mean X?" for the known word nearest to `word`, "" when none is near."""
    from difflib import get_close_matches

    near = get_close_matches(word.partition("=")[0], known, 1, cutoff=0.5) if word else []
    return f"; did you mean {near[0]}?" if near else ""


@contextmanager
def plain_errors() -> Iterator[None]:
    """Turn what keeps a magic from starting into one line; a run that failed keeps its own class."""
    try:
        yield
    except RunFailed:
        raise
    except ToolnexusError as error:
        raise UsageError(str(error)) from None


def local_tokenizer() -> Callable[[str], int] | None:
    """Return the local model's tokenizer when that model already runs; it is never started for this."""
    local = sys.modules.get("toolnexus_nb.embedded.local")
    return local.running_tokenizer() if local else None
