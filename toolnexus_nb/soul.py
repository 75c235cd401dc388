"""A persona directory composed into one frozen system prompt: bytes in, one value out.

Source of the rules: toolnexus (Go), SPEC 7E, ComposeSoul. Border: `disk` reads, nothing here opens a file.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NamedTuple, overload

from . import disk
from .rules import BOOTSTRAP_ORDER, CAP_BYTES, TRUNCATION_NOTICE, WHITE
from .section import Location, Section, Status, Truncation, resolved

__all__ = [
    "BOOTSTRAP_ORDER",
    "CAP_BYTES",
    "TRUNCATION_NOTICE",
    "Location",
    "Section",
    "Skipped",
    "Soul",
    "Status",
    "Truncation",
    "compose_soul",
]

#: How much of the text behind the cap is read, to show what was lost.
LOST_HEAD_BYTES: Final = 1_024
_READ_BYTES: Final = CAP_BYTES + LOST_HEAD_BYTES

_ASCII_WHITE: Final = b"\t\n\v\f\r "
_WIDE_WHITE: Final = tuple(character.encode() for character in WHITE if not character.isascii())
#: What stands between a heading and its body, and between two sections.
_GAP: Final = b"\n\n"
_HEADINGS: Final = tuple((name, f"## {name}".encode()) for name in BOOTSTRAP_ORDER)
_ESCAPED: Final = re.compile("[\udc80-\udcff]+")


class Skipped(NamedTuple):
    """Why a name has no part in the prompt."""

    status: Status
    reason: str


_ABSENT: Final = Skipped("absent", "no such file")


@dataclass(frozen=True, slots=True, repr=False)
class Soul:
    """One frozen system prompt and the account of how it came about.

    Unpacks as ``text, found``. `sections` holds the seven in BOOTSTRAP_ORDER, found or not.
    """

    text: str
    root: str
    readings: tuple[disk.Capped | Skipped, ...]
    #: Filled on first use: an agent that only wants the text does not pay for the account.
    _sections: list[Section] = field(default_factory=list, init=False, compare=False)

    @property
    def sections(self) -> tuple[Section, ...]:
        """The account of all seven files, in BOOTSTRAP_ORDER."""
        if not self._sections:
            self._sections[:] = _sections(self.readings, self.root)
        return tuple(self._sections)

    @property
    def found(self) -> list[str]:
        """The names that were present, in the order they were composed."""
        return [section.name for section in self.sections if section.found]

    @property
    def skipped(self) -> list[str]:
        return [section.name for section in self.sections if not section.found]

    @property
    def truncated(self) -> list[str]:
        return [section.name for section in self.sections if section.truncation]

    @property
    def directory(self) -> Path:
        return Path(self.root)

    @property
    def name(self) -> str:
        """The base name of the resolved directory, "/" for the root."""
        return os.path.basename(resolved(self.root)) or os.sep

    @property
    def digest(self) -> str:
        """sha256 of the text in UTF-8, as 64 hexadecimal digits."""
        return hashlib.sha256(self.text.encode()).hexdigest()

    def section(self, name: str) -> Section:
        """Return the section of that file name; KeyError when it is none of the seven."""
        for section in self.sections:
            if section.name == name:
                return section
        raise KeyError(name)

    def stale(self) -> list[str]:
        """Name the files that changed on disk since this soul was composed; [] when none did.

        The files are read again. A change behind the cap counts when it changes the size.
        """
        now = compose_soul(self.root)
        return [
            before.name
            for before, after in zip(self.sections, now.sections, strict=True)
            if (before.status, before.size_bytes, before.text) != (after.status, after.size_bytes, after.text)
        ]

    @overload
    def locate(self, where: int) -> Location: ...
    @overload
    def locate(self, where: str, line: int, column: int = 1) -> int: ...

    def locate(self, where: int | str, line: int = 1, column: int = 1) -> Location | int:
        """Turn an offset of the prompt into (file, line, column), and back.

        ``locate(1_234)`` gives the Location of that character of `text`;
        ``locate("SOUL.md", 12, 3)`` gives the offset of that place. Raises IndexError for
        an offset, ValueError for a place, that the prompt does not hold.
        """
        if isinstance(where, str):
            section = next((s for s in self.sections if s.name == where), None)
            if section is None or section.span is None:
                raise ValueError(f"{where} is not in the prompt: it has {', '.join(self.found) or 'no sections'}")
            return section.span[0] + section.offset(line, column)
        if not 0 <= where < len(self.text):
            raise IndexError(f"offset {where} is not in the prompt: it has {len(self.text)} characters")
        # The last span ends where the text does, so there is always one.
        return _place(next(s for s in self.sections if s.span and where < s.span[1]), where)

    def locate_line(self, line: int) -> Location:
        """Return the Location at which a line of the prompt begins; lines count from 1.

        Raises IndexError for a line that the prompt does not hold.
        """
        lines = self.text.split("\n")
        if not 1 <= line <= len(lines):
            raise IndexError(f"line {line} is not in the prompt: it has {len(lines)} lines")
        offset = sum(map(len, lines[: line - 1])) + line - 1
        # Behind the last newline of an empty last body stands no character of its own.
        return self.locate(min(offset, max(0, len(self.text) - 1)))

    def __iter__(self) -> Iterator[str | list[str]]:
        yield self.text
        yield self.found

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return f"<Soul {self.name!r}: {len(self.found)} of 7 files, {len(self.text)} characters, sha256 {self.digest[:12]}>"


def compose_soul(directory: str | os.PathLike[str]) -> Soul:
    """Read a persona directory into one frozen system prompt.

    Files are taken in BOOTSTRAP_ORDER; an absent one is skipped. Each is cut at
    CAP_BYTES (2 097 152, counted before decoding) and says so when it is cut. A file
    that cannot be read is skipped too, and its Section says why: nothing is raised.
    Unpacks as ``soul, found = compose_soul(directory)``.

    Source: toolnexus SPEC 7E, ComposeSoul.
    """
    root = _absolute(os.fsdecode(directory))
    readings: list[disk.Capped | Skipped] = []
    parts: list[bytes] = []
    for name, heading in _HEADINGS:
        try:
            reading = disk.read_capped(f"{root}/{name}", _READ_BYTES)
        except FileNotFoundError:
            readings.append(_ABSENT)
        except (OSError, ValueError) as error:
            readings.append(_skipped(error))
        else:
            readings.append(reading)
            # The same gap stands behind a heading and between two sections.
            parts += (heading, _body(reading))
    prompt = _GAP.join(parts)
    # Up to 2 MB each: freed before decoding, which needs the room.
    parts.clear()
    return Soul(_text(prompt), root, tuple(readings))


def _body(reading: disk.Capped) -> bytes:
    """Return the bytes of the body: as far as the file is kept, the notice where it is cut, trimmed."""
    data, size, _ = reading
    if size > CAP_BYTES:
        data = data[:CAP_BYTES] + TRUNCATION_NOTICE.encode()
    body = data.strip(_ASCII_WHITE)
    # The ends are looked at first: nearly always they are ASCII, and no wider white space is.
    if body and (body[0] > 0x7F or body[-1] > 0x7F) and (body.startswith(_WIDE_WHITE) or body.endswith(_WIDE_WHITE)):
        return _decode(body)[0].strip(WHITE).encode()
    return body


def _text(prompt: bytes) -> str:
    """Decode the whole prompt at once, which is quicker than each section on its own."""
    try:
        return prompt.decode()
    except UnicodeDecodeError:
        # By lines: the pieces of a whole file that is no text take twenty times its size.
        return "\n".join(_decode(line)[0] for line in prompt.split(b"\n"))


def _sections(readings: tuple[disk.Capped | Skipped, ...], root: str) -> Iterator[Section]:
    end = 0
    for name, reading in zip(BOOTSTRAP_ORDER, readings, strict=True):
        if isinstance(reading, Skipped):
            yield Section(name, *reading, root)
            continue
        section = _section(name, root, reading, end + (len(_GAP) if end else 0) + len(f"## {name}\n\n"))
        yield section
        end = section.span[1] if section.span else end


def _section(name: str, root: str, reading: disk.Capped, start: int) -> Section:
    data, size, target = reading
    text = _decode(_body(reading))[0]
    kept = data[:CAP_BYTES]
    decoded, first_bad, bad = _decode(kept)
    return Section(
        name,
        "found",
        "",
        root,
        text=text,
        span=(start, start + len(text)),
        size_bytes=size,
        kept_bytes=len(kept),
        replaced_bytes=bad,
        first_replaced_byte=first_bad,
        truncation=_truncation(reading, decoded) if size > CAP_BYTES else None,
        link_target=target,
        lead=decoded[: len(decoded) - len(decoded.lstrip(WHITE))],
    )


def _decode(data: bytes) -> tuple[str, int | None, int]:
    """Return the text, the offset of the first byte that is not UTF-8, and how many there are.

    Each such byte becomes one U+FFFD, as in Go. errors="replace" would merge the bytes of
    one broken sequence; "surrogateescape" keeps one mark a byte, and no other surrogate can
    come out of a UTF-8 decoder.
    """
    try:
        return data.decode(), None, 0
    except UnicodeDecodeError as error:
        escaped = data.decode(errors="surrogateescape")
        count = sum(len(run) for run in _ESCAPED.findall(escaped))
        return _ESCAPED.sub(_replacement, escaped), error.start, count


def _replacement(run: re.Match[str]) -> str:
    # By runs: a call for each of two million bad bytes would take seconds.
    return "\ufffd" * len(run[0])


def _truncation(reading: disk.Capped, kept: str) -> Truncation:
    data, size, _ = reading
    before, length = _split_character(data)
    # The part of a split character that was kept stands in the text as one U+FFFD a byte.
    whole = kept[: len(kept) - before]
    return Truncation(
        at_byte=CAP_BYTES,
        line=whole.count("\n") + 1,
        column=len(whole) - whole.rfind("\n"),
        lost_bytes=size - CAP_BYTES,
        split_character=length,
        lost_head=_decode(data[CAP_BYTES - before :])[0].rstrip("\ufffd"),
    )


def _split_character(data: bytes) -> tuple[int, int]:
    """Return (bytes before the cap, length in bytes) of the character the cap falls in, else (0, 0)."""
    for before in (1, 2, 3):
        start = CAP_BYTES - before
        for length in range(before + 1, 5):
            try:
                if len(data[start : start + length].decode()) == 1:
                    return before, length
            except UnicodeDecodeError:
                continue
    return 0, 0


def _place(section: Section, where: int) -> Location:
    start, end = section.span or (0, 0)
    if start <= where < end:
        return section.locate(where - start)
    return Location(section.name, 0, max(1, where - start + 1 + len(f"## {section.name}\n\n")))


def _skipped(error: OSError | ValueError) -> Skipped:
    if isinstance(error, NotADirectoryError):
        return Skipped("absent", "the path is not a directory")
    if isinstance(error, disk.NotRegular):
        return Skipped("not_regular", str(error))
    return Skipped("unreadable", (error.strerror if isinstance(error, OSError) else str(error)) or "cannot be read")


def _absolute(directory: str) -> str:
    if os.path.isabs(directory):
        return directory
    try:
        return os.path.join(os.getcwd(), directory)
    except OSError:
        # The working directory itself is gone; the relative path still says what was meant.
        return directory or "."
