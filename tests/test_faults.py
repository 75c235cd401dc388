"""Every fault a server has shown, in both dialects: what arrives, and that less than the whole is never a success.

One rule stands above the table: a reply that ends without an error has all of the text and all of the calls.
"""

from __future__ import annotations

import gzip
import json
from dataclasses import dataclass

import httpx
import pytest
from wire_server import WireServer, drop, event, hang, json_reply, reset, sse, status

from toolnexus_nb import transport
from toolnexus_nb.conversation import Finish, Message, Notice, Reply, Usage, Waiting
from toolnexus_nb.errors import WireError
from toolnexus_nb.providers import Ask, Endpoint

STYLES = ("openai", "anthropic")
TEXT = "Hel\u2028lo\u0085 wörld 🜁"
CALL = {"action": "add", "text": "tea"}


# --- the streams of both dialects, piece by piece -------------------------------------------


def chunk(delta, finish=None, **more):
    return {
        "id": "c1",
        "object": "chat.completion.chunk",
        "model": "m-1",
        "choices": [{"index": 0, "delta": delta, "finish_reason": finish}],
        **more,
    }


def block(index, kind, **more):
    return "content_block_start", {"type": "content_block_start", "index": index, "content_block": {"type": kind, **more}}


def delta(index, kind, **more):
    return "content_block_delta", {"type": "content_block_delta", "index": index, "delta": {"type": kind, **more}}


def stop_block(index):
    return "content_block_stop", {"type": "content_block_stop", "index": index}


def message_start(**usage):
    message = {"id": "m1", "type": "message", "role": "assistant", "model": "m-1", "content": [], "stop_reason": None}
    return "message_start", {"type": "message_start", "message": {**message, **({"usage": usage} if usage else {})}}


def message_delta(reason, **usage):
    return "message_delta", {"type": "message_delta", "delta": {"stop_reason": reason}, **({"usage": usage} if usage else {})}


MESSAGE_STOP = ("message_stop", {"type": "message_stop"})


def spoken(style, *texts, reason=None):
    """Return the events of a reply that says `texts`, usage 10 + 5 tokens reported at the end."""
    if style == "openai":
        usage = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
        return [
            chunk({"role": "assistant", "content": ""}),
            *(chunk({"content": text}) for text in texts),
            chunk({}, reason or "stop"),
            {**chunk({}), "choices": [], "usage": usage},
            "data: [DONE]\n\n",
        ]
    return [
        message_start(input_tokens=10, output_tokens=1),
        block(0, "text", text=""),
        ("ping", {"type": "ping"}),
        *(delta(0, "text_delta", text=text) for text in texts),
        stop_block(0),
        message_delta(reason or "end_turn", output_tokens=5),
        MESSAGE_STOP,
    ]


def begun(style):
    """Return the beginning of a reply, up to the text "Hel"."""
    return spoken(style, "Hel", "lo")[: 2 if style == "openai" else 4]


def uncounted(style):
    """Return the events of a reply that says "Hello" and reports no usage."""
    if style == "openai":
        return [chunk({"content": "Hello"}), chunk({}, "stop"), "data: [DONE]\n\n"]
    return [message_start(), block(0, "text", text="Hello"), stop_block(0), message_delta("end_turn"), MESSAGE_STOP]


def two_calls(style):
    """Return the events of a reply whose two calls carry the same index."""
    if style == "openai":
        return [first_call(0, "a", "one"), first_call(0, "b", "two"), chunk({}, "tool_calls"), "data: [DONE]\n\n"]
    blocks = (
        (block(0, "tool_use", id=name, name=name, input={}), delta(0, "input_json_delta", partial_json="{}"), stop_block(0))
        for name in ("one", "two")
    )
    return [message_start(), *(item for three in blocks for item in three), message_delta("tool_use"), MESSAGE_STOP]


def first_call(index=None, id_="", name="memory", arguments="{}"):
    where = {} if index is None else {"index": index}
    named = {"id": id_} if id_ else {}
    return chunk({"tool_calls": [{**where, **named, "type": "function", "function": {"name": name, "arguments": arguments}}]})


