"""Strings that look like keys, tokens and passwords: where they stand, and a text without them.

Border: none; text in, text out. A guess by shape: it errs towards leaving prose alone.
Every pattern is linear: a run is entered once (look-behind) and never given back (possessive).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any, Final, NamedTuple


class Secret(NamedTuple):
    """A span of the text, in characters, and what it looks like."""

    start: int
    end: int
    kind: str


class _Shape(NamedTuple):
    """A token that is known by its first letters. `anchors` are searched first: most texts hold none."""

    kind: str
    anchors: tuple[bytes, ...]
    pattern: re.Pattern[bytes]


def _shape(kind: str, anchors: str, pattern: str) -> _Shape:
    return _Shape(kind, tuple(anchors.encode().split()), re.compile(rb"(?<![A-Za-z0-9_])(?:" + pattern.encode() + rb")"))


#: The more telling name stands first: where two shapes overlap, the first one names the span.
_SHAPES: Final = (
    _shape("Anthropic key", "sk-ant-", r"sk-ant-[A-Za-z0-9_-]{16,}+"),
    _shape("Stripe key", "k_live_ k_test_", r"[prs]k_(?:live|test)_[A-Za-z0-9]{16,}+"),
    _shape("API key", "sk-", r"(?<!-)sk-[A-Za-z0-9_-]{20,}+"),
    _shape("GitHub token", "ghp_ gho_ ghu_ ghs_ ghr_ github_pat_", r"(?:gh[pousr]_[A-Za-z0-9]{30,}+|github_pat_[A-Za-z0-9_]{22,}+)"),
    _shape("GitLab token", "glpat-", r"glpat-[A-Za-z0-9_-]{16,}+"),
    _shape("Slack token", "xox", r"xox[abeprs]-[A-Za-z0-9-]{10,}+"),
    _shape("AWS access key", "AKIA ASIA", r"(?:AKIA|ASIA)[A-Z0-9]{16}(?![A-Za-z0-9])"),
    _shape("Google API key", "AIza", r"AIza[A-Za-z0-9_-]{30,}+"),
    _shape("Hugging Face token", "hf_", r"hf_[A-Za-z0-9]{30,}+"),
    _shape("npm token", "npm_", r"npm_[A-Za-z0-9]{36,}+"),
    _shape("PyPI token", "pypi-", r"pypi-[A-Za-z0-9_-]{40,}+"),
    _shape("API key", "gsk_ xai- r8_", r"(?:gsk_|xai-|r8_)[A-Za-z0-9]{30,}+"),
    _shape("Telegram bot token", ":AA", r"[0-9]{8,10}:AA[A-Za-z0-9_-]{30,}+"),
    _shape("JSON Web Token", "eyJ", r"(?<!-)eyJ[A-Za-z0-9_-]{8,}+\.[A-Za-z0-9_-]{8,}+(?:\.[A-Za-z0-9_-]{8,}+)?"),
)

#: Searched in the lower-case copy, one match a name; the value is looked at, not consumed, so that
#: a name inside a value that is no secret gets its own turn.
_ASSIGNED: Final = re.compile(
    rb"(?P<word>password|passphrase|passwd|passwort|pwd|secret|token|(?:api|access|auth|secret|private|signing|encryption)[_ -]?key)"
    rb"[\"'`*_]{0,4}(?:[ \t]{0,4}[:=]|[ \t]{1,4}is(?=[ \t:]))[*_=:>]{0,4}[ \t]{0,4}"
    rb"(?=\"(?P<double>[^\"\r\n]{4,512})\"|'(?P<single>[^'\r\n]{4,512})'|`(?P<code>[^`\r\n]{4,512})`"
    rb"|(?P<bare>[^\s\"'`,;|<>(){}\[\]=:&]{5,128}+))"
)
_ASSIGNED_ANCHORS: Final = (b"pass", b"pwd", b"secret", b"token", b"key")
#: How far a bare value goes on behind what was looked at.
_BARE: Final = re.compile(rb"[^\s\"'`,;|<>(){}\[\]]*+")
#: The same in other scripts, where the word and its sign say enough about what follows.
_FOREIGN: Final = re.compile(r"(?:密码|口令|密钥|パスワード|비밀번호|[Пп]ароль)[*_` ]{0,4}[:=：是][*_` ]{0,4}([!-~]{6,}+)")
_SCHEME: Final = re.compile(rb"\b(?P<word>bearer|authorization[\"']?[:=] {0,2}[\"']?basic)[ \t]{1,4}(?P<value>[a-z0-9._~+/=-]{12,}+)")
_IN_URL: Final = re.compile(rb"://[^\s/?#:@\"'<>]{0,64}:(?P<value>[^\s/?#@\"'<>]{1,256})@")

_KEY_BEGINS: Final = re.compile(rb"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----")
_KEY_ENDS: Final = re.compile(rb"-----END [A-Z0-9 ]{0,40}-----")
_KEY_BODY: Final = re.compile(rb"(?:[\r\n ]{1,4}[A-Za-z0-9+/=]{16,}+)*+")
#: A key block longer than this has lost its last line; only what looks like its body is taken then.
_KEY_BYTES: Final = 16_384

#: What stands where a value would, and means that there is none.
_STAND_IN: Final = re.compile(
    rb"your|example|change.?me|placeholder|redacted|masked|dummy|sample|replace|insert|todo|\.\.\.|xxx|\*\*\*|environ|getenv|process\.env"
    rb"|\$\{|\$\(|\{\{|<|%\(|://|^\$[a-z_]|^(?:~|\.{0,2})/|^(?:sha-?\d|md5|base\d\d|utf-?\d|oauth|bcrypt|1password)"
)
_FILLER: Final = re.compile(rb"example|xxxxx|your[_-]|12345678", re.IGNORECASE)
#: The name of a variable, not a value: OPENAI_API_KEY_2.
_VARIABLE: Final = re.compile(rb"[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)++")
_PASSWORDS: Final = (b"password", b"passphrase", b"passwd", b"passwort", b"pwd")
_LETTERS: Final = frozenset(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")
_DIGITS: Final = frozenset(b"0123456789")
_MARKS: Final = frozenset(b"!@#$%^&+~")
#: What a password field holds in a schema or a form.
_TYPE_WORDS: Final = frozenset(b"string number integer boolean object required optional hidden password secret token false".split())


def secret_spans(text: str, most: int | None = None) -> list[Secret]:
    """Return where the text seems to hold a secret, in order and without overlap.

    Only the value is spanned, not the name it is assigned to. Digests, UUIDs and addresses
    without a password are no secrets, nor are stand-ins such as `<your key>` or `${TOKEN}`.
    `most` bounds how many of each shape are returned; by default all are.
    """
    # One byte a character, so that offsets stay; no secret looked for here is outside ASCII.
    flat = text.encode("ascii", "replace")
    lower = flat.lower()
    finders = (_private_keys(flat), _shaped(flat), _in_urls(flat), _schemes(lower), _assigned(flat, lower), _foreign(text))
    return _merged([secret for finder in finders for secret in islice(finder, most)])


def mask(text: str) -> str:
    """Return the text with every secret replaced by `[masked: <kind>]`; the number of lines stays."""
    return _masked(text, {})


def masked_strings(value: Any) -> Any:
    """Return a JSON value with every string masked on its own: inside of quotes a key block has no lines."""
    match value:
        case str():
            return mask(value)
        case Mapping():
            return {name: masked_strings(inner) for name, inner in value.items()}
        case list() | tuple():
            return [masked_strings(inner) for inner in value]
    return value


def mask_pair(before: str, after: str) -> tuple[str, str]:
    """Return two versions of a text masked so that they can be compared.

    Different secrets stay different (`[masked: password]`, `[masked: password 2]`), and one
    that only `after` holds says so: `[masked: password, changed]`.
    """
    labels: dict[str, str] = {}
    counts: Counter[str] = Counter()
    for text, note in ((before, ""), (after, ", changed")):
        for start, end, kind in secret_spans(text):
            if text[start:end] not in labels:
                counts[kind + note] += 1
                count = counts[kind + note]
                labels[text[start:end]] = kind + note + (f" {count}" if count > 1 else "")
    return _masked(before, labels), _masked(after, labels)


def _masked(text: str, labels: Mapping[str, str]) -> str:
    parts, last = [], 0
    for start, end, kind in secret_spans(text):
        label = labels.get(text[start:end], kind)
        parts += [text[last:start], f"[masked: {label}]", "\n" * text.count("\n", start, end)]
        last = end
    return "".join(parts) + text[last:]


def _private_keys(flat: bytes) -> Iterator[Secret]:
    last = _KEY_ENDS.search(flat)
    done = 0
    for begin in _KEY_BEGINS.finditer(flat):
        start, head = begin.span()
        if start < done:
            continue
        # Searched onwards only, so that many heads without an end cost one pass.
        while last and last.start() < head:
            last = _KEY_ENDS.search(flat, last.end())
        body = _KEY_BODY.match(flat, head)
        done = last.end() if last and last.start() - head <= _KEY_BYTES else body.end() if body else head
        yield Secret(start, done, "private key")


def _shaped(flat: bytes) -> Iterator[Secret]:
    for kind, anchors, pattern in _SHAPES:
        if any(anchor in flat for anchor in anchors):
            for match in pattern.finditer(flat):
                if _mixed(match[0]) and not _FILLER.search(match[0]):
                    yield Secret(match.start(), match.end(), kind)


def _in_urls(flat: bytes) -> Iterator[Secret]:
    if b"://" not in flat or b"@" not in flat:
        return
    for match in _IN_URL.finditer(flat):
        value = match["value"].lower()
        if value not in (b"pass", *_PASSWORDS) and not _STAND_IN.search(value):
            yield Secret(*match.span("value"), "password in a URL")


def _schemes(lower: bytes) -> Iterator[Secret]:
    """Find what follows `Bearer` and `Basic` in an Authorization header."""
    if b"bearer " not in lower and b"basic " not in lower:
        return
    for match in _SCHEME.finditer(lower):
        if _mixed(match["value"]) and not _STAND_IN.search(match["value"]):
            yield Secret(*match.span("value"), "bearer token" if match["word"] == b"bearer" else "password")


def _assigned(flat: bytes, lower: bytes) -> Iterator[Secret]:
    if not any(anchor in lower for anchor in _ASSIGNED_ANCHORS):
        return
    done = 0
    for match in _ASSIGNED.finditer(lower):
        group = match.lastgroup or "bare"
        start, end = match.span(group)
        bare = group == "bare"
        if start < done or not _is_value(flat[start:end].rstrip(b".*_:"), match["word"], quoted=not bare):
            continue
        if bare:
            rest = _BARE.match(flat, start)
            end = start + len(rest[0].rstrip(b".*_:")) if rest else end
        yield Secret(start, end, _kind(match["word"]))
        done = end


def _foreign(text: str) -> Iterator[Secret]:
    if text.isascii():
        return
    for match in _FOREIGN.finditer(text):
        if not _STAND_IN.search(match[1].lower().encode()):
            yield Secret(*match.span(1), "password")


def _is_value(value: bytes, word: bytes, *, quoted: bool) -> bool:
    """Tell a value from the prose, name, type or stand-in that may follow the same word."""
    low = value.lower()
    if word in _PASSWORDS:
        # The last character may be the sentence's own mark.
        marked = not _MARKS.isdisjoint(value[:-1]) and not _LETTERS.isdisjoint(value)
        real = len(value) >= 5 and (_mixed(value) or marked or value.isdigit() or (quoted and value.isalpha()))
    else:
        real = len(value) >= 8 and b" " not in value and _mixed(value)
    return real and len(set(value)) > 2 and low not in _TYPE_WORDS and not _VARIABLE.fullmatch(value) and not _STAND_IN.search(low)


def _mixed(value: bytes) -> bool:
    """Tell whether digits stand among letters: generated strings have that, words do not."""
    return not _LETTERS.isdisjoint(value) and not _DIGITS.isdisjoint(value)


def _kind(word: bytes) -> str:
    if word in _PASSWORDS:
        return "password"
    return word.decode() if word in (b"secret", b"token") else "API key"


def _merged(found: list[Secret]) -> list[Secret]:
    """Join overlapping spans; of the finders that saw a span, the first in their order names it."""
    merged: list[tuple[int, int, int, str]] = []
    for start, end, rank, kind in sorted((s.start, s.end, rank, s.kind) for rank, s in enumerate(found)):
        if merged and start < merged[-1][1]:
            first, last, other_rank, other_kind = merged.pop()
            merged.append((first, max(last, end), *min((other_rank, other_kind), (rank, kind))))
        else:
            merged.append((start, end, rank, kind))
    return [Secret(start, end, kind) for start, end, _, kind in merged]
