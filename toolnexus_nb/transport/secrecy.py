"""Keep keys out of what people read: scrub takes them out of a server's words.

Border: none. Every pattern runs in linear time, because the text comes from a server.
"""

from __future__ import annotations

import base64
import re
import string
from collections.abc import Iterator
from typing import Final
from urllib.parse import quote

from ..masking import secret_spans

REDACTED: Final = "[redacted]"
#: A shorter piece of a key is an ordinary piece of a sentence.
FRAGMENT_CHARACTERS: Final = 6
#: A key shorter than this ("x", "no") is a placeholder for servers that want none.
_SECRET_CHARACTERS: Final = 4

_KEY_LIKE: Final = re.compile(
    r"\b(?:sk|pk|rk|gsk|xai)[-_][\w.*•…-]{6,}|\bAIza[\w-]{20,}"
    # A masked key of any make: what stands before and after the stars is part of it.
    r"|(?<![\w-])[\w-]{1,40}[*•]{3,}[\w-]{0,40}|[*•]{3,}[\w-]{0,40}"
)
_NAMED: Final = re.compile(
    r"(?i)\b((?:x-api-key|api[-_]key|authorization)[\"']?\s{0,9}[:=]\s{0,9}[\"']?(?:bearer\s{1,9}|basic\s{1,9})?|bearer\s{1,9})"
    r"([^\s\"',;<>(){}\[\]]{4,})"
)
#: A piece of base64 counts from this length on.
_CODED_CHARACTERS: Final = 8
#: Letters of ASCII alone, so that offsets stay: a host name comes back in lower case.
_LOWER: Final = str.maketrans(string.ascii_uppercase, string.ascii_lowercase)
_REPEATED: Final = re.compile(r"(?:\[redacted\]){2,}")


def scrub(text: str, *secrets: str) -> str:
    """Return `text` without the secrets, pieces of it, and whatever else looks like a key.

    A piece counts from FRAGMENT_CHARACTERS on; a shorter beginning counts when dots follow, as in
    "abc…xyz". Each becomes "[redacted]".
    """
    for secret in secrets:
        if len(secret) > 2 * FRAGMENT_CHARACTERS:
            text = re.sub(f"(?i:{re.escape(secret[:2])})" + r"[\w-]{0,40}(?:…|\.{2,9})[\w-]{0,40}", REDACTED, text)
        text = _without_fragments(text, secret, FRAGMENT_CHARACTERS)
        if len(secret) >= FRAGMENT_CHARACTERS:
            for form, size in _forms(secret):
                text = _without_fragments(text, form, size)
    text = _without_look_alikes(_NAMED.sub(_named, text))
    return _REPEATED.sub(REDACTED, _KEY_LIKE.sub(REDACTED, text))


def _without_look_alikes(text: str) -> str:
    kept, at = [], 0
    for start, end, _kind in secret_spans(text):
        kept += [text[at:start], REDACTED]
        at = end
    return "".join((*kept, text[at:]))


def _named(match: re.Match[str]) -> str:
    lead, value = match.groups()
    # "Bearer authentication is required" names no key; a key has a digit, a mask, or length.
    plain_word = value.isalpha() and len(value) < 20 and lead.strip().lower() == "bearer"
    return match[0] if plain_word else f"{lead}{REDACTED}"


def _forms(secret: str) -> Iterator[tuple[str, int]]:
    """Yield the ways in which a secret may be written, each with the length from which a piece of it counts."""
    raw = secret.encode()
    if (quoted := quote(secret, safe="")) != secret:
        yield quoted, FRAGMENT_CHARACTERS
    yield raw.hex(), 2 * FRAGMENT_CHARACTERS
    for shift in range(3):
        # What stands before it decides how the bytes fall into groups; the edges belong to the neighbours.
        for encode in (base64.b64encode, base64.urlsafe_b64encode):
            yield encode(b"\0" * shift + raw).decode().rstrip("=")[4 if shift else 0 :][: len(raw) * 4 // 3 - 4], _CODED_CHARACTERS


def _without_fragments(text: str, secret: str, least: int) -> str:
    size = min(least, len(secret))
    if size < _SECRET_CHARACTERS:
        return text
    secret, folded = secret.translate(_LOWER), text.translate(_LOWER)
    pieces = {secret[start : start + size] for start in range(len(secret) - size + 1)}
    kept, start, at = [], 0, 0
    while at <= len(text) - size:
        if folded[at : at + size] not in pieces:
            at += 1
            continue
        end = at + size
        while folded[end - size + 1 : end + 1] in pieces and end < len(text):
            end += 1
        kept += [text[start:at], REDACTED]
        start = at = end
    return "".join((*kept, text[start:]))
