"""What passes between an agent, a dialect and the transport: Endpoint, Ask, WireRequest, and the Provider protocol.

Border: none; values only.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Protocol
from urllib.parse import parse_qsl, urlsplit

from ..conversation import Message, ReplyEvent, Tool

Style = Literal["openai", "anthropic"]


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where a model is reached: dialect, address, the model's name there, the key and other headers (never in repr)."""

    style: Style
    #: Not in repr either: its query may hold a key.
    base_url: str = field(repr=False)
    model: str
    api_key: str = field(default="", repr=False)
    #: "local" or "mirror" when the model is embedded and `base_url` is not used.
    embedded: str = ""
    #: Sent with every request; the values are secret.
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)

    @property
    def origin(self) -> str:
        """What tells one server from another in a history: dialect and address, without its query."""
        return f"{self.style} {self.base_url.partition('?')[0]}"

    @property
    def secrets(self) -> tuple[str, ...]:
        """The values that must never be shown, the longest first."""
        query = [value for _, value in parse_qsl(urlsplit(self.base_url).query)]
        return tuple(sorted({self.api_key, *self.headers.values(), *query} - {""}, key=len, reverse=True))


@dataclass(frozen=True, slots=True)
class Ask:
    """All that one reply depends on, in no dialect.

    `system` is the soul, "" to send none. `params` are merged into the body last.
    `role` is the role the soul is sent under in the openai dialect: "system" or "user".
    """

    endpoint: Endpoint
    system: str
    messages: tuple[Message, ...]
    tools: tuple[Tool, ...] = ()
    params: Mapping[str, Any] = field(default_factory=dict)
    role: Literal["system", "user"] = "system"
    #: Ask an openai server for usage at the end of the stream; some refuse the option.
    include_usage: bool = True
    #: False once the server has refused tools: then the calls of the history are told as text.
    takes_tools: bool = True


@dataclass(frozen=True, slots=True)
class WireRequest:
    """One POST: address, headers, JSON body. None is in repr: address and headers may hold a key."""

    url: str = field(repr=False)
    headers: Mapping[str, str] = field(repr=False)
    body: Mapping[str, Any] = field(repr=False)

    def with_headers(self, more: Mapping[str, str]) -> WireRequest:
        """Return the request with these headers too; one that both have is theirs, whatever its case."""
        headers = {name.lower(): value for given in (self.headers, more) for name, value in given.items()}
        return replace(self, headers=headers)


class Provider(Protocol):
    """A dialect. Modules `openai` and `anthropic` are the two there are."""

    def request(self, ask: Ask) -> WireRequest:
        """Return the streaming request that asks for one reply."""

    def events(self, stream: Iterable[tuple[str, str]]) -> Iterator[ReplyEvent]:
        """Turn (event name, data) pairs of an SSE stream into events; Finish is the last one.

        Raises BadReply for an error event or what is not of the dialect, StreamCut when
        the stream ends without its terminal event.
        """

    def whole(self, body: object) -> Iterator[ReplyEvent]:
        """Turn a plain JSON answer into the same events. Raises BadReply as `events` does."""
