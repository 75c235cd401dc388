"""Text that arrives in pieces, masked before any of it is shown.

Border: none. A secret is known by what stands before it and by its whole length, so what may
still become one is held back for a moment; all other text passes at once.
"""

from __future__ import annotations

import re
from typing import Final

from .masking import mask, secret_spans

#: How much of a word without a blank is held back.
_WORD: Final = 200
#: The same where the word holds what a key begins with.
_KEY_WORD: Final = 4_096
#: A key block that has not ended by then is masked line by line; the same bound as in `masking`.
_KEY_BYTES: Final = 16_384
#: Behind the last line that is looked at.
_LINE: Final = 1_024

_NAME: Final = r"(?:password|passphrase|passwd|passwort|pwd|secret|token|(?:api|access|auth|secret|private|signing|encryption)[_ -]?key)"
#: Up to the end of the word it closes in: only then is it known whole.
_VALUE: Final = r"(?:\"[^\"\r\n]{0,512}\"?|'[^'\r\n]{0,512}'?|`[^`\r\n]{0,512}`?)?\S{0,512}"
#: An assignment, a header or an address whose value has not ended yet, up to the end of the text.
_OPEN: Final = re.compile(
    r"(?:"
    rf"{_NAME}[\"'`*_]{{0,4}}(?:[ \t]{{0,4}}|[ \t]{{1,4}}i|(?:[ \t]{{0,4}}[:=]|[ \t]{{1,4}}is)[*_=:>]{{0,4}}[ \t]{{0,4}}{_VALUE})"
    r"|(?:api|access|auth|secret|private|signing|encryption)[_ -]?k?e?"
    r"|(?:bearer|authorization[\"']?[:=]? {0,2}[\"']?(?:basic)?)[ \t]{0,4}[!-~]{0,4096}"
    r"|(?:密码|口令|密钥|パスワード|비밀번호|пароль)[*_` ]{0,4}(?:[:=：是][*_` ]{0,4}[!-~]{0,512})?"
    r"|密|口|パ|パス|パスワ|パスワー|비|비밀|비밀번|п|па|пар|паро|парол"
    r")\Z",
    re.IGNORECASE,
)
_LAST_WORD: Final = re.compile(rf"[!-~]{{1,{_KEY_WORD}}}\Z")
_KEY_BEGINS: Final = re.compile(r"-----BEGIN [A-Z0-9 ]{0,40}(?:PRIVATE KEY|\Z)")
_KEY_ENDS: Final = re.compile(r"-----END [A-Z0-9 ]{0,40}-----")
_KEY_TAIL: Final = re.compile(r"[A-Za-z0-9+/=\r\n ]*\Z")
_SHAPED: Final = re.compile(r"sk-|[rsp]k_|gh[pousr]_|github_pat_|glpat-|xox|AKIA|ASIA|AIza|hf_|npm_|pypi-|gsk_|xai-|r8_|:AA|eyJ|://")


class MaskedStream:
    """Takes pieces of a text and gives them back masked; `end` gives what was held back."""

    def __init__(self) -> None:
        self._pending = ""

    def add(self, piece: str) -> str:
        """Return what may be shown now."""
        self._pending += piece
        return self._released(self._safe())

    def end(self) -> str:
        """Return the rest, masked as far as it looks like a secret."""
        return self._released(len(self._pending))

    def _safe(self) -> int:
        """Return how much of the pending text no later piece can make a part of a secret."""
        pending = self._pending
        if "-----BEGIN " in pending and (at := self._key_block()) is not None:
            return at
        start = max(pending.rfind("\n") + 1, len(pending) - _LINE)
        at = found.start() if (found := _OPEN.search(pending, start)) else len(pending)
        if word := _LAST_WORD.search(pending, max(0, at - _KEY_WORD), at):
            # A word of a key is held back whole; of another long one, only what may begin a key.
            long = at - word.start() > _WORD and not _SHAPED.search(word[0])
            at = at - _WORD // 8 if long else word.start()
        return at

    def _key_block(self) -> int | None:
        """Return where a block of a private key begins that has not ended; None if there is none."""
        pending = self._pending
        begins = [found.start() for found in _KEY_BEGINS.finditer(pending)]
        if not begins or _KEY_ENDS.search(pending, begins[-1]):
            return None
        tail = _KEY_TAIL.search(pending, max(begins[-1], len(pending) - _LINE))
        if len(pending) - begins[-1] > _KEY_BYTES and not (tail and len(tail[0]) > _LINE // 8):
            return None
        if len(pending) - begins[-1] > 4 * _KEY_BYTES:
            # None of it is ever shown; it need not be kept either.
            self._pending = pending[: begins[-1] + 2 * _KEY_BYTES] + pending[-_KEY_BYTES:]
        return begins[-1]

    def _released(self, at: int) -> str:
        pending = self._pending
        for start, end, _kind in secret_spans(pending):
            if start < at < end:
                at = start
        self._pending = pending[at:]
        return mask(pending[:at])
