"""The only HTTP caller: an Ask out, the events of one reply in; retries, waits and plain errors.

Border: the network, through httpx and httpx-sse. Whatever they raise is mapped here, and
nothing that leaves this module holds the key: foreign exceptions carry the request, so ours
are raised after their handler has ended, with no cause and no context.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from itertools import chain
from typing import Final, Literal, TypeVar

import httpx
from httpx_sse import EventSource

from ..conversation import Finish, ModelNamed, Notice, ReplyEvent, WireEvent
from ..errors import BadReply, ConnectionFailed, DeadlinePassed, ModelError, Stalled, StreamCut, WireError
from ..providers import Ask, WireRequest, provider
from . import clock, unreachable
from .body import encoded, first_bytes, is_whole_event, json_value, kind_of
from .client import CONNECT_SECONDS, timeout_of
from .client import borrowed_client as borrowed_client
from .client import is_loopback as is_loopback
from .client import open_client as open_client
from .manners import Manners as Manners
from .refusal import Refusal, plain_words, server_words
from .retry import DEFAULT_RETRIES, Retry
from .watch import Watch

DEFAULT_TIMEOUT_SECONDS: Final = 120.0

#: How often a server that loads its model is asked again.
_LOADING_SECONDS: Final = 1.0
_ERROR_BODY_BYTES: Final = 64 * 1024

T = TypeVar("T")


# --- one reply --------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Answer:
    """A 2xx answer whose body has begun: what it is, and all of its bytes."""

    response: httpx.Response
    kind: Literal["sse", "json"]
    chunks: Iterator[bytes]


@dataclass(frozen=True, slots=True)
class _Failure:
    """No answer, and nothing of a body was passed on: what to raise unless another try helps."""

    error: WireError
    may_pass: bool = False
    #: The server had closed a connection kept from an earlier request; that is no failure of it.
    dropped: bool = False
    #: What the server said, where it said no.
    refusal: Refusal | None = None


def stream_reply(
    ask: Ask,
    *,
    client: httpx.Client,
    deadline: float | None = None,
    manners: Manners | None = None,
    timeout_seconds: float = DEFAULT_TIMEOUT_SECONDS,
    retries: int = DEFAULT_RETRIES,
    sleep: Callable[[float], None] = time.sleep,
    jitter: Callable[[float, float], float] = random.uniform,
) -> Generator[WireEvent, None, None]:
    """Ask for one reply and yield its events; closing the generator closes the connection.

    Before the first byte of an answer's body, and only then, 429, 500, 502, 503, 504, 529
    and failed connections are tried again, `retries` times, as Retry says; Waiting events
    tick while it sleeps. A server that still loads its model is waited for up to
    `timeout_seconds`. What a server refuses and can be left out (tools, stream_options) is
    left out, with a Notice, and `manners` remembers it. `sleep` and `jitter` are for tests.

    Raises WireError's children, and ModelError for a request that cannot be written.
    """
    retry, manners = Retry(retries, sleep, jitter), manners or Manners()
    attempt, reopened, loaded, notices = 1, False, 0.0, list[Notice]()
    while True:
        asked = manners.applied(ask)
        outcome = _ask_once(asked, client, clock.allowed(timeout_seconds, deadline))
        if isinstance(outcome, _Answer):
            break
        if clock.is_over(deadline):
            raise DeadlinePassed(clock.TIME_IS_UP)
        refusal = outcome.refusal
        if outcome.dropped and not reopened:
            reopened = True
        elif refusal and (notice := manners.learn(refusal, asked)):
            notices.append(notice)
        elif refusal and refusal.is_loading() and loaded < timeout_seconds:
            yield from retry.pause(_LOADING_SECONDS, attempt, "the server still loads its model")
            loaded += _LOADING_SECONDS
        elif outcome.may_pass:
            yield from retry.wait(outcome.error, attempt)
            attempt += 1
        else:
            raise outcome.error
    with closing(outcome.response):
        yield from notices
        yield from clock.until(_events(outcome, ask, _place(outcome.response.url)), deadline)


def _events(answer: _Answer, ask: Ask, place: str) -> Iterator[ReplyEvent]:
    dialect, watch = provider(ask.endpoint.style), Watch(place)
    chunks = watch.counted(answer.chunks)
    events = dialect.events(_sse_pairs(chunks, watch)) if answer.kind == "sse" else dialect.whole(json_value(answer.chunks))
    for event in _translated(events, (WireError,), lambda error: _cleaned(error, ask)):
        watch.heard()
        match event:
            case ModelNamed(words):
                yield ModelNamed(plain_words(words, ask))
            case Finish(_, words) if words:
                yield replace(event, detail=plain_words(words, ask))
            case _:
                yield event


def _cleaned(error: Exception, ask: Ask) -> Exception:
    """Take the key out of an error that quotes the server, and off it what holds the server's words."""
    error.args = (plain_words(str(error), ask),)
    error.__cause__ = error.__context__ = None
    return error.with_traceback(None)


