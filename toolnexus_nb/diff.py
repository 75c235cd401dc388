"""What changed between two souls, and how much of the prompt's prefix survives."""
from __future__ import annotations
import difflib, os
from dataclasses import dataclass
from .soul import Soul

@dataclass(frozen=True, slots=True)
class FileChange:
    name: str
    before_status: str
    after_status: str
    diff: str
    added: int
    removed: int

@dataclass(frozen=True, slots=True)
class SoulDiff:
    files: tuple[FileChange, ...]
    prefix_characters: int
    prefix_bytes: int
    prefix_share: float
    prefix_section: str
    @property
    def same(self) -> bool: return not self.files
    @property
    def summary(self) -> str: return f"{len(self.files)} files changed; {self.prefix_share:.0%} of the prompt is the same from its start"

def changes(before: Soul, after: Soul) -> SoulDiff:
    files = []
    for a, b in zip(before.sections, after.sections, strict=True):
        if (a.status, a.text) != (b.status, b.text):
            d = list(difflib.unified_diff(a.text.splitlines(True), b.text.splitlines(True), f"before/{a.name}", f"after/{a.name}"))
            files.append(FileChange(a.name, a.status, b.status, "".join(d), sum(x[0] == "+" for x in d[2:]), sum(x[0] == "-" for x in d[2:])))
    n = len(os.path.commonprefix([before.text, after.text]))
    return SoulDiff(tuple(files), n, len(after.text[:n].encode()), 1.0 if not after.text else n / len(after.text), files[0].name if files else "")
