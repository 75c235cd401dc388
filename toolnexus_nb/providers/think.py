"""Reasoning that stands in the text between tags, as models write it whose server does not take it apart.

Border: none. Only a tag at the very start counts: behind any other text it may be code or prose.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from ..conversation import Notice, ReasoningDelta, ReplyEvent, TextDelta

#: DeepSeek-R1, Qwen and many others; Magistral; Seed.
_TAGS: Final = {"<think>": "</think>", "[THINK]": "[/THINK]", "<seed:think>": "</seed:think>"}
_UNCLOSED: Final = Notice("the reply ended inside its reasoning, which was never closed: it holds no answer")


class Thinking:
    """Tells the reasoning at the start of a reply's text from the text. `over` once nothing can change any more."""

    def __init__(self, block: int = 0) -> None:
        self.over = False
        self._block = block
        self._held = ""
        #: The tag that ends the reasoning under way; "" before it and behind it.
        self._end = ""
        self._blank = True

    def sorted(self, events: Iterable[ReplyEvent]) -> Iterator[ReplyEvent]:
        """Pass events on, the text of reasoning as ReasoningDelta."""
        for event in events:
            if isinstance(event, TextDelta) and not self.over:
                yield from self._piece(event.text)
            else:
                yield event

    def rest(self, *, ended: bool = True) -> Iterator[ReplyEvent]:
        """Yield what was held back. `ended` says that the server has said all that it had to say."""
        held, self._held = self._held, ""
        if self._end and self._end != "\n":
            yield from self._reasoning(held)
            if ended:
                yield _UNCLOSED
        elif held and not self.over:
            yield TextDelta(held)
        self.over = True

    def _piece(self, text: str) -> Iterator[ReplyEvent]:
        self._held += text
        if not self._end:
            begun = self._held.lstrip()
            tag = next((tag for tag in _TAGS if begun.startswith(tag)), "")
            if tag:
                self._end, self._held = _TAGS[tag], begun[len(tag) :]
            elif any(tag.startswith(begun) for tag in _TAGS):
                return
            else:
                yield from self._text(self._held)
                return
        yield from self._inside()

    def _inside(self) -> Iterator[ReplyEvent]:
        if self._end == "\n":
            # Behind the reasoning: the blank lines that part it from the text belong to neither.
            yield from self._text(self._held.lstrip())
            return
        before, tag, behind = self._held.partition(self._end)
        if tag:
            yield from self._reasoning(before.rstrip())
            self._end, self._held = "\n", ""
            yield from self._text(behind.lstrip())
            return
        # The end of the piece may be the beginning of the tag.
        keep = next((n for n in range(len(self._end) - 1, 0, -1) if before.endswith(self._end[:n])), 0)
        # White space before the tag is not part of the reasoning, and is not known before the tag.
        whole = before[: len(before) - keep].rstrip()
        self._held = before[len(whole) :]
        yield from self._reasoning(whole)

    def _reasoning(self, text: str) -> Iterator[ReplyEvent]:
        text = text.lstrip() if self._blank else text
        if text:
            self._blank = False
            yield ReasoningDelta(text, self._block)

    def _text(self, text: str) -> Iterator[ReplyEvent]:
        if not text:
            self._held = ""
            return
        self.over, self._end, self._held = True, "", ""
        yield TextDelta(text)