def _translated(items: Iterator[T], foreign: tuple[type[Exception], ...], ours: Callable[[Exception], Exception]) -> Iterator[T]:
    """Pass items on; a foreign exception becomes ours, raised when its handler has ended."""
    while True:
        try:
            item = next(items)
        except StopIteration:
            return
        except foreign as error:
            failure = ours(error)
        else:
            yield item
            continue
        raise failure


# --- the request ------------------------------------------------------------------------------


def _ask_once(ask: Ask, client: httpx.Client, timeout_seconds: float) -> _Answer | _Failure:
    steps: list[str] = []
    request = _request(provider(ask.endpoint.style).request(ask).with_headers(ask.endpoint.headers), client, timeout_seconds, steps)
    place = _place(request.url)
    try:
        response = client.send(request, stream=True)
    except (httpx.HTTPError, OSError) as error:
        broke = isinstance(error, httpx.NetworkError | httpx.RemoteProtocolError) and not isinstance(error, httpx.ConnectError)
        mapped = _mapped(error, place, timeout_seconds, begun=False)
        may_pass = isinstance(mapped, ConnectionFailed) and not (
            isinstance(error, httpx.UnsupportedProtocol) or unreachable.is_lasting(error)
        )
        return _Failure(mapped, may_pass, dropped=broke and not any(".connect_" in step for step in steps))
    try:
        outcome = _judged(response, ask, place, timeout_seconds)
    except ConnectionFailed as error:
        outcome = _Failure(error, may_pass=True)
    except BaseException:
        response.close()
        raise
    if isinstance(outcome, _Failure):
        response.close()
    return outcome


def _request(wire: WireRequest, client: httpx.Client, timeout_seconds: float, steps: list[str]) -> httpx.Request:
    """Build the POST; `steps` collects the names of what httpcore does, as it does it."""
    if not all(value.isascii() and value.isprintable() and value == value.strip() for value in wire.headers.values()):
        raise ModelError("the API key cannot be sent: it holds a line break, an outer space or a character outside ASCII: copy it again")
    body = encoded(wire.body)
    try:
        return client.build_request(
            "POST",
            wire.url,
            headers={
                "content-type": "application/json",
                "accept": "text/event-stream, application/json",
                **wire.headers,
            },
            content=body,
            timeout=timeout_of(timeout_seconds),
            extensions={"trace": lambda name, _info: steps.append(name)},
        )
    except (httpx.InvalidURL, ValueError, TypeError):
        pass
    raise ModelError("the base URL is no address: it looks like http://127.0.0.1:8080/v1")


# --- the answer -------------------------------------------------------------------------------


def _judged(response: httpx.Response, ask: Ask, place: str, timeout_seconds: float) -> _Answer | _Failure:
    """Look at the status and the first bytes, and say what the answer is."""
    if not response.is_success:
        return _refusal(response, ask, place)
    chunks = _body(response, place, timeout_seconds)
    head = first_bytes(chunks)
    match kind_of(head, response.headers.get("content-type", "")):
        case "sse" | "json" as kind:
            return _Answer(response, kind, chain((head,), chunks))
        case "empty":
            return _Failure(BadReply(f"{place}: HTTP {response.status_code} with an empty body: check the base URL"))
        case "page":
            head += _some(chunks)
            kind_in_words = "a web page"
        case _:
            kind_in_words = "neither an event stream nor JSON"
    said = server_words(head, *ask.endpoint.secrets)
    return _Failure(BadReply(f"{place}: the answer is {kind_in_words}: {said}: check the base URL"))


