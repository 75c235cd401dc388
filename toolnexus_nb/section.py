"""The account of one of the seven files: what became of it, and where each character stands.

Border: values only; `soul` makes them.
"""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NamedTuple

from .rules import TRUNCATION_NOTICE

Status = Literal["found", "absent", "unreadable", "not_regular"]


class Location(NamedTuple):
    """A place in a file of the persona: line and column count from 1, columns in characters.

    Line 0 is the `## <file>` heading and the blank lines around it, which stand in no file.
    """

    file: str
    line: int
    column: int


@dataclass(frozen=True, slots=True)
class Truncation:
    """Where a file over the cap was cut.

    `at_byte` is the number of bytes kept; `line` and `column` are the place of the first
    character that is not whole in the prompt. `split_character` is the length in bytes of
    the character the cut fell inside, 0 when it fell between two. `lost_head` is the
    beginning of the text that is not sent, `lost_bytes` the length of all of it.
    """

    at_byte: int
    line: int
    column: int
    lost_bytes: int
    split_character: int
    lost_head: str


@dataclass(frozen=True, slots=True, repr=False)
class Section:
    """What became of one of the seven files.

    `text` is the body as sent, trimmed, without its heading; `span` is its (start, end) in
    the characters of `Soul.text`, None when the file was skipped. Sizes and offsets are
    bytes of the file: `size_bytes` on disk, `kept_bytes` after the cap, `replaced_bytes`
    that were not UTF-8 (each is sent as one U+FFFD), `first_replaced_byte` the offset of
    the first. `reason` says in words why a file was skipped; "" when it was found.
    """

    name: str
    status: Status
    reason: str
    root: str
    text: str = ""
    span: tuple[int, int] | None = None
    size_bytes: int = 0
    kept_bytes: int = 0
    replaced_bytes: int = 0
    first_replaced_byte: int | None = None
    truncation: Truncation | None = None
    link_target: str | None = None
    #: What stood before the body in the file and was trimmed.
    lead: str = ""

    @property
    def found(self) -> bool:
        return self.status == "found"

    @property
    def path(self) -> Path:
        return Path(self.root, self.name)

    @property
    def resolved_path(self) -> Path:
        """The file that was read: the target where the name, or the directory, is a link."""
        if self.link_target is not None:
            return Path(self.link_target)
        return Path(resolved(self.root), self.name)

    @property
    def leaves_directory(self) -> bool:
        """True when the name is a link to a file outside the persona directory."""
        if self.link_target is None:
            return False
        return not self.resolved_path.is_relative_to(resolved(self.root))

    @property
    def characters(self) -> int:
        return len(self.text)

    @property
    def lines(self) -> int:
        return self.text.count("\n") + 1 if self.text else 0

    @property
    def digest(self) -> str:
        """sha256 of the body as sent, in UTF-8, as 64 hexadecimal digits."""
        return hashlib.sha256(self.text.encode()).hexdigest()

    def locate(self, offset: int) -> Location:
        """Return the place in the file of the character at `offset` in the body."""
        cut = self.truncation
        if cut is not None and offset >= self._file_characters:
            return Location(self.name, cut.line, cut.column)
        before = self.lead + self.text[:offset]
        return Location(self.name, before.count("\n") + 1, len(before) - before.rfind("\n"))

    def offset(self, line: int, column: int) -> int:
        """Return the offset in the body of a place in the file: the inverse of `locate`.

        Raises ValueError for a place that is not in the prompt (trimmed, cut, or never there).
        """
        whole = self.lead + self.text[: self._file_characters]
        start = 0
        for _ in range(line - 1):
            start = whole.find("\n", start) + 1
            if not start:
                raise ValueError(f"{self.name}: line {line} is not in the prompt: it has {whole.count(chr(10)) + 1} lines there")
        end = whole.find("\n", start)
        end = len(whole) if end < 0 else end
        offset = start + column - 1 - len(self.lead)
        if line < 1 or column < 1 or start + column - 1 > end or not 0 <= offset < self._file_characters:
            raise ValueError(f"{self.name}: line {line}, column {column} is not in the prompt: it lies outside the text that was sent")
        return offset

    @property
    def _file_characters(self) -> int:
        """How many characters of the body come from the file, and not from the notice."""
        if self.truncation is None:
            return len(self.text)
        return max(0, len(self.text) - len(TRUNCATION_NOTICE))

    def __repr__(self) -> str:
        what = f"{self.size_bytes} bytes" if self.found else self.reason
        return f"<Section {self.name}: {self.status}, {what}>"


def resolved(root: str) -> str:
    """Return the directory with its symbolic links followed, as it is where it cannot be."""
    try:
        return os.path.realpath(root)
    except (OSError, ValueError):
        return root
