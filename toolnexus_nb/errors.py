"""One tree of errors; every message has a subject, a fact and a cure.

ToolnexusError
├── PersonaError          a directory that cannot be shown or run as a persona
├── ModelError            a model name that leads to no endpoint, or an option it cannot take
│   ├── MissingKeyError   the endpoint needs a key and the environment holds none
│   └── LocalModelError   the embedded model is not installed, or the soul does not fit in it
├── PromptError           a prompt that holds nothing to send
├── SessionError          a saved session that cannot be read, or nothing to undo
├── RevisionError         a git revision that is not there, or no git to ask
├── WireError             the endpoint was asked and gave no usable answer
│   ├── ConnectionFailed  nothing answered at that address
│   ├── Stalled           no byte arrived for `timeout_seconds`
│   ├── Refused           an HTTP error status (`status`, `retry_after`)
│   ├── StreamCut         the stream ended without its terminal event
│   ├── TooLong           an event or a reply beyond the cap
│   ├── DeadlinePassed    the time the caller gave to the whole run is over
│   └── BadReply          an answer that is not of the dialect, or an error inside it
└── RunFailed             a run that did not end `done` (`run` holds what it has)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .conversation import Run


class ToolnexusError(Exception):
    """Base of everything this package raises on purpose."""


class PersonaError(ToolnexusError):
    """A directory that cannot be shown or run as a persona."""


class ModelError(ToolnexusError):
    """A model name that leads to no endpoint."""


class MissingKeyError(ModelError):
    """The endpoint needs a key and the environment holds none."""


class LocalModelError(ModelError):
    """The embedded model is not installed, or the soul does not fit in its context."""


class PromptError(ToolnexusError):
    """A prompt that holds nothing to send."""


class SessionError(ToolnexusError):
    """A saved session that cannot be read, or nothing to undo."""


class RevisionError(ToolnexusError):
    """A git revision that is not there, or no git to ask."""


class WireError(ToolnexusError):
    """The endpoint was asked and gave no usable answer."""


class ConnectionFailed(WireError):
    """Nothing answered at that address, or the connection broke before the first byte."""


class Stalled(WireError):
    """No byte arrived for the time the caller allowed."""


class Refused(WireError):
    """The server answered with an HTTP error status."""

    def __init__(self, message: str, *, status: int, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.status = status
        #: Seconds the server asked to wait, or None when it did not ask.
        self.retry_after = retry_after


class StreamCut(WireError):
    """The stream ended without its terminal event: what arrived is not the whole reply."""


class TooLong(WireError):
    """An event, or a whole reply, is longer than the cap: what came before it is kept."""


class DeadlinePassed(WireError):
    """The time the caller gave to the whole run is over: what had arrived is kept."""


class BadReply(WireError):
    """An answer that is not of the dialect, or an error reported inside a 200 answer."""


class RunFailed(ToolnexusError):
    """A run that did not end `done`; `run` holds the text, usage and messages it has."""

    def __init__(self, message: str, run: Run) -> None:
        super().__init__(message)
        self.run = run
