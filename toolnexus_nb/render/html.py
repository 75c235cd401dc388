"""The static face of a soul: escaped HTML in <details>, readable without style, script or kernel.

Border: values only. Text of files and models is escaped here and nowhere handed to a
front end as markup.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import cache
from html import escape
from importlib.resources import files
from itertools import accumulate, takewhile
from typing import Final

from ..diff import SoulDiff
from ..lint import Finding
from .view import (
    HIDDEN,
    Row,
    SectionView,
    SoulView,
    change_words,
    finding_words,
    lost_text,
    more_words,
    percent,
    visible_character,
    visible_lines,
)

#: What all bodies of one static page may take, in bytes of HTML. Larger bodies end with a
#: line that says so; the widget shows them in pages, `soul.text` holds them whole.
STATIC_BYTES: Final = 84_000
DIFF_BYTES: Final = 24_000

#: White space that deceives: runs, tabs, no-break and other wide spaces, at the end of a line.
_SPECIAL: Final = re.compile(rf"{HIDDEN.pattern}| {{2,}}| +$|\t|[\xa0\u1680\u2000-\u200a\u202f\u205f\u3000]+")


@cache
def style() -> str:
    """Return the sheet of all faces, as a <style> element."""
    sheet = (files(__package__) / "style.css").read_text(encoding="utf-8")
    return f"<style>{sheet}</style>"


def swap_rules(uid: str) -> str:
    """Return the sheet by which a live widget hides its static twin, and a dead one is hidden.

    Source: ARCHITECTURE, "the static face is the carrier". The second rule hides the
    "model not found" line that stands in place of the widget in a reopened notebook.
    """
    return (
        f"<style>body:has(.{uid}) .{uid}-static{{display:none}}"
        f"body:has(.{uid}) .jp-OutputArea-child:has(.{uid}-static){{display:none}}"
        f".jp-OutputArea-child:has(+ .jp-OutputArea-child .{uid}-static)>.jupyter-widgets:not(:has(*)){{display:none}}</style>"
    )


def soul_page(view: SoulView, uid: str = "", show_secrets: bool = False) -> str:
    """Return the whole static view. `uid` ties it to a live widget, see `swap_rules`."""
    limits = _shares(view)
    sections = "".join(section_details(section, limits[section.name], show_secrets) for section in view.sections)
    rules = swap_rules(uid) if uid else ""
    # The class is for MathJax: `$5 and $10` is no formula.
    kind = f"tnx tnx-view tex2jax_ignore mathjax_ignore {uid}-static" if uid else "tnx tnx-view tex2jax_ignore mathjax_ignore"
    return f'{style()}{rules}<div class="{kind}">{header(view)}{sections}</div>'


def header(view: SoulView) -> str:
    """Return name, path, summary, share bar, warnings and changes."""
    return (
        f'<div class="tnx-head"><strong>{escape(view.name)}</strong> <code>{escape(view.path)}</code></div>'
        f'<div class="tnx-summary" title="sha256 {view.soul.digest}">{escape(view.summary)}</div>'
        f"{_bar(view)}{_list('tnx-warnings', [f'⚠ {words}' for words in view.warnings])}"
        f"{_notes(view.notes)}{changes(view.changes, view.since)}"
    )


def _bar(view: SoulView) -> str:
    parts = [section for section in view.sections if section.section.found]
    if not parts:
        return ""
    words = ", ".join(f"{section.name} {percent(section.share)}" for section in parts)
    # The spaces part the names where no sheet does.
    segments = " ".join(
        f'<span class="tnx-seg tnx-seg-{section.name[:-3].lower()}" style="flex-grow:{max(100 * section.share, 0.4):.2f}" '
        f'title="{section.name} {escape(percent(section.share))}"><b>{section.name[:-3]}</b></span>'
        for section in parts
    )
    return f'<div class="tnx-bar" role="img" aria-label="Share of the prompt: {escape(words)}">{segments}</div>'


def section_details(section: SectionView, limit_bytes: int, show_secrets: bool = False) -> str:
    """Return one of the seven as <details>, its body cut at `limit_bytes` of HTML."""
    inside = section_inside(section, limit_bytes, show_secrets)
    return f'<details class="tnx-section">{section_summary(section)}<div class="tnx-in">{inside}</div></details>'


def section_summary(section: SectionView) -> str:
    return (
        f'<summary><span class="tnx-mark tnx-{section.section.status}">{section.mark}</span> {escape(section.title)} '
        f'<span class="tnx-role">— {escape(section.role)}</span></summary>'
    )


def section_inside(section: SectionView, limit_bytes: int, show_secrets: bool = False) -> str:
    """Return what opens below a section's title: facts, findings, the text as sent, what was lost."""
    if not section.section.found:
        return f'<p class="tnx-fact">{escape(section.role)}; {escape(section.state)}.</p>'
    body, shown, whole = rows(section.rows(), limit_bytes)
    more = "" if whole else f'<p class="tnx-more">{escape(more_words(section, shown))}</p>'
    return f"{section_facts(section)}{text_block(section, body)}{more}{lost(section, show_secrets)}"


def section_facts(section: SectionView) -> str:
    words = [*section.facts, *(_finding(finding) for finding in section.findings)]
    return _list("tnx-facts", words)


def text_block(section: SectionView, body: str) -> str:
    """Return rows of a section as one block, its two columns of numbers as wide as the largest."""
    if not body:
        return '<p class="tnx-more">(blank)</p>'
    digits = len(str(section.prompt_line + section.section.lines))
    switch = '<label class="tnx-switch"><input type="checkbox" class="tnx-white"> show white space</label>'
    return f'{switch}<pre class="tnx-text" style="--tnx-digits:{digits}ch">{body}</pre>'


