"""Two versions of a file's bytes as a unified diff to look at, secrets masked, and the headings that came in.

Border: none. Any byte may stand in a file, so what is shown here is no patch to apply.
"""

from __future__ import annotations

import difflib
import re
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from typing import Final

from ..masking import mask_pair

_CONTEXT_LINES: Final = 3
_HUNK: Final = re.compile(r"^@@ -(\d+)(.*) \+(\d+)(.*) @@\n")
_ESCAPED: Final = re.compile("[\udc80-\udcff]")
#: `# x`, also inside a list item, which is where `add` puts it.
_ATX: Final = re.compile(r" {0,3}(?:[-*+][ \t]+)*#{1,6}(?:[ \t].*)?")
_SETEXT: Final = re.compile(r" {0,3}(?:=+|-+)[ \t]*")


def masked_diff(before: bytes, after: bytes, name: str, *, existed: bool = True) -> str:
    """Return a unified diff, "" when nothing changes; a file that did not exist is /dev/null.

    Both texts are masked whole before they are compared, so that a changed secret shows as
    changed and is masked on both sides. A carriage return shows as ␍ and a byte that is not
    UTF-8 as U+FFFD.
    """
    return "".join(_diff(*_masked(before, after), name if existed else "/dev/null", name))


def new_headings(before: bytes, after: bytes) -> list[str]:
    """Return the lines, secrets masked, that are headings in Markdown and were not before."""
    old, new = map(_headings, _masked(before, after))
    return [visible.strip() for line in new - old if (visible := _ESCAPED.sub("\ufffd", line))]


def _masked(before: bytes, after: bytes) -> tuple[str, str]:
    # "surrogateescape" keeps bytes apart that would look alike.
    return mask_pair(before.decode(errors="surrogateescape"), after.decode(errors="surrogateescape"))


def _headings(text: str) -> Counter[str]:
    lines = re.split(r"\r\n|\n|\r", text)
    found = Counter(line for line in lines if _ATX.fullmatch(line))
    found.update(above for above, line in pairwise(lines) if above.strip() and _SETEXT.fullmatch(line))
    return found


def _diff(before: str, after: str, old_name: str, new_name: str) -> Iterator[str]:
    """Yield the lines of the diff. Only the part that differs goes to difflib, whose time is quadratic."""
    old, new = _lines(before), _lines(after)
    same = _shared(old, new)
    skipped = max(0, same - _CONTEXT_LINES)
    cut = max(0, _shared(old[same:][::-1], new[same:][::-1]) - _CONTEXT_LINES)
    old, new = old[skipped : len(old) - cut], new[skipped : len(new) - cut]
    for line in difflib.unified_diff(old, new, old_name, new_name, n=_CONTEXT_LINES):
        yield _shown(_HUNK.sub(lambda m: f"@@ -{int(m[1]) + skipped}{m[2]} +{int(m[3]) + skipped}{m[4]} @@\n", line))


def _lines(text: str) -> list[str]:
    """Split at LF only, the line ends kept."""
    *whole, rest = text.split("\n")
    return [f"{line}\n" for line in whole] + ([rest] if rest else [])


def _shared(one: list[str], other: list[str]) -> int:
    """Return how many lines the two have in common from the start."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((i for i, (a, b) in pairs if a != b), min(len(one), len(other)))


def _shown(line: str) -> str:
    visible = _ESCAPED.sub("\ufffd", line).replace("\r", "␍")
    return visible if visible.endswith("\n") else f"{visible}\n\\ No newline at end of file\n"
