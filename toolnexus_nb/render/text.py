"""The plain face: everything the other two say, for terminals, logs and diffs.

Border: values only. Control characters of files and models never reach a terminal.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Final

from .view import SectionView, SoulView, change_words, finding_words, lost_text, more_words, percent, visible_lines

#: What all bodies may take together, in bytes of UTF-8: line numbers and pictures of hidden characters count.
TEXT_BYTES: Final = 40_000
DIFF_LINES: Final = 200
_INDENT: Final = "    "


def soul_text(view: SoulView, show_secrets: bool = False) -> str:
    """Return the whole view as plain text without control characters."""
    return visible_lines("\n".join(_lines(view, show_secrets)))


def _lines(view: SoulView, show_secrets: bool) -> Iterator[str]:
    yield f"{view.name}  {view.path}"
    yield view.summary
    parts = [section for section in view.sections if section.section.found]
    if parts:
        yield "share of the prompt: " + ", ".join(f"{section.name} {percent(section.share)}" for section in parts)
    yield from (f"⚠ {words}" for words in view.warnings)
    yield from (f"ℹ {words}" for words in view.notes)
    yield from _changes(view)
    limit_bytes = TEXT_BYTES // max(1, len(parts))
    for section in view.sections:
        yield ""
        yield from _section(section, limit_bytes, show_secrets)


def _section(section: SectionView, limit_bytes: int, show_secrets: bool) -> Iterator[str]:
    yield f"{section.mark} {section.title}  ({section.role})"
    yield from (f"{_INDENT}{fact}" for fact in section.facts)
    yield from (f"{_INDENT}{'⚠' if f.severity == 'warning' else 'ℹ'} {finding_words(f)}" for f in section.findings)
    yield from _body(section, limit_bytes)
    words, head = lost_text(section.section, show_secrets)
    if words:
        yield f"{_INDENT}✂ {words}:"
        yield from (f"{_INDENT}✂ {line}" for line in head.splitlines()[:8])


def _body(section: SectionView, limit_bytes: int) -> Iterator[str]:
    left, shown = limit_bytes, 0
    for row in section.rows():
        number = "" if row.prompt_line is None else "✂" if row.file_line is None else str(row.file_line)
        # A carriage return would overwrite the line in a terminal; CRLF files have one on each.
        line = visible_lines(f"{number:>6} │ {row.text.removesuffix(chr(13))}")
        left -= len(line.encode()) + 1
        if left < 0:
            yield _INDENT + more_words(section, shown)
            return
        shown += row.prompt_line is not None
        yield line


def _changes(view: SoulView) -> Iterator[str]:
    diff = view.changes
    if diff is None or not diff.files:
        return
    yield f"{view.since} {diff.summary}"
    for change in (change for change in diff.files if change.in_prompt):
        yield f"  {change.name}: {change_words(change)}"
        lines = change.diff.splitlines()
        yield from (f"  {line}" for line in islice(lines, DIFF_LINES))
        if len(lines) > DIFF_LINES:
            yield "  … the diff goes on"


#: What stands in for a sign of ours where a terminal's encoding has none.
_PLAIN: Final = {
    "✓": "ok",
    "✕": "x",
    "○": "o",
    "◐": "~",
    "■": "#",
    "⏱": "!",
    "⚠": "!",
    "ℹ": "i",
    "✂": "8<",
    "⚙": "*",
    "≈": "~",
    "↑": "^",
    "│": "|",
    "—": "-",
    "–": "-",
    "−": "-",
    "·": "-",
    "…": "...",
    "→": "->",
    "×": "x",
    "␊": "\\n",
    "␉": "\\t",
    "␍": "\\r",
    "␛": "ESC",
    "≤": "<=",
    "≥": ">=",
    "“": '"',
    "”": '"',
    "„": '"',
    "‘": "'",
    "’": "'",
}


def for_terminal(text: str, encoding: str) -> str:
    """Return the text as a stream of that encoding can print it: our signs in plain letters, what is left as "?"."""
    try:
        text.encode(encoding)
    except (UnicodeEncodeError, LookupError):
        pass
    else:
        return text
    return "".join(_printable(character, encoding) for character in text)


def _printable(character: str, encoding: str) -> str:
    try:
        character.encode(encoding)
    except UnicodeEncodeError:
        return _PLAIN.get(character, "?")
    except LookupError:
        return character if character.isascii() else _PLAIN.get(character, "?")
    return character
