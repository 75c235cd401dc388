"""What stands in a body and is easily missed there: each mark is an offset and one plain sentence.

Border: none; text in, marks out. Every scan is one pass over the text; nothing looks back.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from itertools import islice
from typing import Final, Literal, NamedTuple

from ..masking import mask, secret_spans

Severity = Literal["warning", "note"]
#: How many characters of a file or a name a sentence quotes.
QUOTED_CHARACTERS: Final = 60

_CODE: Final = re.compile(r"\n {0,3}(?P<fence>`{3,}+|~{3,}+)(?P<info>[^\n]*)")
_FRONT_MATTER: Final = re.compile(r"\ufeff?---[ \t]*\r?\n(?=[A-Za-z_][\w -]{0,60}:|#)")
_FRONT_MATTER_ENDS: Final = re.compile(r"\n(?:---|\.\.\.)[ \t]*\r?(?=\n|\Z)")
_FRONT_MATTER_CHARACTERS: Final = 20_000
_SECTION_HEADING: Final = re.compile(r"## +(?:AGENTS|SOUL|IDENTITY|USER|TOOLS|HEARTBEAT|MEMORY)\.md(?=[ \t#]*\r?(?:\n|\Z))")
_TITLE: Final = re.compile(r"\n {0,3}+(?:#[ \t]++[^\n]*|[^\n]++\n={3,}+[ \t]*\r?(?=\n|\Z))")
_BRACES: Final = re.compile(r"\{\{[^{}\n]{1,120}\}\}|\{%[^\n%]{1,120}%\}")
_BRACKETS: Final = re.compile(
    r"\[(?=[A-Za-z])(?:TODO|TBD|FIXME|XXX|(?i:insert|your|fill in|replace|placeholder)\b)[^\[\]\n]{0,120}\](?![(\[])"
)
_ANGLES: Final = re.compile(r"(?<!<)<[A-Za-z_](?:[\w ./-]|[^\x00-\x7f]){0,80}>")
#: A renderer keeps these, or they are markup on purpose: no stand-in for a value.
_HTML: Final = frozenset(
    """a abbr article aside audio b blockquote body br button center code col dd del details div dl dt em figure font footer
    form h1 h2 h3 h4 h5 h6 head header hr html i iframe img input ins kbd li link main mark meta nav ol option p plaintext pre q s
    samp script section select small span strike strong style sub summary sup svg table tbody td template textarea tfoot th thead
    title tr tt u ul var video""".split()  # noqa: SIM905 (ninety quoted words would hide what this is)
)
#: How many candidates of one kind are looked at: hostile text must not buy time.
LOOKS: Final = 2_000
_FENCES: Final = 10_000
_CHAT: Final = re.compile(
    r"<\|[A-Za-z_0-9]{2,40}\|>|\[/?INST\]|<</?SYS>>|<(?:start|end)_of_turn>|<(?:bos|eos|eot_id)>|</s>|\n\n(?:Human|Assistant):(?= )"
)
_CHAT_ANCHORS: Final = ("<|", "INST]", "SYS>>", "_of_turn>", "<bos>", "<eos>", "<eot_id>", "</s>", "\n\nHuman:", "\n\nAssistant:")
_INCLUDE: Final = re.compile(r"\n(?:#|@|!)include[ \t]+[\"'<(]?[^\n]{1,200}")
# Written as escapes: the characters themselves cannot be seen in an editor either.
_CONTROLS: Final = "\x00-\x08\x0b\x0c\x0e-\x1f\x7f"
_REORDERS: Final = "\u202a-\u202e\u2066-\u2069"
_TAGS: Final = "\U000e0000-\U000e007f"
_BLANKS: Final = (
    "\xad\u034f\u061c\u115f\u1160\u180e\u200b\u200e\u200f\u2060-\u2064\u206a-\u206f\u3164\ufeff\uffa0\ufff9-\ufffb\U000e0100-\U000e01ef"
)
#: The two joiners belong inside emoji, and in Arabic, Persian and Indic words; elsewhere they hide.
_JOINERS: Final = "(?<![\u0590-\u1fff\u2190-\u2bff\u3030\u303d\u3297\u3299\ufe0f\U0001f000-\U0001faff\U000e007f])[\u200c\u200d]+"
# One class finds the place and is quick; the alternatives then tell how far which run goes.
_UNSEEN_ASCII: Final = re.compile(f"[{_CONTROLS}]")
_UNSEEN: Final = re.compile(f"[{_CONTROLS}\x80-\x84\x86-\x9f{_REORDERS}{_TAGS}{_BLANKS}\u200c\u200d]")
_RUN: Final = re.compile(
    f"[{_CONTROLS}\x80-\x84\x86-\x9f]+|(?P<reorders>[{_REORDERS}]+)|(?P<flag>(?<=\U0001f3f4)[\U000e0030-\U000e007a]{{2,6}}\U000e007f)|(?P<tags>[{_TAGS}]+)"
    f"|[{_BLANKS}]+|{_JOINERS}"
)


class Mark(NamedTuple):
    """A place in a body, in characters, and what is to be said about it."""

    offset: int
    kind: str
    message: str
    severity: Severity


def visible(text: str, most: int = QUOTED_CHARACTERS) -> str:
    r"""Return the text for a sentence: on one line, controls as `\x1b`, at most about `most` characters."""
    shown = "".join(c if c.isprintable() else _escape(c) for c in text[: most + 1])
    return shown if len(shown) <= most else shown[: most - 1] + "…"


def _escape(character: str) -> str:
    code = ord(character)
    if 0xDC80 <= code <= 0xDCFF:
        # A byte of a file name that is not UTF-8.
        return f"\\x{code - 0xDC00:02x}"
    return {"\n": "\\n", "\r": "\\r", "\t": "\\t"}.get(character) or (
        f"\\x{code:02x}" if code < 0x80 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
    )


def quote(text: str) -> str:
    """Return a piece of a file for a sentence: no secret in it, in quotation marks."""
    return f"“{visible(mask(text[:2_000]).strip())}”"


def marks(text: str, name: str) -> tuple[Iterator[Mark], ...]:
    """Return what a reader of this body would miss: one iterator a kind, each by rising offset for one pattern.

    They are lazy, so that who wants twenty marks does not pay for a thousand.
    """
    code = _code_spans(text)
    return (
        _front_matter(text),
        _section_headings(text),
        _outranking(text, name, code),
        _comments(text, code),
        _unfilled(text),
        _hidden_words(text, code),
        _chat_tokens(text),
        _includes(text),
        _unseen(text),
        _open_fence(code),
        _secrets(text),
    )


def _open_fence(code: list[tuple[int, int]]) -> Iterator[Mark]:
    if code and code[-1][1] < 0:
        fact = "a code fence is opened here and never closed, so that all that follows looks like code"
        yield Mark(code[-1][0], "fence", f"{fact}: close it", "warning")


def _secrets(text: str) -> Iterator[Mark]:
    for start, _, kind in secret_spans(text, most=LOOKS // 10):
        fact = f"this line seems to hold a secret ({kind}), and it is sent with every request"
        yield Mark(start, "secret", f"{fact}: move it out of the file", "warning")


def _code_spans(text: str) -> list[tuple[int, int]]:
    """Return (start, end) of each fenced block; the end of one that is never closed is -1."""
    spans: list[tuple[int, int]] = []
    if "```" not in text and "~~~" not in text:
        return spans
    opened, start = "", 0
    # One newline in front makes the first line like any other; the offsets fit by themselves.
    matches = list(islice(_CODE.finditer("\n" + text), _FENCES))
    for match in matches:
        fence, info = match["fence"], match["info"]
        if not opened and not (fence[0] == "`" and "`" in info):
            opened, start = fence, match.start()
        elif opened and fence.startswith(opened) and not info.strip():
            spans.append((start, match.end()))
            opened = ""
    return [*spans, (start, -1)] if opened and len(matches) < _FENCES else spans


class _Outside:
    """Answers, for rising offsets, whether a place is outside all code: a preview shows code as it is."""

    def __init__(self, text: str, code: list[tuple[int, int]]) -> None:
        self._text, self._code, self._at = text, code, 0

    def __call__(self, offset: int) -> bool:
        while self._at < len(self._code) and 0 <= self._code[self._at][1] <= offset:
            self._at += 1
        if self._at < len(self._code) and self._code[self._at][0] <= offset:
            return False
        # Inline code: an odd number of backticks before it on its line (as far as is worth a look).
        line = self._text.rfind("\n", max(0, offset - 400), offset) + 1
        return self._text.count("`", line or max(0, offset - 400), offset) % 2 == 0


def _front_matter(text: str) -> Iterator[Mark]:
    if head := _FRONT_MATTER.match(text):
        end = _FRONT_MATTER_ENDS.search(text, head.end() - 1, _FRONT_MATTER_CHARACTERS)
        extent = f"of {_lines(text, 0, end.end())}" if end else "without its closing ---"
        fact = f"YAML front matter {extent} is sent, though a preview hides it"
        yield Mark(0, "front-matter", f"{fact}: delete it if the model has no use for it", "note")


def _lines(text: str, start: int, end: int) -> str:
    count = text.count("\n", start, end) + 1
    return f"{count} lines" if count > 1 else "1 line"


def _section_headings(text: str) -> Iterator[Mark]:
    for match in _SECTION_HEADING.finditer(text):
        if _opens_line(text, match.start()):
            fact = f"{quote(match[0])} looks to the model like the beginning of another file"
            yield Mark(match.start(), "heading-like", f"{fact}: word the heading differently", "warning")


def _opens_line(text: str, offset: int) -> bool:
    return not text[max(0, offset - 4) : offset].rpartition("\n")[2].strip(" ") and (offset < 4 or "\n" in text[offset - 4 : offset])


def _outranking(text: str, name: str, code: list[tuple[int, int]]) -> Iterator[Mark]:
    outside = _Outside(text, code)
    head = _FRONT_MATTER.match(text)
    end = _FRONT_MATTER_ENDS.search(text, head.end() - 1, _FRONT_MATTER_CHARACTERS) if head else None
    for match in islice(_TITLE.finditer("\n" + text, end.end() if end else 0), LOOKS):
        if outside(match.start()):
            title = match[0].strip().partition("\n")[0]
            fact = f"{quote(title)} is of level 1 and outranks the heading ## {name} that stands above it"
            yield Mark(match.start(), "outranks", f"{fact}: begin with ### where the model must see which file it reads", "note")
            return


def _comments(text: str, code: list[tuple[int, int]]) -> Iterator[Mark]:
    outside, end = _Outside(text, code), 0
    while (start := text.find("<!--", end)) >= 0:
        closed = text.find("-->", start + 4)
        end = closed + 3 if closed >= 0 else len(text)
        if not outside(start):
            continue
        what = f"the comment {quote(text[start : min(end, start + 400)])}" if closed >= 0 else "a comment that is never closed"
        yield Mark(start, "comment", f"{what} is sent, though a preview hides it: delete it if the model must not read it", "note")


def _unfilled(text: str) -> Iterator[Mark]:
    for pattern, anchors in ((_BRACES, ("{{", "{%")), (_BRACKETS, ("[",))):
        if any(anchor in text for anchor in anchors):
            for match in islice(pattern.finditer(text), LOOKS):
                yield Mark(match.start(), "placeholder", f"{quote(match[0])} is sent as it stands: fill it in or delete it", "note")


def _hidden_words(text: str, code: list[tuple[int, int]]) -> Iterator[Mark]:
    outside = _Outside(text, code)
    for match in islice(_ANGLES.finditer(text), LOOKS):
        if _is_stand_in(text, match) and outside(match.start()):
            fact = f"{quote(match[0])} is sent, though a preview hides it"
            yield Mark(match.start(), "placeholder", f"{fact}: fill it in, or put it in backticks", "note")


def _is_stand_in(text: str, match: re.Match[str]) -> bool:
    """Tell `<your name>` from HTML, from a chat template's mark and from a tag that is closed further down."""
    word = re.split(r"[ /]", match[0][1:-1], maxsplit=1)[0].lower()
    closed = text.find(f"</{match[0][1:]}", match.end(), match.end() + 4_000) >= 0
    return not closed and word not in _HTML and not _CHAT.fullmatch(match[0])


