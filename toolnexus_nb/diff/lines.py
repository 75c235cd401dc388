"""A unified diff of two texts in about linear time, however long and hostile they are.

Border: none; text in, text out. difflib alone is quadratic and worse; here equal ends are cut off
first, lines that occur once on both sides anchor the rest (as in a patience diff), and difflib only
sees the small gaps between them.
"""

from __future__ import annotations

import difflib
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Final, NamedTuple

#: Lines of a diff that are written out.
MOST_SHOWN_LINES: Final = 4_000
_CONTEXT: Final = 3
#: difflib is asked about gaps up to this many pairs of lines: its worst case is cubic.
_GAP_PAIRS: Final = 4_000
#: Lines, and pairs of them, that are looked at in one text before the rest is called replaced.
_EFFORT: Final = 400_000
_CHUNK: Final = 65_536


class Unified(NamedTuple):
    """A unified diff, and how many lines it adds and removes in all, shown or not."""

    diff: str
    added: int
    removed: int


class Sides(NamedTuple):
    """Two texts without the lines they begin and end with alike, and up to three of those for context.

    `line` is the number, from 1, of the first line that may differ. Each line has its line end.
    """

    line: int
    head: list[str]
    old: str
    new: str
    tail: list[str]

    @property
    def lines(self) -> int:
        """How many lines a comparison line by line has to look at, on the longer side."""
        return max(self.old.count("\n"), self.new.count("\n"))


def unified(ends: Sides, name: str, *, by_line: bool) -> Unified:
    """Return the unified diff; as one block replaced, which costs nothing, unless `by_line`."""
    removed, added = ends.old.count("\n"), ends.new.count("\n")
    if not removed and not added:
        return Unified("", 0, 0)
    if by_line:
        body = _hunks(ends)
        removed, added = (sum(line.startswith(sign) for line in body) for sign in "-+")
        body = _clipped(body)
    else:
        body = _one_block(ends, removed, added)
    return Unified("\n".join([f"--- before/{name}", f"+++ after/{name}", *body]), added, removed)


def sides(old: str, new: str) -> Sides:
    r"""Cut off what both begin and end with, split at \n only: other line ends are text here."""
    # A line end behind the last line makes every line alike; an empty text has no line at all.
    old, new = old and old + "\n", new and new + "\n"
    same = common_prefix(old, new)
    start = old.rfind("\n", 0, same) + 1
    suffix = _common_suffix(old, new, min(len(old), len(new)) - same)
    end = old.find("\n", len(old) - suffix) + 1 if suffix else len(old)
    head = start
    for _ in range(_CONTEXT):
        head = old.rfind("\n", 0, max(0, head - 1)) + 1
    tail = old[end:]
    line = old.count("\n", 0, start) + 1
    return Sides(line, _lines(old[head:start]), old[start:end], new[start : len(new) - len(tail)], _lines(tail, _CONTEXT))


def _lines(text: str, most: int = -1) -> list[str]:
    lines = text.split("\n", most)
    return lines[:-1] if most < 0 or len(lines) <= most else lines[:most]


def _hunks(ends: Sides) -> list[str]:
    """Return the lines of a unified diff, without its two headers."""
    old, new = ([*ends.head, *_lines(middle), *ends.tail] for middle in (ends.old, ends.new))
    offset = ends.line - len(ends.head)
    body: list[str] = []
    for group in _Matcher(old, new).get_grouped_opcodes(_CONTEXT):
        (_, i, _, j, _), (_, _, i_end, _, j_end) = group[0], group[-1]
        body.append(f"@@ -{_range(i, i_end, offset)} +{_range(j, j_end, offset)} @@")
        for tag, i, i_end, j, j_end in group:
            if tag == "equal":
                body += [" " + line for line in old[i:i_end]]
            else:
                body += ["-" + line for line in old[i:i_end]]
                body += ["+" + line for line in new[j:j_end]]
    return body


def _one_block(ends: Sides, removed: int, added: int) -> list[str]:
    """Return one hunk that takes out all the old lines and puts in all the new ones, as far as it is shown."""
    half = MOST_SHOWN_LINES // 2
    return [
        f"@@ -{_range(0, removed, ends.line)} +{_range(0, added, ends.line)} @@",
        f"\\ too many lines to compare one by one: {removed} and {added}",
        *_shown("-", ends.old, removed, half, "removed"),
        *_shown("+", ends.new, added, half, "added"),
    ]


def _shown(sign: str, text: str, count: int, most: int, word: str) -> list[str]:
    lines = [sign + line for line in _lines(text, most)]
    return lines if count <= most else [*lines, f"\\ {count - most} more {word} lines are not shown"]


