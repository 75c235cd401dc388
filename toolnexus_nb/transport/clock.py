"""The time that the caller gave to a whole run: how much silence it leaves, and its end.

Border: the monotonic clock. A `deadline` is a moment on it, None for an open run.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Final

from ..conversation import ReplyEvent
from ..errors import DeadlinePassed, Stalled

TIME_IS_UP: Final = "the time given to the whole run is over"


def allowed(timeout_seconds: float, deadline: float | None) -> float:
    """Return the silence allowed now: never longer than until the deadline, never quite nothing."""
    return timeout_seconds if deadline is None else max(0.001, min(timeout_seconds, deadline - time.monotonic()))


def is_over(deadline: float | None) -> bool:
    return deadline is not None and time.monotonic() >= deadline


def until(events: Iterator[ReplyEvent], deadline: float | None) -> Iterator[ReplyEvent]:
    """Pass events on until the deadline; a silence that lasted up to it is its end, not a stall. Raises DeadlinePassed."""
    over = False
    try:
        for event in events:
            yield event
            if is_over(deadline):
                over = True
                break
    except Stalled:
        if not is_over(deadline):
            raise
        over = True
    if over:
        raise DeadlinePassed(TIME_IS_UP)
