"""Halves of characters: servers that cut UTF-16 text anywhere send one half now and the other later.

Border: none. No encoding can hold half a character, so none may leave this package.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any, Final

from ..conversation import Finish, Kept, ModelNamed, ReasoningDelta, ReplyEvent, TextDelta, ToolCallDelta

_LOST_HALF: Final = "\N{REPLACEMENT CHARACTER}"


def joined(text: str) -> str:
    """Return `text` with halves that meet joined, and each lone one as U+FFFD."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


class Halves:
    """First halves whose second half may still come, by the stream of pieces they belong to. True while there is one."""

    def __init__(self) -> None:
        self._halves: dict[tuple[str, int], str] = {}

    def __bool__(self) -> bool:
        return bool(self._halves)

    def mended(self, events: Iterable[ReplyEvent]) -> Iterator[ReplyEvent]:
        """Pass events on without half characters; a half at the end of a piece waits for the next piece."""
        for event in events:
            match event:
                case TextDelta(text):
                    if text := self._piece("text", 0, text):
                        yield TextDelta(text)
                case ReasoningDelta(text, block, signature, redacted):
                    text = self._piece("reasoning", block, text)
                    if text or signature or redacted:
                        yield ReasoningDelta(text, block, joined(signature), joined(redacted))
                case ToolCallDelta(key, id_, name, arguments):
                    arguments = self._piece("arguments", key, arguments)
                    if arguments or id_ or name:
                        yield ToolCallDelta(key, joined(id_), joined(name), arguments)
                case ModelNamed(model):
                    yield ModelNamed(joined(model))
                case Finish():
                    yield replace(event, detail=joined(event.detail))
                case Kept(fields, key):
                    yield Kept(_whole(fields), key)
                case _:
                    yield event

    def _piece(self, kind: str, key: int, text: str) -> str:
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
        self._halves.clear()


def _whole(value: Any) -> Any:
    """Return a JSON value with every text in it mended."""
    if isinstance(value, str):
        return joined(value)
    if isinstance(value, dict):
        return {joined(name): _whole(inner) for name, inner in value.items()}
    return [_whole(inner) for inner in value] if isinstance(value, list) else value