def called(style, arguments=None, pieces=1):
    """Return the events of a reply that calls `memory` once."""
    raw = json.dumps(CALL) if arguments is None else arguments
    size = -(-len(raw) // pieces)
    parts = [raw[at : at + size] for at in range(0, len(raw), size)]
    if style == "openai":
        first = {"index": 0, "id": "t1", "type": "function", "function": {"name": "memory", "arguments": ""}}
        return [
            chunk({"role": "assistant", "content": None, "tool_calls": [first]}),
            *(chunk({"tool_calls": [{"index": 0, "function": {"arguments": part}}]}) for part in parts),
            chunk({}, "tool_calls"),
            "data: [DONE]\n\n",
        ]
    return [
        message_start(input_tokens=10, output_tokens=1),
        block(0, "tool_use", id="t1", name="memory", input={}),
        *(delta(0, "input_json_delta", partial_json=part) for part in parts),
        stop_block(0),
        message_delta("tool_use", output_tokens=5),
        MESSAGE_STOP,
    ]


def whole_json(style, text):
    if style == "openai":
        choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
        return {"model": "m-1", "choices": [choice], "usage": {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}}
    return {
        "type": "message",
        "role": "assistant",
        "model": "m-1",
        "content": [{"type": "text", "text": text}],
        "stop_reason": "end_turn",
        "usage": {"input_tokens": 10, "output_tokens": 5},
    }


def error_event(style):
    if style == "openai":
        return 'data: {"error": {"message": "the engine died", "code": 500}}\n\n'
    return ("error", {"type": "error", "error": {"type": "overloaded_error", "message": "the engine died"}})


def recorded(events):
    return b"".join(map(event, events))


# --- what came of it ------------------------------------------------------------------------


@dataclass(frozen=True)
class Outcome:
    """One reply as the agent sees it. `error` is a class name, `ending` the Finish's reason."""

    error: str = ""
    text: str = ""
    ending: str = ""
    calls: tuple[tuple[str, str], ...] = ()
    usage: Usage = Usage()
    notices: tuple[str, ...] = ()
    waits: int = 0

    @property
    def is_success(self):
        return not self.error and self.ending in ("stop", "tool_calls")


def outcome(style, *, client, base_url="http://127.0.0.1:9", timeout_seconds=5.0, retries=0, **ask):
    the_ask = Ask(Endpoint(style, base_url, "m", "key-of-the-tests"), **{"system": "soul", "messages": (Message("user", "hi"),), **ask})
    reply, notices, waits, error = Reply(), [], 0, ""
    try:
        for item in transport.stream_reply(
            the_ask, client=client, timeout_seconds=timeout_seconds, retries=retries, sleep=lambda _: None, jitter=lambda _low, _high: 0.0
        ):
            if isinstance(item, Waiting):
                waits += 1
            elif isinstance(item, Notice):
                notices.append(item.text)
            else:
                reply.add(item)
    except WireError as failure:
        error = type(failure).__name__
    message = reply.message()
    calls = tuple((call.name, call.arguments_json) for call in message.tool_calls)
    ending = reply.finish.reason if isinstance(reply.finish, Finish) else ""
    return Outcome(error, message.text, ending, calls, reply.usage, tuple(notices), waits)


def of_bytes(style, pieces, headers=None, **options):
    """Return the outcome of one answer made of `pieces`; an exception among them breaks the connection."""

    def body():
        for piece in pieces:
            if isinstance(piece, Exception):
                raise piece
            yield piece

    def handler(_request):
        return httpx.Response(200, headers={"content-type": "text/event-stream", **(headers or {})}, content=body())

    with transport.open_client(httpx.MockTransport(handler), timeout_seconds=5) as client:
        return outcome(style, client=client, **options)


def of_server(style, script, **options):
    """Return the outcome over a real connection, and the requests the server saw."""
    with WireServer(script) as server:
        url = server.base_url if style == "openai" else server.root_url
        timeout = options.get("timeout_seconds", 5.0)
        with transport.open_client(None, timeout_seconds=timeout, base_url=url) as client:
            return outcome(style, client=client, base_url=url, **options), server.requests


# --- the cuts -------------------------------------------------------------------------------


@pytest.mark.parametrize("gone", [(), (httpx.ReadError("reset"),)], ids=["closed", "reset"])
@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("kind", ["text", "call"])
def test_a_stream_cut_after_any_byte_is_never_a_success_with_less(kind, style, gone):
    events = spoken(style, *TEXT.split(" ", 1)) if kind == "text" else called(style, pieces=3)
    raw = recorded(events)
    whole = of_bytes(style, [raw])
    assert whole.is_success
    for at in range(len(raw)):
        cut = of_bytes(style, [raw[:at], *gone] if at else list(gone))
        if cut.is_success:
            assert (cut.text, cut.calls) == (whole.text, whole.calls), f"cut after byte {at}"
        else:
            assert cut.error == ("StreamCut" if at else "ConnectionFailed" if gone else "BadReply"), f"cut after byte {at}"
            assert whole.text.startswith(cut.text), f"cut after byte {at}"


@pytest.mark.parametrize("style", STYLES)
def test_a_gzipped_stream_cut_after_any_byte_is_never_a_success_with_less(style):
    raw = gzip.compress(recorded(spoken(style, TEXT)), mtime=0)
    whole = of_bytes(style, [raw], {"content-encoding": "gzip"})
    assert (whole.text, whole.is_success) == (TEXT, True)
    for at in range(1, len(raw)):
        cut = of_bytes(style, [raw[:at]], {"content-encoding": "gzip"})
        assert cut.text == TEXT if cut.is_success else cut.error in ("StreamCut", "BadReply"), f"cut after byte {at}"


@pytest.mark.parametrize("style", STYLES)
def test_a_json_answer_cut_after_any_byte_is_never_a_success(style):
    raw = json.dumps(whole_json(style, TEXT)).encode()
    errors = {of_bytes(style, [raw[:at]], {"content-type": "application/json"}).error for at in range(len(raw))}
    assert errors == {"BadReply"}


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize(
    ("framing", "ending"), [("chunked", "cut"), ("chunked", "reset"), ("length", "cut"), ("close", "cut"), ("close", "reset")]
)
def test_a_real_connection_that_breaks_is_never_a_success_with_less(style, framing, ending):
    raw = recorded(spoken(style, *TEXT.split(" ", 1)))
    whole = of_bytes(style, [raw])
    cuts = range(1, len(raw), 97)
    with WireServer([sse(raw[:at], framing=framing, ending=ending) for at in cuts]) as server:
        url = server.base_url if style == "openai" else server.root_url
        for at in cuts:
            with transport.open_client(None, timeout_seconds=5, base_url=url) as client:
                cut = outcome(style, client=client, base_url=url)
            # A reset may overtake bytes that were sent before it, so that nothing was seen at all.
            allowed = {"StreamCut", "ConnectionFailed"} if ending == "reset" else {"StreamCut"}
            assert (cut.text == whole.text) if cut.is_success else cut.error in allowed, f"cut after byte {at}: {cut}"


# --- the table ------------------------------------------------------------------------------

USAGE = Usage(prompt=10, completion=5, total=15)
DONE = Outcome(text="Hello", ending="stop", usage=USAGE)
FAULTS = {
    "an untroubled stream": (lambda s: [sse(*spoken(s, "Hel", "lo"))], DONE),
    "JSON where a stream was asked": (lambda s: [json_reply(whole_json(s, "Hello"))], DONE),
    "a stream labelled JSON": (lambda s: [sse(*spoken(s, "Hello"), headers={"Content-Type": "application/json"})], DONE),
    "gzip": (lambda s: [sse(*spoken(s, "Hello")).gzipped()], DONE),
    "split UTF-8": (lambda s: [sse(*spoken(s, TEXT)).in_pieces(1)], Outcome(text=TEXT, ending="stop", usage=USAGE)),
    "U+2028 and U+0085 as they are": (
        lambda s: [sse(recorded(spoken(s, "a§b")).replace(b"\\u00a7", "\u2028\u0085".encode()))],
        Outcome(text="a\u2028\u0085b", ending="stop", usage=USAGE),
    ),
    "20 000 one-character chunks": (lambda s: [sse(*spoken(s, *"x" * 20_000))], Outcome(text="x" * 20_000, ending="stop", usage=USAGE)),
    "a last event without a blank line": (lambda s: [sse(recorded(spoken(s, "Hello")).rstrip(b"\n"))], DONE),
    "comments, BOM, CRLF": (
        lambda s: [sse(b"\xef\xbb\xbf: ping\r\n\r\n" + recorded(spoken(s, "Hello")).replace(b"\n", b"\r\n"))],
        DONE,
    ),
    "429, then well": (
        lambda s: [status(429, headers={"Retry-After": "0"}), sse(*spoken(s, "Hello"))],
        Outcome(**{**vars(DONE), "waits": 1}),
    ),
    "429 until a date, then well": (
        lambda s: [status(429, headers={"Retry-After": "Wed, 21 Oct 2015 07:28:00 GMT"}), sse(*spoken(s, "Hello"))],
        Outcome(**{**vars(DONE), "waits": 1}),
    ),
    "500 and 529, then well": (lambda s: [status(500), status(529), sse(*spoken(s, "Hello"))], Outcome(**{**vars(DONE), "waits": 2})),
    "a reset, then well": (lambda s: [reset(), sse(*spoken(s, "Hello"))], Outcome(**{**vars(DONE), "waits": 1})),
    "503 for ever": (lambda s: [status(503)] * 3, Outcome("Refused", waits=2)),
    "429 for an hour": (lambda s: [status(429, headers={"Retry-After": "3600"})], Outcome("Refused")),
    "401": (lambda s: [status(401, {"error": {"message": "bad key"}})], Outcome("Refused")),
    "an HTML error page": (lambda s: [status(404, "<html><title>Not here</title></html>")], Outcome("Refused")),
    "an HTML page with 200": (lambda s: [status(200, "<html><title>Sign in</title></html>")], Outcome("BadReply")),
    "an empty 200": (lambda s: [status(200)], Outcome("BadReply")),
    "no answer": (lambda s: [drop()] * 3, Outcome("ConnectionFailed", waits=2)),
    "silence before the answer": (lambda s: [hang()], Outcome("Stalled")),
    "silence in the middle": (lambda s: [sse(*begun(s), ending="hang")], "Stalled"),
    "a reset in the middle": (lambda s: [sse(*begun(s), 0.05, ending="reset")], "StreamCut"),
    "an end in the middle": (lambda s: [sse(*begun(s), ending="close")], "StreamCut"),
    "an error event after 200": (lambda s: [sse(*begun(s), error_event(s))], "BadReply"),
    "an error object in a 200 body": (
        lambda s: [json_reply({"type": "error", "error": {"message": "the engine died"}})],
        Outcome("BadReply"),
    ),
    "an event that is not JSON": (lambda s: [sse(*begun(s), "data: oops\n\n", *spoken(s, "lo")[-1:])], "BadReply"),
    "cut by length": (
        lambda s: [sse(*spoken(s, "Hello", reason="length" if s == "openai" else "max_tokens"))],
        Outcome(text="Hello", ending="length", usage=USAGE),
    ),
    "a lone surrogate": (lambda s: [sse(*spoken(s, "a\ud83db"))], Outcome(text="a\ufffdb", ending="stop", usage=USAGE)),
    "a character in two halves": (lambda s: [sse(*spoken(s, "a\ud83d", "\ude00b"))], Outcome(text="a😀b", ending="stop", usage=USAGE)),
    "usage missing": (lambda s: [sse(*uncounted(s))], Outcome(text="Hello", ending="stop")),
    "two calls under one index": (lambda s: [sse(*two_calls(s))], (("one", "{}"), ("two", "{}"))),
    "an empty stream": (lambda s: [sse(": ping\n\n")], Outcome("StreamCut")),
    "arguments in ten pieces": (lambda s: [sse(*called(s, pieces=10))], (("memory", json.dumps(CALL)),)),
    "arguments that are not JSON": (lambda s: [sse(*called(s, "{oops"))], (("memory", "{oops"),)),
    "arguments that are a list": (lambda s: [sse(*called(s, "[1, 2]"))], (("memory", "[1, 2]"),)),
}


#: What only a chat-completions server does.
OPENAI_FAULTS = {
    "stream_options refused": (
        lambda _: [status(400, {"error": {"message": "unknown field stream_options"}}), sse(*spoken("openai", "Hello"))],
        Outcome(**{**vars(DONE), "notices": ("the server refused stream_options: usage is not reported",)}),
    ),
    "the system role refused": (lambda _: [status(400, {"message": "System role not supported"})], Outcome("Refused")),
    "calls without an index": (
        lambda _: [sse(first_call(None, "a", "one"), first_call(None, "b", "two"), chunk({}, "tool_calls"), "data: [DONE]\n\n")],
        (("one", "{}"), ("two", "{}")),
    ),
    "calls without an id": (
        lambda _: [sse(first_call(0, "", "one"), first_call(1, "", "two"), chunk({}, "tool_calls"), "data: [DONE]\n\n")],
        (("one", "{}"), ("two", "{}")),
    ),
}
CASES = [(fault, style) for fault in FAULTS for style in STYLES] + [(fault, "openai") for fault in OPENAI_FAULTS]


def case(fault):
    """Return (style -> script, what is expected of it)."""
    return (FAULTS | OPENAI_FAULTS)[fault]


@pytest.mark.parametrize(("fault", "style"), CASES)
def test_a_fault_has_one_outcome_in_both_dialects(fault, style):
    script, expected = case(fault)
    quiet = 0.3 if "silence" in fault else 5.0
    got, _requests = of_server(style, script(style), retries=2, timeout_seconds=quiet)
    match expected:
        case Outcome():
            assert got == expected
        case str():
            # In the middle of a reply what has arrived is kept, and it is no success.
            assert (got.error, got.text, got.ending) == (expected, "Hel", "")
        case calls:
            assert (got.error, got.calls, got.ending) == ("", calls, "tool_calls")


# --- what only one dialect can do -----------------------------------------------------------


def test_refused_stream_options_are_left_out_of_the_second_request():
    _, requests = of_server("openai", OPENAI_FAULTS["stream_options refused"][0]("openai"))
    assert ["stream_options" in request.json for request in requests] == [True, False]


def test_a_refused_system_role_is_one_request():
    got, requests = of_server("openai", [status(400, {"message": "System role not supported"})], retries=2)
    assert (got, len(requests)) == (Outcome("Refused"), 1)


def openai_usage(completion):
    return {"prompt_tokens": 10, "completion_tokens": completion, "total_tokens": 10 + completion}


@pytest.mark.parametrize(
    ("style", "events", "usage"),
    [
        ("openai", [chunk({"content": "Hi"}), chunk({}, "stop"), "data: [DONE]\n\n"], Usage()),
        ("openai", [chunk({"content": "Hi"}, usage=openai_usage(1)), chunk({}, "stop", usage=openai_usage(5)), "data: [DONE]\n\n"], USAGE),
        ("openai", [chunk({"content": "Hi"}, usage=openai_usage(5)), chunk({}, "stop", usage=openai_usage(5)), "data: [DONE]\n\n"], USAGE),
        ("openai", [chunk({"content": "Hi"}, usage=None), chunk({}, "stop", usage=None), "data: [DONE]\n\n"], Usage()),
        ("anthropic", [message_start(), block(0, "text", text="Hi"), stop_block(0), message_delta("end_turn"), MESSAGE_STOP], Usage()),
        (
            "anthropic",
            [
                message_start(input_tokens=10, output_tokens=5),
                block(0, "text", text="Hi"),
                stop_block(0),
                message_delta("end_turn", input_tokens=10, output_tokens=5),
                MESSAGE_STOP,
            ],
            USAGE,
        ),
    ],
    ids=["openai missing", "openai cumulative", "openai repeated", "openai null", "anthropic missing", "anthropic repeated"],
)
def test_usage_is_the_last_cumulative_value_or_none(style, events, usage):
    got, _ = of_server(style, [sse(*events)])
    assert (got.text, got.usage) == ("Hi", usage)


@pytest.mark.parametrize("style", STYLES)
def test_a_keep_alive_dropped_between_runs_is_not_noticed(style):
    mine = httpx.HTTPTransport()
    with mine, WireServer([json_reply(whole_json(style, "Hello")), drop(), json_reply(whole_json(style, "Hello"))]) as server:
        url = server.base_url if style == "openai" else server.root_url
        for _ in range(2):
            with transport.open_client(mine, timeout_seconds=5, base_url=url) as client:
                assert outcome(style, client=client, base_url=url) == DONE
    assert [request.connection for request in server.requests] == [1, 1, 2]
