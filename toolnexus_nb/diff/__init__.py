"""What changed between two souls or two runs, and how much of the prompt's prefix survives.

Border: none; values in, values out. Providers cache a prompt by its prefix, hence the interest in it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from ..conversation import Run
from ..soul import Section, Soul, Status
from .lines import common_prefix, sides, unified

#: Lines of one soul that are compared one by one; a file that asks for more is shown as one block replaced.
MOST_COMPARED_LINES: Final = 60_000


@dataclass(frozen=True, slots=True)
class FileChange:
    """What became of one of the seven files.

    `diff` is a unified diff of the bodies as sent, "" when these are equal; its lines are not
    clipped, but it has at most 4 000 of them. `added` and `removed` count all lines, shown or not.
    """

    name: str
    before_status: Status
    after_status: Status
    diff: str
    added: int
    removed: int

    @property
    def in_prompt(self) -> bool:
        """True when the prompt changed; False when only what is not sent did (trimmed ends, text behind the cap)."""
        return bool(self.diff) or (self.before_status == "found") != (self.after_status == "found")


@dataclass(frozen=True, slots=True)
class SoulDiff:
    """What changed from one soul to the next; `files` holds those that changed, in BOOTSTRAP_ORDER.

    The prefix is what both prompts begin with: `prefix_characters`, `prefix_bytes` (UTF-8),
    `prefix_share` (0 to 1, of the new prompt's bytes) and `prefix_section`, the file in which
    the first difference falls, "" when there is none.
    """

    files: tuple[FileChange, ...]
    prefix_characters: int
    prefix_bytes: int
    prefix_share: float
    prefix_section: str

    @property
    def same(self) -> bool:
        """True when both prompts are the same, byte for byte."""
        return not any(change.in_prompt for change in self.files)

    @property
    def summary(self) -> str:
        """One line in words."""
        unsent = [change.name for change in self.files if not change.in_prompt]
        if self.same:
            return f"the same prompt ({', '.join(unsent)} changed only in what is not sent)" if unsent else "nothing changed"
        told = ", ".join(_told(change) for change in self.files if change.in_prompt)
        share = f"the first {_percent(self.prefix_share)} of the prompt ({self.prefix_bytes:,} bytes) are the same".replace(",", " ")
        return f"{told}; {share}, the first difference is in {self.prefix_section}"


def changes(before: Soul, after: Soul) -> SoulDiff:
    """Compare two souls of one persona file by file, and their prompts as a whole."""
    pairs = list(zip(before.sections, after.sections, strict=True))
    files = tuple(_file_changes([(old, new) for old, new in pairs if _key(old) != _key(new)]))
    prefix = common_prefix(before.text, after.text)
    size = len(after.text.encode())
    prefix_bytes = size if prefix == len(after.text) else len(after.text[:prefix].encode())
    first = next((change.name for change in files if change.in_prompt), "")
    return SoulDiff(files, prefix, prefix_bytes, prefix_bytes / size if size else float(not before.text), first)


def run_changes(a: Run, b: Run) -> str:
    """Return what differs in status, model and usage, a line each, then a unified diff of the replies; "" for equal runs."""
    facts = [f"{name}: {old} -> {new}" for (name, old), (_, new) in zip(_facts(a), _facts(b), strict=True) if old != new]
    return "\n".join([*facts, *filter(None, [unified(sides(a.text, b.text), "reply", by_line=True).diff])])


def _facts(run: Run) -> list[tuple[str, object]]:
    usage = run.usage
    return [
        ("status", run.ending),
        ("model", run.model),
        ("soul", run.soul_digest[:12]),
        ("turns", run.turns),
        ("tool calls", ", ".join(call.name for call in run.tool_calls) or "none"),
        ("prompt tokens", _known(usage.prompt)),
        ("completion tokens", _known(usage.completion)),
        ("cached tokens", _known(usage.cached)),
        ("reasoning tokens", _known(usage.reasoning)),
    ]


def _known(count: int | None) -> str:
    return "not reported" if count is None else str(count)


# --- one file ----------------------------------------------------------------------------------


def _key(section: Section) -> tuple[Status, int, str]:
    # The same three as Soul.stale(), so that both name the same files.
    return section.status, section.size_bytes, section.text


def _file_changes(pairs: list[tuple[Section, Section]]) -> Iterator[FileChange]:
    left = MOST_COMPARED_LINES
    for old, new in pairs:
        ends = sides(old.text, new.text)
        by_line = ends.lines <= left
        left -= ends.lines if by_line else 0
        yield FileChange(new.name, old.status, new.status, *unified(ends, new.name, by_line=by_line))


def _told(change: FileChange) -> str:
    if change.before_status != "found":
        return f"{change.name} is new (+{change.added})"
    if change.after_status != "found":
        return f"{change.name} is gone (-{change.removed})"
    return f"{change.name} +{change.added} -{change.removed}"


def _percent(share: float) -> str:
    """Return a share that says 0 or 100 only where that is all of the truth."""
    if 0 < share < 0.01:
        return "< 1 %"
    return "> 99 %" if 0.99 < share < 1 else f"{share * 100:.0f} %"