def _chat_tokens(text: str) -> Iterator[Mark]:
    if any(anchor in text for anchor in _CHAT_ANCHORS):
        for match in islice(_CHAT.finditer(text), LOOKS):
            offset = match.start() + (2 if match[0][0] == "\n" else 0)
            fact = f"{quote(match[0])} is a mark of chat templates, and a model may take it for the end of the prompt"
            yield Mark(offset, "chat-token", f"{fact}: write it differently", "warning")


def _includes(text: str) -> Iterator[Mark]:
    if "include" in text:
        for match in _INCLUDE.finditer("\n" + text):
            fact = f"{quote(match[0])} is sent as written, nothing is included"
            yield Mark(match.start(), "include", f"{fact}: paste the text here", "warning")


def _unseen(text: str) -> Iterator[Mark]:
    search = (_UNSEEN_ASCII if text.isascii() else _UNSEEN).search
    # The byte order mark is said as "encoding", with its own cure.
    end = 1 if text.startswith("\ufeff") else 0
    while found := search(text, end):
        run = _RUN.match(text, found.start())
        end = run.end() if run else found.end()
        if run and not run["flag"]:
            yield Mark(run.start(), "invisible", f"{_unseen_fact(run)}: delete what was not meant", "warning")


def _unseen_fact(run: re.Match[str]) -> str:
    count, first = run.end() - run.start(), run[0][0]
    if run["tags"]:
        hidden = "".join(chr(ord(c) - 0xE0000) for c in run["tags"][:QUOTED_CHARACTERS])
        return f"{count} invisible tag character{'s are' if count > 1 else ' is'} sent, spelling {quote(hidden)}"
    named = f"U+{ord(first):04X} ({unicodedata.name(first, 'control character').lower()})"
    named += f" and {count - 1} more like it" if count > 1 else ""
    if run["reorders"]:
        return f"{named} here: the text is displayed in another order than it is sent"
    return f"{named} {'are' if count > 1 else 'is'} sent and cannot be seen"
