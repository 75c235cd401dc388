"""Halves of characters: servers that cut UTF-16 text anywhere send one half now and the other later.

Border: none. No encoding can hold half a character, so none may leave this package.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Final

from ..conversation import Finish, ModelNamed, ReasoningDelta, ReplyEvent, TextDelta, ToolCallDelta

_LOST_HALF: Final = "\N{REPLACEMENT CHARACTER}"


def joined(text: str) -> str:
    """Return `text` with halves that meet joined, and each lone one as U+FFFD."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def mended(events: Iterable[ReplyEvent]) -> Iterator[ReplyEvent]:
    """Pass events on without half characters; a half at the end of a piece waits for the next piece.

    Pieces that are empty and say nothing else are left out.
    """
    waiting = _Waiting()
    for event in events:
        match event:
            case TextDelta(text):
                if text := waiting.piece("text", 0, text):
                    yield TextDelta(text)
            case ReasoningDelta(text, block, signature, redacted):
                text = waiting.piece("reasoning", block, text)
                if text or signature or redacted:
                    yield ReasoningDelta(text, block, joined(signature), joined(redacted))
            case ToolCallDelta(key, id_, name, arguments):
                arguments = waiting.piece("arguments", key, arguments)
                if arguments or id_ or name:
                    yield ToolCallDelta(key, joined(id_), joined(name), arguments)
            case ModelNamed(model):
                yield ModelNamed(joined(model))
            case Finish():
                yield from waiting.rest()
                yield replace(event, detail=joined(event.detail))
            case _:
                yield event


class _Waiting:
    """First halves whose second half may still come, by the stream of pieces they belong to."""

    def __init__(self) -> None:
        self._halves: dict[tuple[str, int], str] = {}

    def piece(self, kind: str, key: int, text: str) -> str:
        """Return what of the text can be shown now."""
        if not text:
            return ""
        text = self._halves.pop((kind, key), "") + text
        if "\ud800" <= text[-1] <= "\udbff":
            self._halves[kind, key] = text[-1]
            text = text[:-1]
        return joined(text)

    def rest(self) -> Iterator[ReplyEvent]:
        """Yield what never came to a whole character."""
        for kind, key in self._halves:
            if kind == "text":
                yield TextDelta(_LOST_HALF)
            elif kind == "reasoning":
                yield ReasoningDelta(_LOST_HALF, key)
            else:
                yield ToolCallDelta(key, arguments=_LOST_HALF)
