"""What the events of either dialect pass on their way out: characters made whole, reasoning told from text.

Border: none. Nearly every piece needs neither, and then costs two comparisons.
"""

from __future__ import annotations

from collections.abc import Iterable

from ..conversation import Finish, ReplyEvent
from .surrogates import Halves
from .think import Thinking


class Tidy:
    """The state of one reply. `block` is the number of the reasoning that stands in its text."""

    def __init__(self, block: int = 0) -> None:
        self._halves = Halves()
        self._thinking = Thinking(block)

    def passed(self, events: Iterable[ReplyEvent], data: str) -> Iterable[ReplyEvent]:
        """Return the events of one piece of the stream, whose JSON was `data`."""
        # Bytes decoded as UTF-8 hold no half characters; they come as \\u escapes or not at all.
        if self._halves or "\\u" in data:
            events = self._halves.mended(events)
        return events if self._thinking.over else self._thinking.sorted(events)

    def broken(self) -> Iterable[ReplyEvent]:
        """Yield what was held back of a reply that broke off."""
        yield from self._thinking.sorted([*self._halves.rest()])
        yield from self._thinking.rest(ended=False)

    def ending(self, events: Iterable[ReplyEvent], finish: Finish) -> Iterable[ReplyEvent]:
        """Yield the last events, what was held back, and the Finish."""
        yield from self._thinking.sorted([*self._halves.mended(events), *self._halves.rest()])
        yield from self._thinking.rest()
        yield from self._halves.mended((finish,))
