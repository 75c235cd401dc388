"""The text of a notes file: an entry added, replaced or removed. Bytes in, bytes out.

Border: none. An entry is a line, with or without its bullet; a text of several lines is one entry
where it begins and ends with a line. What was decoded is only ever shown, never written.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator
from itertools import islice
from typing import Final, NamedTuple

from .masking import mask
from .rules import WHITE

#: How often a text is counted before the answer is "more than".
MOST_PLACES: Final = 1_000
#: How many line numbers an answer names.
MOST_LINES: Final = 8
#: How much of the nearest line an answer shows, in characters.
NEAREST_CHARACTERS: Final = 80

_BOM: Final = b"\xef\xbb\xbf"
#: What may stand before an entry on its line: an indent, bullets, a number, a box to tick.
_BULLETS: Final = re.compile(rb"[ \t]*(?:(?:[-*+]|\d{1,9}[.)])[ \t]+)*(?:\[[ xX]\][ \t]+)?")
_WHITE: Final = b" \t\r\n\v\f"
_LINE_ENDS: Final = b"\r\n"

#: Bounds of the search for the nearest line: it looks at so many lines, so far into each, and
#: compares the likeliest with difflib, whose time is quadratic.
_NEAREST_LINES: Final = 5_000
_NEAREST_WIDTH: Final = 300
_LIKELIEST: Final = 20
_LIKENESS: Final = 0.6


class EditError(Exception):
    """Why an edit was not made, in words for the model."""


class _Place(NamedTuple):
    """Where a text stands, in bytes: all of it, and from `first` to `last` without the line ends around it."""

    start: int
    end: int
    first: int
    last: int


def added(before: bytes, text: str) -> bytes:
    """Put an entry behind what stands, whose trailing white space goes, as Go's TrimSpace counts it.

    Bytes that are not UTF-8 pass through "surrogateescape" unchanged, and none of them is white.
    A file that has CRLF anywhere gets its new line ends as CRLF; the entry's own stay as given.
    """
    kept = before.decode(errors="surrogateescape").rstrip(WHITE).encode(errors="surrogateescape")
    end = b"\r\n" if b"\r\n" in before else b"\n"
    return kept + (end if kept else b"") + b"- " + text.encode() + end


def replaced(before: bytes, text: str, with_: str) -> bytes:
    """Put `with_` in place of the entry that equals `text`, else of the one place where it stands.

    The bullet stays, and so does a line end at an edge of `text` that `with_` lacks: otherwise
    two entries would become one. Raises EditError where the text is nowhere or in several places.
    """
    needle, new = _needle(before, text, with_)
    at = _place(before, needle)
    start = at.first if needle[:1] in _LINE_ENDS and not new.startswith((b"\r", b"\n")) else at.start
    end = at.last if needle.endswith(b"\n") and not new.endswith(b"\n") else at.end
    return before[:start] + new + before[end:]


def removed(before: bytes, text: str) -> bytes:
    """Take the entry that equals `text` out with its bullet and its line, else the one place where the text stands.

    Of the blank lines that then meet, those that would be too many go. Raises EditError as `replaced` does.
    """
    needle, _ = _needle(before, text)
    at = _place(before, needle)
    if _is_entry(before, at):
        return _without_lines(before, _line_start(before, at.first), _line_end(before, at.last))
    # The line ends at the edges stay, or two entries would become one.
    start, end = (at.first, at.last) if at.first < at.last else (at.start, at.end)
    return before[:start] + before[end:]


def _needle(before: bytes, text: str, with_: str = "") -> tuple[bytes, bytes]:
    """Return the bytes to look for and those to put in their place.

    A model writes LF whatever it read, and may copy a line end that the last line lacks: what is
    not found as it is, is looked for with CRLF line ends and without those at its edges.
    """
    old, new = text.encode(), with_.encode()
    crlf = tuple(part.replace(b"\r\n", b"\n").replace(b"\n", b"\r\n") for part in (old, new))
    for one, other in ((old, new), (crlf[0], crlf[1])):
        if one in before:
            return one, other
    for one, other in ((old, new), (crlf[0], crlf[1])):
        if (core := one.strip(_LINE_ENDS)) and core in before:
            return core, other.strip(_LINE_ENDS)
    raise EditError(f"not found: {text}{_nearest(before, text)}")


def _place(before: bytes, needle: bytes) -> _Place:
    """Return the first entry that equals the needle, else its only place. Raises EditError."""
    places = list(islice(_places(before, needle), MOST_PLACES + 1))
    entry = next((at for at in places if _is_entry(before, at)), None)
    if entry is not None or len(places) == 1:
        return entry or places[0]
    count = str(len(places)) if len(places) <= MOST_PLACES else f"more than {MOST_PLACES}"
    raise EditError(f"ambiguous text: it stands {count} times, {_lines_of(before, places)}: copy the whole line that you mean")


def _places(before: bytes, needle: bytes) -> Iterator[_Place]:
    """Yield where the needle stands, from the start; places may overlap."""
    head = len(needle) - len(needle.lstrip(_LINE_ENDS))
    tail = len(needle) - len(needle.rstrip(_LINE_ENDS)) if head < len(needle) else 0
    at = before.find(needle)
    while at >= 0:
        yield _Place(at, at + len(needle), at + head, at + len(needle) - tail)
        at = before.find(needle, at + 1)


def _is_entry(before: bytes, at: _Place) -> bool:
    """Tell whether the text is all that its line or lines say, apart from the bullet and the white space around."""
    text = before[at.first : at.last]
    if not text.strip(_WHITE):
        return False
    first, last = at.last - len(text.lstrip(_WHITE)), at.first + len(text.rstrip(_WHITE))
    above, below = before[_line_start(before, first) : first], before[last : _line_end(before, last)]
    return bool(_BULLETS.fullmatch(above)) and not below.strip(_WHITE)


def _line_start(before: bytes, at: int) -> int:
    start = before.rfind(b"\n", 0, at) + 1
    return len(_BOM) if start == 0 and at >= len(_BOM) and before.startswith(_BOM) else start


def _line_end(before: bytes, at: int) -> int:
    """Return where the line of that byte ends, its line end included."""
    return before.find(b"\n", at) + 1 or len(before)


def _without_lines(before: bytes, start: int, end: int) -> bytes:
    """Take whole lines out. Where blank lines meet the shorter run of them goes, and so does one that meets an end of the file."""
    head, above = _split_above(before[:start])
    below, tail = _split_below(before[end:])
    if not tail or (head.removeprefix(_BOM) and above.count(b"\n") < below.count(b"\n")):
        above = b""
    else:
        below = b""
    return head + above + below + tail


def _split_above(head: bytes) -> tuple[bytes, bytes]:
    """Split whole lines into those up to the last that says something, and the blank ones after it."""
    solid = len(head.rstrip(_WHITE))
    at = head.find(b"\n", solid) + 1 if head[:solid].removeprefix(_BOM) else solid
    return head[:at], head[at:]


def _split_below(tail: bytes) -> tuple[bytes, bytes]:
    """Split into the blank lines at the start, and the rest."""
    white = len(tail) - len(tail.lstrip(_WHITE))
    at = len(tail) if white == len(tail) else tail.rfind(b"\n", 0, white) + 1
    return tail[:at], tail[at:]


def _lines_of(before: bytes, places: list[_Place]) -> str:
    """Name the lines of the first places, counted from 1, each line once."""
    numbers: list[int] = []
    line, last = 1, 0
    for at in places:
        line, last = line + before.count(b"\n", last, at.first), at.first
        if line not in numbers[-1:]:
            numbers.append(line)
        if len(numbers) > MOST_LINES:
            return f"first in lines {', '.join(map(str, numbers[:MOST_LINES]))}"
    *others, final = map(str, numbers)
    return f"in lines {', '.join(others)} and {final}" if others else f"in line {final}"


def _nearest(before: bytes, text: str) -> str:
    """Return words that name the line most like the text, "" where none is like it; secrets in it are masked."""
    shown = mask(before.decode(errors="replace")).split("\n", _NEAREST_LINES)[:_NEAREST_LINES]
    wanted = mask(text).strip()[:_NEAREST_WIDTH]
    lines = [line.strip()[:_NEAREST_WIDTH] for line in shown]
    pairs = _pairs(wanted)
    likely = sorted(range(len(lines)), key=lambda n: len(pairs & _pairs(lines[n])), reverse=True)[:_LIKELIEST]
    likeness, number = max(((_likeness(wanted, lines[n]), n) for n in likely), default=(0.0, 0), key=lambda found: (found[0], -found[1]))
    if likeness < _LIKENESS:
        return ""
    line = lines[number]
    cut = line if len(line) <= NEAREST_CHARACTERS else f"{line[: NEAREST_CHARACTERS - 1]}…"
    return f": the nearest is line {number + 1}: {cut}"


def _pairs(text: str) -> set[str]:
    low = text.casefold()
    return {low[at : at + 2] for at in range(len(low) - 1)}


def _likeness(wanted: str, line: str) -> float:
    """Return from 0 to 1 how alike they are; a text that is nearly a part of a long line is like it."""
    matcher = difflib.SequenceMatcher(None, line.casefold(), wanted.casefold(), autojunk=False)
    shared = matcher.find_longest_match().size
    return max(matcher.ratio(), shared / max(1, len(wanted)) if shared > 2 else 0.0)
