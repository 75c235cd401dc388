"""What is said about a soul, in words: the one content that the three faces show.

Border: values only. Every number, state and warning that a person reads is put in words
here once, so that the widget, the static page and the plain text cannot disagree.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple

from ..diff import FileChange, SoulDiff
from ..lint import Finding, findings
from ..masking import mask
from ..rules import ROLES, TRUNCATION_NOTICE
from ..soul import Section, Soul

CHARACTERS_PER_TOKEN: Final = 4
#: A tokenizer takes seconds for megabytes; a longer text is estimated.
EXACT_CHARACTERS: Final = 100_000
#: A longer line is shown in pieces: one row of 2 MB would freeze a browser.
ROW_CHARACTERS: Final = 2_000

CountTokens = Callable[[str], int]


class Row(NamedTuple):
    """One line to show: its number in the file (None: not of the file) and in the prompt.

    A line longer than ROW_CHARACTERS continues in rows whose numbers are both None.
    """

    file_line: int | None
    prompt_line: int | None
    text: str


@dataclass(frozen=True, slots=True)
class SectionView:
    """One of the seven, in words. `facts` are whole sentences, in the order they are shown."""

    section: Section
    mark: str
    state: str
    title: str
    role: str
    share: float
    facts: tuple[str, ...]
    findings: tuple[Finding, ...]
    body: str
    prompt_line: int

    @property
    def name(self) -> str:
        return self.section.name

    def rows(self) -> Iterator[Row]:
        """Yield the body as sent, line by line, with both numbers."""
        file_line = self.section.lead.count("\n") + 1
        notice = TRUNCATION_NOTICE.strip() if self.section.truncation else None
        lines = self.body.split("\n") if self.body else []
        for index, line in enumerate(lines):
            of_file = None if notice is not None and index == len(lines) - 1 else file_line + index
            yield Row(of_file, self.prompt_line + index, line[:ROW_CHARACTERS])
            for start in range(ROW_CHARACTERS, len(line), ROW_CHARACTERS):
                yield Row(None, None, line[start : start + ROW_CHARACTERS])


@dataclass(frozen=True, slots=True)
class SoulView:
    """A soul in words. `changes` is what differs from the soul in `since`, when there is one."""

    soul: Soul
    path: str
    summary: str
    warnings: tuple[str, ...]
    notes: tuple[str, ...]
    sections: tuple[SectionView, ...]
    changes: SoulDiff | None
    since: str

    @property
    def name(self) -> str:
        return visible(self.soul.name)


def view(
    soul: Soul,
    *,
    changes: SoulDiff | None = None,
    since: str = "",
    count_tokens: CountTokens | None = None,
    show_secrets: bool = False,
) -> SoulView:
    """Put a soul in words.

    `count_tokens` gives exact token counts, else characters / 4 stands in and is marked "≈".
    `since` names what `changes` compares with. Strings that look like secrets are masked
    unless `show_secrets`; the soul itself is untouched.
    """
    found = findings(soul)
    sections = tuple(_sections(soul, found, count_tokens, show_secrets))
    general = [finding for finding in found if not _of_section(finding, soul)]
    return SoulView(
        soul=soul,
        path=shown_path(soul.root),
        summary=_summary(soul, count_tokens),
        warnings=tuple(_warnings(soul, found)),
        notes=tuple(finding.message for finding in general if finding.severity == "note"),
        sections=sections,
        changes=changes,
        since=since,
    )


def _of_section(finding: Finding, soul: Soul) -> bool:
    return any(section.name == finding.file and section.found for section in soul.sections)


def _sections(soul: Soul, found: tuple[Finding, ...], count: CountTokens | None, show_secrets: bool) -> Iterator[SectionView]:
    prompt_bytes = max(1, len(soul.text.encode()))
    line = 1
    for section in soul.sections:
        mine = tuple(finding for finding in found if finding.file == section.name and section.found)
        share = len(section.text.encode()) / prompt_bytes
        if section.found:
            # Two newlines join a section to the one before, two more follow its heading.
            line += 2 if line == 1 else 4
        yield SectionView(
            section=section,
            mark=_mark(section),
            state=_state(section),
            title=_title(section, share, count),
            role=ROLES[section.name],
            share=share,
            facts=tuple(_facts(section, line)),
            findings=mine,
            body=section.text if show_secrets else mask(section.text),
            prompt_line=line,
        )
        if section.found:
            line += section.text.count("\n")


def _mark(section: Section) -> str:
    if section.truncation:
        return "✂"
    return {"found": "✓", "absent": "○"}.get(section.status, "✕")


def _state(section: Section) -> str:
    if section.truncation:
        return "found, truncated"
    if section.found:
        return "found" if section.text else "found, blank"
    return f"skipped: {visible(section.reason)}"


def _title(section: Section, share: float, count: CountTokens | None) -> str:
    words = [f"{section.name} — {_state(section)}"]
    if section.found:
        words += [
            f"{number(section.size_bytes)} bytes",
            plural(section.lines, "line"),
            tokens(section.text, count),
            f"{percent(share)} of the prompt",
        ]
    return " · ".join(words)


def _facts(section: Section, prompt_line: int) -> Iterator[str]:
    if section.span is None:
        return
    start, end = section.span
    last = prompt_line + max(0, section.lines - 1)
    lines = f"line {number(prompt_line)}" + (f" to {number(last)}" if last > prompt_line else "")
    yield (
        f"stands in the prompt from character {number(start)} to {number(end)}, {lines}; "
        f"{number(section.characters)} characters, sha256 {section.digest[:12]}"
    )
    if section.link_target is not None:
        outside = ", outside the directory" if section.leaves_directory else ""
        yield f"is a link to {visible(shown_path(section.link_target))}{outside}"
    if section.replaced_bytes:
        yield (
            f"{plural(section.replaced_bytes, 'byte')} not UTF-8, each sent as U+FFFD; "
            f"the first at byte {number(section.first_replaced_byte or 0)} of the file"
        )
    yield from _truncation_facts(section)


def _truncation_facts(section: Section) -> Iterator[str]:
    cut = section.truncation
    if cut is None:
        return
    inside = f"; inside a {cut.split_character}-byte character" if cut.split_character else ""
    yield (
        f"kept {number(section.kept_bytes)} of {number(section.size_bytes)} bytes; "
        f"cut at line {number(cut.line)}, column {number(cut.column)}{inside}"
    )
    yield f"the model sees the notice {TRUNCATION_NOTICE.strip()}"


def lost_text(section: Section, show_secrets: bool = False) -> tuple[str, str]:
    """Return (a line that says what was not sent, how that text begins); ("", "") when nothing was lost."""
    cut = section.truncation
    if cut is None:
        return "", ""
    return f"not sent: {number(cut.lost_bytes)} bytes, which begin", cut.lost_head if show_secrets else mask(cut.lost_head)


def _summary(soul: Soul, count: CountTokens | None) -> str:
    words = [
        f"found {len(soul.found)} of 7",
        f"{number(len(soul.text.encode()))} bytes",
        f"{number(len(soul.text))} characters",
        plural(soul.text.count("\n") + 1 if soul.text else 0, "line"),
        tokens(soul.text, count) + (" by the local model's tokenizer" if count and len(soul.text) <= EXACT_CHARACTERS else ""),
        f"sha256 {soul.digest[:12]}",
        f"truncated: {', '.join(soul.truncated)}" if soul.truncated else "nothing truncated",
    ]
    return " · ".join(words)


def _warnings(soul: Soul, found: tuple[Finding, ...]) -> Iterator[str]:
    for section in soul.sections:
        if cut := section.truncation:
            yield f"{section.name} is cut: {number(cut.lost_bytes)} of {number(section.size_bytes)} bytes are not sent"
        elif not section.found and section.status != "absent":
            yield (
                f"{section.name} is skipped: it {visible(section.reason)}"
                if section.status == "not_regular"
                else (f"{section.name} is skipped: {visible(section.reason)}")
            )
    yield from (finding_words(finding) for finding in found if finding.severity == "warning")


def more_words(section: SectionView, shown: int) -> str:
    """Return the line that says how much of a body is not shown here, and how to get it."""
    return (
        f"the first {number(shown)} of {number(section.section.lines)} lines are shown; all of it is sent: "
        f'print(soul.section("{section.name}").text)'
    )


def change_words(change: FileChange) -> str:
    """Return how much of a file changed, and its state where that is another one now."""
    lines = f"+{change.added} −{change.removed} lines"
    same = change.before_status == change.after_status
    return lines if same else f"{change.before_status} before, {change.after_status} now, {lines}"


def finding_words(finding: Finding) -> str:
    """Return a finding as one line that names its place."""
    where = ", ".join(filter(None, (finding.file, f"line {number(finding.line)}" if finding.line else "")))
    if not where or finding.message.startswith(finding.file or "\0"):
        return finding.message
    return f"{where}: {finding.message}"


def number(value: int) -> str:
    """Group the digits by threes: 2 097 152."""
    return f"{value:,}".replace(",", " ")


def plural(count: int, word: str) -> str:
    return f"{number(count)} {word}" if count == 1 else f"{number(count)} {word}s"


def percent(share: float) -> str:
    if 0 < share < 0.01:
        return "< 1 %"
    if 0.99 < share < 1:
        return "> 99 %"
    return f"{round(share * 100)} %"


def tokens(text: str, count: CountTokens | None = None) -> str:
    """Return "450 tokens" where a tokenizer counts, "≈ 450 tokens" by characters / 4 where none does."""
    if count is not None and len(text) <= EXACT_CHARACTERS:
        return plural(count(text), "token")
    return f"≈ {plural(-(-len(text) // CHARACTERS_PER_TOKEN), 'token')}"


def shown_path(path: str) -> str:
    """Return a path as a reader would write it: relative below the working directory, "~" below home.

    Saved notebooks travel: an absolute path would carry the machine's and the user's name.
    """
    path = os.path.normpath(path)
    for base, short in ((_working_directory(), ""), (os.path.expanduser("~"), "~" + os.sep)):
        if path == base:
            return short.rstrip(os.sep) or "."
        if base not in ("", os.sep) and path.startswith(base + os.sep):
            return visible(short + path[len(base) + 1 :])
    return visible(path)


def _working_directory() -> str:
    try:
        return os.getcwd()
    except OSError:
        return ""


#: Characters that show nothing, or move what is shown: controls (but not newline and tab), soft
#: hyphen, zero-width, bidi, tags, private use. ZWJ, ZWNJ and variation selectors are parts of
#: ordinary emoji and scripts and stay as they are.
HIDDEN: Final = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
    "\ud800-\udfff\ue000-\uf8ff\U000e0000-\U000e0fff\U000f0000-\U0010ffff]"
)


def visible_character(character: str) -> str:
    """Return a hidden character's picture: ␛ for a control, ⟨U+202E⟩ for the rest."""
    code = ord(character)
    if code < 32:
        return chr(0x2400 + code)
    return "\u2421" if code == 127 else f"⟨U+{code:04X}⟩"


def visible_lines(text: str) -> str:
    """Return text in which every hidden character is seen; newlines and tabs stay."""
    return HIDDEN.sub(lambda match: visible_character(match[0]), text)


def visible(text: str) -> str:
    """Return text on one line in which every hidden character is seen; for names, paths and terminals."""
    return visible_lines(text).replace("\n", "␊").replace("\t", "␉")