def _clipped(body: list[str]) -> list[str]:
    more = len(body) - MOST_SHOWN_LINES
    return body if more <= 0 else [*body[:MOST_SHOWN_LINES], f"\\ {more} more lines of this diff are not shown"]


def _range(start: int, end: int, offset: int) -> str:
    # An empty range names the line before it: so it is in every unified diff.
    count = end - start
    first = start + offset if count else start + offset - 1
    return f"{first}" if count == 1 else f"{first},{count}"


# --- which lines belong together ---------------------------------------------------------------


class _Matcher(difflib.SequenceMatcher[str]):
    """difflib's grouping and opcodes over blocks that were found in about linear time."""

    def __init__(self, old: list[str], new: list[str]) -> None:
        super().__init__(None, autojunk=False)
        self._old, self._new = old, new

    def get_matching_blocks(self) -> list[difflib.Match]:
        blocks: list[difflib.Match] = []
        i = j = size = 0
        for a, b, length in sorted(_blocks(self._old, self._new)):
            if (a, b) == (i + size, j + size):
                size += length
                continue
            if size:
                blocks.append(difflib.Match(i, j, size))
            i, j, size = a, b, length
        if size:
            blocks.append(difflib.Match(i, j, size))
        return [*blocks, difflib.Match(len(self._old), len(self._new), 0)]


def _blocks(old: Sequence[str], new: Sequence[str]) -> Iterator[tuple[int, int, int]]:
    """Yield (index in old, index in new, length) of the runs of lines that stay, in no order."""
    gaps = [(0, len(old), 0, len(new))]
    effort = _EFFORT
    while gaps:
        i, i_end, j, j_end = gaps.pop()
        length = _equal_run(old[i:i_end], new[j:j_end])
        yield i, j, length
        i, j = i + length, j + length
        length = _equal_run(old[i:i_end][::-1], new[j:j_end][::-1])
        i_end, j_end = i_end - length, j_end - length
        yield i_end, j_end, length
        size = (i_end - i) * (j_end - j)
        effort -= i_end - i + j_end - j
        if not size or effort < 0:
            continue
        if anchors := _anchors(old[i:i_end], new[j:j_end]):
            edges = [(i - 1, j - 1), *((i + a, j + b) for a, b in anchors), (i_end, j_end)]
            yield from ((a, b, 1) for a, b in edges[1:-1])
            gaps += [(a + 1, c, b + 1, d) for (a, b), (c, d) in pairwise(edges) if a + 1 < c and b + 1 < d]
        elif size <= _GAP_PAIRS:
            effort -= size
            matcher = difflib.SequenceMatcher(None, old[i:i_end], new[j:j_end], autojunk=False)
            yield from ((i + a, j + b, length) for a, b, length in matcher.get_matching_blocks())


def _equal_run(a: Sequence[str], b: Sequence[str]) -> int:
    return next((at for at, (one, other) in enumerate(zip(a, b, strict=False)) if one != other), min(len(a), len(b)))


def _anchors(old: Sequence[str], new: Sequence[str]) -> list[tuple[int, int]]:
    """Return the longest rising run of lines that stand once on each side."""
    once = {line for line, count in Counter(old).items() if count == 1} & {line for line, count in Counter(new).items() if count == 1}
    places = {line: j for j, line in enumerate(new) if line in once}
    return _longest_rising([(i, places[line]) for i, line in enumerate(old) if line in once])


def _longest_rising(pairs: list[tuple[int, int]]) -> list[tuple[int, int]]:
    ends: list[int] = []
    last: list[int] = []
    before: list[int] = []
    for index, (_, j) in enumerate(pairs):
        at = bisect_left(ends, j)
        before.append(last[at - 1] if at else -1)
        ends[at : at + 1] = [j]
        last[at : at + 1] = [index]
    run = []
    index = last[-1] if last else -1
    while index >= 0:
        run.append(pairs[index])
        index = before[index]
    return run[::-1]


# --- what two texts share at their ends --------------------------------------------------------


def common_prefix(a: str, b: str) -> int:
    """Return how many characters both begin with; compared in blocks, since the texts may be long."""
    at, end = 0, min(len(a), len(b))
    while at < end and a[at : at + _CHUNK] == b[at : at + _CHUNK]:
        at += _CHUNK
    low, high = min(at, end), min(at + _CHUNK, end)
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if a[low:middle] == b[low:middle] else (low, middle - 1)
    return low


def _common_suffix(a: str, b: str, most: int) -> int:
    """Return how many characters, at most `most`, both end with."""
    at = 0
    while at < most:
        size = min(_CHUNK, most - at)
        one, other = a[len(a) - at - size : len(a) - at], b[len(b) - at - size : len(b) - at]
        if one != other:
            return at + common_prefix(one[::-1], other[::-1])
        at += size
    return at