def _body(response: httpx.Response, place: str, timeout_seconds: float) -> Iterator[bytes]:
    """Yield the decoded body; what breaks it is ConnectionFailed before the first byte, StreamCut after."""
    begun = False

    def ours(error: Exception) -> Exception:
        return _mapped(error, place, timeout_seconds, begun)

    for chunk in _translated(response.iter_bytes(), (httpx.HTTPError, OSError), ours):
        begun = True
        yield chunk


def _sse_pairs(chunks: Iterator[bytes], watch: Watch) -> Iterator[tuple[str, str]]:
    """Decode an event stream into (event name, data) pairs.

    Servers leave out the blank line after the last event. That event counts when its data is
    whole; half of one, from a stream that was cut, does not. The bytes go through a Response of our
    own, so that they are UTF-8 whatever the server's Content-Type says.
    """
    ended = False

    def completed() -> Iterator[bytes]:
        nonlocal ended
        yield from chunks
        ended = True
        yield b"\n\n"

    response = httpx.Response(200, headers={"content-type": "text/event-stream; charset=utf-8"}, content=completed())
    for sse in EventSource(response).iter_sse():
        watch.event()
        if sse.data and (not ended or is_whole_event(sse.data)):
            yield sse.event, sse.data


# --- errors -----------------------------------------------------------------------------------


def _refusal(response: httpx.Response, ask: Ask, place: str) -> _Failure:
    refusal = Refusal(
        response.status_code,
        response.reason_phrase,
        response.headers,
        _some(response.iter_bytes()),
        place,
        response.request.url.path,
        _place(response.headers.get("location", "")),
    )
    return _Failure(refusal.error(ask), may_pass=refusal.may_pass(ask), refusal=refusal)


def _some(chunks: Iterator[bytes]) -> bytes:
    """Read what there is of a body, up to a cap; for a message a broken one is good enough."""
    body = b""
    with suppress(httpx.HTTPError, OSError, WireError):
        for chunk in chunks:
            body += chunk
            if len(body) >= _ERROR_BODY_BYTES:
                break
    return body[:_ERROR_BODY_BYTES]


def _place(url: httpx.URL | str) -> str:
    """Return scheme, host and port: a user name or a query may be a secret."""
    try:
        there = httpx.URL(url)
    except httpx.InvalidURL:
        return ""
    return f"{there.scheme}://{there.netloc.decode()}" if there.host else ""


def _mapped(error: Exception, place: str, timeout_seconds: float, begun: bool) -> WireError:
    """Turn what httpx raises into one line of ours; `begun` says that part of the body was read."""
    connecting = min(CONNECT_SECONDS, timeout_seconds)
    match error:
        case httpx.ConnectTimeout() | httpx.PoolTimeout():
            return ConnectionFailed(f"{place}: no connection in {connecting:g} s: check the address and the network")
        case httpx.TimeoutException():
            return Stalled(f"{place}: no byte for {timeout_seconds:g} s: the server hangs or still loads: allow more with timeout_seconds")
        case _ if begun:
            return StreamCut(f"{place}: the connection broke in the middle of the reply: try again")
        case httpx.DecodingError():
            return BadReply(f"{place}: the answer is not encoded as its Content-Encoding says: check the server")
        case httpx.UnsupportedProtocol():
            return ConnectionFailed(f"{place or 'the base URL'}: not an http:// or https:// address: correct the base URL")
        case httpx.ProxyError():
            return ConnectionFailed(f"{place}: the proxy refused: check HTTPS_PROXY and NO_PROXY")
    return ConnectionFailed(f"{place}: {unreachable.fact_and_cure(error)}")
