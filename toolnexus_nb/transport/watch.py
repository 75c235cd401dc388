"""How much a reply may bring, and how long it may bring nothing.

Border: the monotonic clock.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Final

from ..errors import Stalled, TooLong

EVENT_BYTES: Final = 16 * 2**20
REPLY_BYTES: Final = 64 * 2**20
#: A server may send comments and empty deltas for ever: bytes are not enough to call it alive.
SILENCE_SECONDS: Final = 600.0


@dataclass(slots=True)
class Watch:
    """Counts the bytes of one reply, and the time since it last said something.

    `silence_seconds` is how long a server may send bytes that say nothing.
    """

    place: str
    silence_seconds: float = SILENCE_SECONDS
    now: Callable[[], float] = time.monotonic
    _heard: float = field(init=False)
    _event_bytes: int = 0
    _reply_bytes: int = 0

    def __post_init__(self) -> None:
        self._heard = self.now()

    def counted(self, chunks: Iterator[bytes]) -> Iterator[bytes]:
        """Pass the decoded bytes on. Raises TooLong, and Stalled where they say nothing for too long."""
        for chunk in chunks:
            self._event_bytes += len(chunk)
            self._reply_bytes += len(chunk)
            if self._reply_bytes > REPLY_BYTES:
                raise TooLong(f"{self.place}: the reply is longer than {REPLY_BYTES // 2**20} MB: lower --max-tokens, or check the server")
            if self._event_bytes > EVENT_BYTES + len(chunk):
                raise TooLong(f"{self.place}: one event is longer than {EVENT_BYTES // 2**20} MB: check the base URL and the server")
            if self.now() - self._heard > self.silence_seconds:
                fact = f"bytes come, but nothing was said for {self.silence_seconds:g} s"
                raise Stalled(f"{self.place}: {fact}: the server hangs: try again")
            yield chunk

    def event(self) -> None:
        """Take note that an event is complete."""
        self._event_bytes = 0

    def heard(self) -> None:
        """Take note that the reply has said something."""
        self._heard = self.now()
