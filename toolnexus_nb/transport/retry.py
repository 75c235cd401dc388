"""When a request is tried again, and the visible, interruptible wait before it.

Border: none; the caller brings the clock (`sleep`) and the chance (`jitter`).
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from ..conversation import Notice, Waiting
from ..errors import Refused, WireError

DEFAULT_RETRIES: Final = 2
MAX_WAIT_SECONDS: Final = 60.0

_BACKOFF_SECONDS: Final = 0.5
_TICK_SECONDS: Final = 0.25
#: Stop reaches a sleeping kernel at once on Unix, only between two sleeps elsewhere.
_SLICE_SECONDS: Final = 0.1


@dataclass(frozen=True, slots=True)
class Retry:
    """How often and how patiently. `retries` come after the first attempt.

    The wait is exponential with full jitter: anything up to 0.5 s, 1 s, 2 s … A Retry-After is
    obeyed up to MAX_WAIT_SECONDS; when it asks for more than all the retries left can
    wait, there is no point in waiting and the error comes at once.
    """

    retries: int = DEFAULT_RETRIES
    sleep: Callable[[float], None] = time.sleep
    jitter: Callable[[float, float], float] = random.uniform

    def wait(self, error: WireError, attempt: int) -> Iterator[Waiting | Notice]:
        """Wait after attempt number `attempt` failed with `error`; raise it when another cannot help."""
        asked = error.retry_after if isinstance(error, Refused) else None
        left = self.retries - attempt + 1
        if left <= 0 or (asked or 0.0) > MAX_WAIT_SECONDS * left:
            raise error
        seconds = self._backoff(attempt) if asked is None else asked
        if seconds > MAX_WAIT_SECONDS:
            yield Notice(f"the server asks to wait {seconds:.0f} s: trying again after {MAX_WAIT_SECONDS:.0f} s, the longest wait")
        reason = f"HTTP {error.status}" if isinstance(error, Refused) else str(error)
        yield from self.pause(min(MAX_WAIT_SECONDS, seconds), attempt, reason)

    def _backoff(self, attempt: int) -> float:
        # Past the tenth doubling the cap decides.
        return self.jitter(0.0, min(MAX_WAIT_SECONDS, _BACKOFF_SECONDS * 2 ** min(attempt - 1, 10)))

    def pause(self, seconds: float, attempt: int, reason: str) -> Iterator[Waiting]:
        """Wait in small slices, each of them seen."""
        yield Waiting(seconds, attempt, reason)
        while seconds > 0:
            self._pause(min(_TICK_SECONDS, seconds))
            seconds -= _TICK_SECONDS
            if seconds > 0:
                yield Waiting(seconds, attempt, reason)

    def _pause(self, seconds: float) -> None:
        while seconds > 0:
            self.sleep(min(_SLICE_SECONDS, seconds))
            seconds -= _SLICE_SECONDS
