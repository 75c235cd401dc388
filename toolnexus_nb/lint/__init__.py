"""What the reader of a persona would miss: in its files, in their names, and in the folders around them.

Border: `disk` lists folders. Nothing here alters a soul, stops it or raises.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Final

from ..disk import Capped
from ..soul import BOOTSTRAP_ORDER, TRUNCATION_NOTICE, Section, Skipped, Soul
from . import marks, names
from .marks import Mark, Severity

#: Findings of one kind in one file that are told one by one; the rest are counted.
MOST: Final[dict[Severity, int]] = {"warning": 20, "note": 6}
_MOST_LINES: Final = 20
_COUNTED: Final = 200
#: Characters of one soul that are looked through: one file at the cap, in a few tenths of a second.
SCAN_CHARACTERS: Final = 2_100_000


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing a reader would miss, in one sentence: what it is and what mends it.

    `kind` is a short slug. `file` is one of the seven names, "" where the directory is meant.
    `line` is the line of the file, from 1, or None. The message holds at most 60 characters
    of a file or a name, controls made visible, and never a secret.
    """

    kind: str
    file: str
    line: int | None
    message: str
    severity: Severity


def findings(soul: Soul) -> tuple[Finding, ...]:
    """Return what a reader of this persona would miss: file by file, then the directory."""
    shares = _shares([section.characters for section in soul.sections])
    found: list[Finding] = []
    for section, reading, share in zip(soul.sections, soul.readings, shares, strict=True):
        found += _of_file(section, reading, share)
    return (*found, *_of_directory(soul))


def near_misses(directory: str | os.PathLike[str]) -> tuple[Finding, ...]:
    """Return the files whose names are almost one of the seven, with the command that mends each."""
    return tuple(_near_misses(os.fsdecode(directory)))


def help_for(directory: str | os.PathLike[str]) -> str:
    """Return one line, "subject: fact: cure", for a directory that cannot be shown; "" when it can."""
    return names.help_for(os.fsdecode(directory))


def _shares(lengths: list[int]) -> list[int]:
    """Divide SCAN_CHARACTERS: what short files leave over goes to the long ones."""
    shares, left = [0] * len(lengths), SCAN_CHARACTERS
    for place, index in enumerate(sorted(range(len(lengths)), key=lengths.__getitem__)):
        shares[index] = min(lengths[index], left // (len(lengths) - place))
        left -= shares[index]
    return shares


# --- one file ----------------------------------------------------------------------------------


def _of_file(section: Section, reading: Capped | Skipped, share: int) -> Iterator[Finding]:
    name = section.name
    yield from (Finding("link", name, None, *told) for told in names.link_facts(section.root, name, _outside_target(section)))
    if isinstance(reading, Skipped):
        return
    if wide := _wide(reading[0]):
        # Every second character is a NUL then: this one finding says it all.
        fact = f"the file is {wide}, and the model is sent NULs between its letters"
        yield Finding("encoding", name, 1, f"{fact}: save it as UTF-8", "warning")
        return
    yield from _encoding(section, reading[0])
    body = section.text.removesuffix(TRUNCATION_NOTICE) if section.truncation else section.text
    looked_at, whole = body[:share], section.lead + body[:share]
    for alike in marks.marks(looked_at, name):
        yield from _told(alike, name, whole, len(section.lead))
    if len(body) > share:
        fact = f"only the first {share} of {len(body)} characters were looked through for hints"
        yield Finding("capped", name, None, f"{fact}: shorten the file to have all of it looked through", "note")


def _outside_target(section: Section) -> str:
    return str(section.resolved_path) if section.leaves_directory else ""


def _told(alike: Iterable[Mark], name: str, text: str, shift: int) -> Iterator[Finding]:
    """Turn marks of one kind into findings: equal sentences become one, and after MOST they are counted."""
    few = sorted(islice(alike, _COUNTED))
    same: dict[str, list[int]] = {}
    for mark, line in zip(few, _line_numbers(text, [mark.offset + shift for mark in few]), strict=True):
        same.setdefault(mark.message, []).append(line)
    most = MOST[few[0].severity] if few else 0
    for message, where in islice(same.items(), most):
        yield Finding(few[0].kind, name, where[0], message + _also(where), few[0].severity)
    if len(same) > most:
        more = f"at least {len(same) - most}" if len(few) == _COUNTED else str(len(same) - most)
        where = [lines[0] for lines in islice(same.values(), most, None)]
        yield Finding(few[0].kind, name, where[0], f"and {more} more like this, on {_lines(where)}", few[0].severity)


def _line_numbers(text: str, offsets: list[int]) -> Iterator[int]:
    """Yield the line, from 1, of each of the rising offsets: one pass over the text in all."""
    line, last = 1, 0
    for offset in offsets:
        line += text.count("\n", last, offset)
        last = offset
        yield line


def _also(where: list[int]) -> str:
    others = [line for line in where[1:] if line != where[0]]
    if others:
        return f" (also on {_lines(others)})"
    return f" ({len(where)} times on this line)" if len(where) > 1 else ""


def _lines(lines: list[int]) -> str:
    different = list(dict.fromkeys(lines))
    told = ", ".join(map(str, different[:_MOST_LINES])) + (" …" if len(different) > _MOST_LINES else "")
    return f"line{'s' if len(different) > 1 else ''} {told}"


def _encoding(section: Section, data: bytes) -> Iterator[Finding]:
    if data.startswith(b"\xef\xbb\xbf"):
        fact = "the file begins with a byte order mark (U+FEFF), which is sent"
        yield Finding("encoding", section.name, 1, f"{fact}: save it as UTF-8 without BOM", "warning")
    if count := section.replaced_bytes - _split_bytes(section):
        first = section.first_replaced_byte or 0
        which = f"{count} bytes are not UTF-8, the first" if count > 1 else "1 byte is not UTF-8,"
        fact = f"{which} 0x{data[first]:02X} at byte {first}; each is sent as U+FFFD"
        yield Finding("encoding", section.name, data.count(b"\n", 0, first) + 1, f"{fact}: save the file as UTF-8", "warning")


def _wide(data: bytes) -> str:
    """Name the two-byte encoding of the file by its mark, or by a NUL in every second place; "" for any other."""
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        return "UTF-16 with a byte order mark"
    head = data[:4_000]
    even, odd = sorted((head[0::2].count(0), head[1::2].count(0)))
    return "UTF-16 without a byte order mark" if len(head) >= 8 and odd * 10 > len(head) * 3 and even * 20 < len(head) else ""


def _split_bytes(section: Section) -> int:
    """Count the U+FFFD that come from the cut, not from the file: a character the cap fell inside."""
    if section.truncation is None or not section.truncation.split_character:
        return 0
    kept = section.text.removesuffix(TRUNCATION_NOTICE)
    return min(len(kept) - len(kept.rstrip("\ufffd")), section.truncation.split_character - 1)


# --- the directory -----------------------------------------------------------------------------


def _of_directory(soul: Soul) -> Iterator[Finding]:
    lacking = [section.name for section in soul.sections if not section.found]
    yield from islice(_near_misses(soul.root), MOST["warning"])
    severity: Severity = "warning" if len(lacking) == len(BOOTSTRAP_ORDER) else "note"
    for message in names.elsewhere(soul.root, lacking):
        yield Finding("elsewhere", "", None, message, severity)
    for message in names.not_read(soul.root):
        yield Finding("not-read", "", None, message, "note")


def _near_misses(directory: str) -> Iterator[Finding]:
    for miss in names.near_names(directory):
        yield Finding("near-miss", "", None, miss.message, "note" if miss.harmless else "warning")