def lost(section: SectionView, show_secrets: bool = False) -> str:
    """Return the mark at the cut and the beginning of the text that is not sent."""
    words, head = lost_text(section.section, show_secrets)
    if not words:
        return ""
    return f'<p class="tnx-cut">✂ {escape(words)}:</p><pre class="tnx-text tnx-lost">{inline(head)}</pre>'


def rows(lines: Iterable[Row], limit_bytes: int) -> tuple[str, int, bool]:
    """Return (HTML, lines shown, whether that is all), ending before `limit_bytes` of HTML are passed."""
    parts: list[str] = []
    size = shown = 0
    for row in lines:
        part = row_html(row)
        size += len(part.encode(errors="surrogatepass"))
        if size > limit_bytes:
            return "".join(parts), shown, False
        parts.append(part)
        shown += row.prompt_line is not None
    return "".join(parts), shown, True


def page(lines: Sequence[Row], start: int, count: int, limit_bytes: int) -> tuple[str, int]:
    """Return (HTML, rows shown) of a page of at most `count` rows from row `start`, never of none."""
    part = lines[start : start + count]
    sizes = accumulate(len(row_html(row).encode(errors="surrogatepass")) for row in part)
    shown = max(1, sum(1 for _ in takewhile(lambda size: size <= limit_bytes, sizes)))
    return "".join(map(row_html, part[:shown])), min(shown, len(part))


def row_html(row: Row) -> str:
    # The newline stands inside: with the sheet gone the <pre> still breaks its lines, with
    # it a block's last newline adds no empty line.
    if row.prompt_line is None:
        return f'<span class="tnx-row tnx-rest">{inline(row.text)}\n</span>'
    of_file = "✂" if row.file_line is None else str(row.file_line)
    return f'<span class="tnx-row" data-n="{of_file}" data-p="{row.prompt_line}">{inline(row.text)}\n</span>'


def inline(text: str) -> str:
    """Escape text; hidden characters become pictures, deceiving white space becomes markable."""
    if not _SPECIAL.search(text):
        return escape(text, quote=False)
    parts: list[str] = []
    at = 0
    for match in _SPECIAL.finditer(text):
        parts += (escape(text[at : match.start()], quote=False), _special(match[0], match.end() == len(text)))
        at = match.end()
    parts.append(escape(text[at:], quote=False))
    return "".join(parts)


def _special(found: str, at_end: bool) -> str:
    if found == "\t":
        return '<span class="tnx-ws tnx-tab">\t</span>'
    if found == "\r" and at_end:
        # Every line of a CRLF file ends so: shown with the white space, on demand.
        return '<span class="tnx-ws tnx-cr"></span>'
    if HIDDEN.match(found):
        return f'<span class="tnx-hidden" title="U+{ord(found):04X}">{visible_character(found)}</span>'
    return f'<span class="tnx-ws">{found}</span>'


def changes(diff: SoulDiff | None, since: str) -> str:
    """Return what changed as one <details> per file, and how much of the prefix is still the same."""
    if diff is None or not diff.files:
        return ""
    parts = "".join(
        f"<details open><summary>{escape(change.name)}: {escape(change_words(change))}</summary>{diff_block(change.diff)}</details>"
        for change in diff.files
        if change.in_prompt
    )
    return f'<div class="tnx-changes"><strong>{escape(since)}</strong> {escape(diff.summary)}{parts}</div>'


def diff_block(diff: str) -> str:
    """Return a unified diff, added and removed lines marked by sign and by colour."""
    kinds = {"+": "tnx-add", "-": "tnx-del", "@": "tnx-hunk"}
    parts: list[str] = []
    size = 0
    for line in diff.splitlines():
        kind = "tnx-hunk" if line.startswith(("--- ", "+++ ")) else kinds.get(line[:1], "")
        part = f'<span class="tnx-row {kind}">{inline(line[:2_000])}\n</span>'
        size += len(part.encode(errors="surrogatepass"))
        if size > DIFF_BYTES:
            parts.append('<span class="tnx-row">… the diff goes on</span>')
            break
        parts.append(part)
    return f'<pre class="tnx-text tnx-diff">{"".join(parts)}</pre>'


def _finding(finding: Finding) -> str:
    return f"{'⚠' if finding.severity == 'warning' else 'ℹ'} {finding_words(finding)}"


def _notes(notes: tuple[str, ...]) -> str:
    if not notes:
        return ""
    title = f"{len(notes)} more to know" if len(notes) > 1 else "1 more to know"
    return f'<details class="tnx-notes"><summary>{title}</summary>{_list("tnx-facts", [f"ℹ {note}" for note in notes])}</details>'


def _list(kind: str, items: Iterable[str]) -> str:
    inside = "".join(f"<li>{escape(visible_lines(item))}</li>" for item in items)
    return f'<ul class="{kind}">{inside}</ul>' if inside else ""


def _shares(view: SoulView) -> dict[str, int]:
    """Divide STATIC_BYTES among the sections: what a short one leaves goes to the longer ones."""
    found = sorted((section for section in view.sections if section.section.found), key=lambda s: len(s.body))
    left, limits = STATIC_BYTES, {section.name: 0 for section in view.sections}
    for index, section in enumerate(found):
        limits[section.name] = left // (len(found) - index)
        # Two bytes of HTML a character is the usual cost; a hostile body is cut by its own limit.
        left -= min(limits[section.name], 2 * len(section.body) + 60 * section.section.lines)
    return limits
