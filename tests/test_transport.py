"""The HTTP caller: bytes in any cut, retries with visible waits, errors in one line, and no key anywhere."""

from __future__ import annotations

import base64
import json
import signal
import socket
import ssl
import threading
import time
import traceback
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path
from urllib.parse import quote

import httpx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from wire_server import Answer, WireServer, drop, hang, json_reply, reset, sse, status

from toolnexus_nb import transport
from toolnexus_nb.conversation import Finish, Message, Notice, TextDelta, Tool, Waiting
from toolnexus_nb.errors import BadReply, ConnectionFailed, ModelError, Refused, Stalled, StreamCut, ToolnexusError, TooLong, WireError
from toolnexus_nb.providers import Ask, Endpoint
from toolnexus_nb.transport import watch
from toolnexus_nb.transport.body import encoded, first_bytes, kind_of
from toolnexus_nb.transport.refusal import server_words
from toolnexus_nb.transport.retry import MAX_WAIT_SECONDS, Retry
from toolnexus_nb.transport.secrecy import scrub

# Put together here, so that no line of this file looks like a key to a scanner.
PACKAGE = Path(transport.__file__).parent
KEY = "sk-" + "proj-Ab12Cd34Ef56Gh78Ij90Kl"
HELLO = (
    'data: {"choices":[{"index":0,"delta":{"content":"Hel"}}]}\n\n'
    'data: {"choices":[{"index":0,"delta":{"content":"lo"},"finish_reason":null}]}\n\n'
    'data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\n'
    "data: [DONE]\n\n"
)
WHOLE = {"choices": [{"index": 0, "message": {"role": "assistant", "content": "Hello"}, "finish_reason": "stop"}]}


def ask(base_url="http://127.0.0.1:9/v1", **changes):
    endpoint = Endpoint(changes.pop("style", "openai"), base_url, "m", changes.pop("key", KEY))
    return Ask(endpoint, **{"system": "soul", "messages": (Message("user", "hi"),), **changes})


def reply(answers, *, the_ask=None, retries=2, timeout_seconds=5.0, slept=None):
    """Return the events of one reply from a MockTransport that gives `answers`, the last one again and again."""
    requests = []

    def handler(request):
        requests.append(request)
        answer = answers[min(len(requests), len(answers)) - 1]
        if isinstance(answer, Exception):
            raise answer
        return answer(request) if callable(answer) else answer

    with transport.open_client(httpx.MockTransport(handler), timeout_seconds=timeout_seconds) as client:
        events = transport.stream_reply(
            the_ask or ask(),
            client=client,
            timeout_seconds=timeout_seconds,
            retries=retries,
            sleep=(slept if slept is not None else []).append,
            jitter=lambda _low, high: high,
        )
        return list(events), requests


def ask_server(server, *, timeout_seconds=5.0, retries=2, client=None, **changes):
    the_ask = ask(server.base_url, **changes)
    with client or transport.open_client(None, timeout_seconds=timeout_seconds, base_url=server.base_url) as opened:
        events = transport.stream_reply(
            the_ask, client=opened, timeout_seconds=timeout_seconds, retries=retries, jitter=lambda _low, _high: 0.0
        )
        return list(events)


def text_of(events):
    return "".join(event.text for event in events if isinstance(event, TextDelta))


def ended(events):
    return isinstance(events[-1], Finish)


def stream(*pieces, **headers):
    return httpx.Response(200, headers={"content-type": "text/event-stream", **headers}, content=iter(pieces))


def text_event(text):
    return f"data: {json.dumps({'choices': [{'index': 0, 'delta': {'content': text}}]}, ensure_ascii=False)}\n\n"


ENDING = HELLO[HELLO.index('data: {"choices":[{"index":0,"delta":{},') :]


# --- what arrives ---------------------------------------------------------------------------


@pytest.mark.parametrize("size", [1, 2, 3, 7, 64])
@pytest.mark.parametrize("newline", ["\n", "\r\n", "\r"])
def test_a_stream_reads_the_same_however_it_is_cut_into_pieces(size, newline):
    raw = ("\ufeff: keep-alive\n\n" + text_event("Grüße 🜁\u2028\u0085 end") + ENDING).replace("\n", newline).encode()
    events, _ = reply([lambda _: stream(*(raw[at : at + size] for at in range(0, len(raw), size)))])
    assert text_of(events) == "Grüße 🜁\u2028\u0085 end"
    assert ended(events)


def test_the_last_event_counts_without_its_blank_line():
    events, _ = reply([lambda _: stream(HELLO.encode().rstrip(b"\n"))])
    assert (text_of(events), ended(events)) == ("Hello", True)


def test_half_of_a_last_event_is_a_cut_and_not_a_bad_reply():
    with pytest.raises(StreamCut):
        reply([lambda _: stream(HELLO.encode()[: HELLO.index('lo"},')])])


def test_a_stream_is_utf_8_whatever_its_label_says():
    raw = (text_event("Grüße") + ENDING).encode()
    events, _ = reply([lambda _: stream(raw, **{"content-type": "text/event-stream; charset=iso-8859-1"})])
    assert text_of(events) == "Grüße"


@pytest.mark.parametrize("label", ["application/json", "text/plain", "application/octet-stream"])
def test_a_stream_with_a_wrong_label_is_still_a_stream(label):
    events, _ = reply([httpx.Response(200, headers={"content-type": label}, content=HELLO.encode())])
    assert text_of(events) == "Hello"


@pytest.mark.parametrize("label", ["application/json", "text/event-stream", "text/plain"])
def test_json_where_a_stream_was_asked_is_read_as_a_whole_reply(label):
    events, _ = reply([httpx.Response(200, headers={"content-type": label}, content=b"\n\n " + json.dumps(WHOLE).encode())])
    assert (text_of(events), ended(events)) == ("Hello", True)


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b"", "HTTP 200 with an empty body"),
        (b"\n\n", "HTTP 200 with an empty body"),
        (b"<html><head><title>Sign &amp; in</title></head>", "the answer is a web page: Sign & in"),
        (b"hello world", "the answer is neither an event stream nor JSON: hello world"),
        (b'{"choices": [', "the JSON answer cannot be parsed"),
    ],
)
def test_a_200_that_is_no_reply_says_what_came_instead(body, said):
    with pytest.raises(BadReply) as caught:
        reply([httpx.Response(200, content=body)])
    assert said in str(caught.value)


def test_twenty_thousand_one_character_chunks_take_linear_time():
    raw = (text_event("x" * 19_000) + ENDING).encode()
    began = time.thread_time()
    events, _ = reply([lambda _: stream(*(raw[at : at + 1] for at in range(len(raw))))])
    assert len(text_of(events)) == 19_000
    assert time.thread_time() - began < 5


def test_one_line_of_ten_megabytes_is_read():
    raw = (text_event("x" * 10_000_000) + ENDING).encode()
    events, _ = reply([lambda _: stream(*(raw[at : at + 65_536] for at in range(0, len(raw), 65_536)))])
    assert len(text_of(events)) == 10_000_000


@given(st.binary(max_size=40), st.integers(1, 5))
def test_the_kind_of_a_body_does_not_depend_on_its_chunks(body, size):
    pieces = [body[at : at + size] for at in range(0, len(body), size)]
    assert kind_of(first_bytes(iter(pieces)), "") == kind_of(first_bytes(iter([body] if body else [])), "")


# --- what is sent ---------------------------------------------------------------------------


def test_the_same_ask_is_the_same_bytes():
    first, second = (reply([httpx.Response(200, json=WHOLE)])[1][0].content for _ in range(2))
    assert first == second


@given(st.text(st.characters(categories=["L", "Cs"]), max_size=20))
def test_no_text_of_a_notebook_cell_breaks_the_request(text):
    assert json.loads(encoded({"text": text}))["text"] == text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def test_a_lone_surrogate_becomes_the_replacement_character_and_a_pair_its_character():
    assert encoded({"a": "\ud83d\ude00 \ud83d!"}) == '{"a":"😀 \ufffd!"}'.encode()


@pytest.mark.parametrize("value", [float("nan"), {1, 2}, object()])
def test_what_json_cannot_say_is_refused_before_the_request(value):
    with pytest.raises(ModelError, match="cannot be written as JSON"):
        encoded({"seed": value})


@pytest.mark.parametrize("key", ["abc\ndef-secret", "abc-secret ", "abc-sécret"])
def test_a_key_that_no_header_can_hold_is_refused_without_showing_it(key):
    with pytest.raises(ModelError) as caught:
        reply([httpx.Response(200, json=WHOLE)], the_ask=ask(key=key))
    assert "cret" not in shown(caught.value)


# --- the client -----------------------------------------------------------------------------


def test_a_given_transport_stays_open_for_the_next_run():
    class Closable(httpx.MockTransport):
        closed = False

        def close(self):
            self.closed = True

    mine = Closable(lambda _: httpx.Response(200, json=WHOLE))
    for _ in range(2):
        with transport.open_client(mine, timeout_seconds=1) as client:
            assert text_of(transport.stream_reply(ask(), client=client, timeout_seconds=1, retries=0)) == "Hello"
    assert not mine.closed


@pytest.mark.parametrize(
    ("url", "loopback"),
    [
        ("http://127.0.0.1:8080/v1", True),
        ("http://localhost:11434", True),
        ("http://[::1]:80/", True),
        ("http://127.9.9.9/", True),
        ("https://api.example.com/v1", False),
        ("http://10.0.0.1/", False),
        ("nonsense", False),
        ("http://[", False),
    ],
)
def test_loopback_addresses_are_told_apart(url, loopback):
    assert transport.is_loopback(url) is loopback


def test_a_proxy_of_the_environment_never_sees_a_loopback_request(monkeypatch):
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.setenv("ALL_PROXY", "http://127.0.0.1:9")
    with WireServer([json_reply(WHOLE)]) as server:
        assert text_of(ask_server(server)) == "Hello"


def test_a_redirect_is_not_followed_because_the_key_would_travel():
    with WireServer([json_reply(WHOLE)]) as other, WireServer([status(307, headers={"Location": f"{other.root_url}/x?key=1"})]) as server:
        with pytest.raises(Refused) as caught:
            ask_server(server)
        assert other.requests == []
    assert f"it redirects to {other.root_url}; not followed" in str(caught.value)


# --- retries --------------------------------------------------------------------------------


@pytest.mark.parametrize("code", [429, 500, 502, 503, 504, 529])
def test_a_passing_failure_is_tried_again_with_a_visible_wait(code):
    slept = []
    events, requests = reply([httpx.Response(code), httpx.Response(code), httpx.Response(200, json=WHOLE)], slept=slept)
    waits = [event for event in events if isinstance(event, Waiting)]
    assert waits == [
        Waiting(0.5, 1, f"HTTP {code}"),
        Waiting(0.25, 1, f"HTTP {code}"),
        *(Waiting(left, 2, f"HTTP {code}") for left in (1.0, 0.75, 0.5, 0.25)),
    ]
    assert len(requests) == 3
    assert sum(slept) == pytest.approx(1.5)
    assert max(slept) <= 0.1
    assert text_of(events) == "Hello"


@pytest.mark.parametrize("code", [400, 401, 403, 404, 413, 422, 501])
def test_a_lasting_failure_is_not_tried_again(code):
    slept = []
    with pytest.raises(Refused) as caught:
        reply([httpx.Response(code)], slept=slept)
    assert (caught.value.status, slept) == (code, [])


def test_after_the_last_retry_the_error_is_the_servers():
    with pytest.raises(Refused, match=r"^http://127\.0\.0\.1:9: HTTP 503: busy: try again later$"):
        reply([httpx.Response(503, json={"error": {"message": "busy"}})], retries=1)


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry-after": "3"}, 3.0),
        ({"retry-after": "0.3"}, 0.3),
        ({"retry-after": "0"}, 0.0),
        ({"retry-after": "Wed, 21 Oct 2026 07:28:09 GMT", "date": "Wed, 21 Oct 2026 07:28:00 GMT"}, 9.0),
        ({"retry-after": "Wed, 21 Oct 2015 07:28:00 GMT"}, 0.0),
        ({"retry-after": "soon"}, 0.5),
        ({"retry-after": "-1"}, 0.5),
        ({"retry-after": "1e999"}, 0.5),
        ({"retry-after": "9" * 400}, 0.5),
    ],
)
def test_retry_after_is_obeyed_in_both_forms(headers, seconds):
    slept = []
    reply([httpx.Response(429, headers=headers), httpx.Response(200, json=WHOLE)], slept=slept)
    assert sum(slept) == pytest.approx(seconds)


def test_a_date_is_counted_from_this_clock_when_the_server_tells_none():
    then = format_datetime(datetime.now(UTC) + timedelta(seconds=30), usegmt=True)
    slept = []
    reply([httpx.Response(429, headers={"retry-after": then}), httpx.Response(200, json=WHOLE)], slept=slept)
    assert 25 < sum(slept) <= 30


def test_a_longer_wait_is_capped_and_said():
    slept = []
    events, _ = reply([httpx.Response(429, headers={"retry-after": "100"}), httpx.Response(200, json=WHOLE)], slept=slept)
    assert sum(slept) == pytest.approx(MAX_WAIT_SECONDS)
    assert events[0] == Notice("the server asks to wait 100 s: trying again after 60 s, the longest wait")


def test_a_wait_longer_than_all_retries_fails_at_once():
    slept = []
    with pytest.raises(Refused, match="try again in 3600 s") as caught:
        reply([httpx.Response(429, headers={"retry-after": "3600"})], slept=slept)
    assert (caught.value.retry_after, slept) == (3600.0, [])


def test_the_jitter_is_full_and_exponential():
    spans = []
    patient = Retry(2000, sleep=lambda _: None, jitter=lambda low, high: spans.append((low, high)) or 0.0)
    for attempt in (1, 2, 3, 2000):
        list(patient.wait(ConnectionFailed("x"), attempt))
    assert spans == [(0.0, 0.5), (0.0, 1.0), (0.0, 2.0), (0.0, 60.0)]


def test_nothing_is_tried_again_once_text_was_passed_on():
    def broken():
        yield text_event("Hel").encode()
        raise httpx.ReadError("gone")

    calls = []
    answer = lambda _: calls.append(1) or httpx.Response(200, content=broken())  # noqa: E731
    with transport.open_client(httpx.MockTransport(answer), timeout_seconds=1) as client:
        events = transport.stream_reply(ask(), client=client, timeout_seconds=1, retries=2)
        assert next(event for event in events if isinstance(event, TextDelta)) == TextDelta("Hel")
        with pytest.raises(StreamCut):
            list(events)
    assert calls == [1]


def test_a_connection_that_breaks_before_the_first_byte_is_tried_again():
    with WireServer([reset(), Answer((b"",), framing="close", ending="reset"), json_reply(WHOLE)]) as server:
        events = ask_server(server)
    assert (text_of(events), len(server.requests)) == ("Hello", 3)


def test_a_kept_connection_that_the_server_dropped_costs_no_retry_and_no_wait():
    mine = httpx.HTTPTransport()
    with mine, WireServer([json_reply(WHOLE), drop(), json_reply(WHOLE)]) as server:
        for _ in range(2):
            client = transport.open_client(mine, timeout_seconds=5, base_url=server.base_url)
            events = ask_server(server, client=client, retries=0)
            assert text_of(events) == "Hello"
            assert not any(isinstance(event, Waiting) for event in events)
    assert [request.connection for request in server.requests] == [1, 1, 2]


def test_a_fresh_connection_that_drops_is_a_failure():
    with WireServer([drop(), json_reply(WHOLE)]) as server, pytest.raises(ConnectionFailed, match="broke before an answer"):
        ask_server(server, retries=0)


def test_refused_stream_options_are_left_out_and_it_is_said():
    def picky(request):
        if b"stream_options" in request.content:
            return httpx.Response(400, json={"error": {"message": "Unrecognized request argument supplied: stream_options"}})
        return httpx.Response(200, json=WHOLE)

    events, requests = reply([picky], retries=0)
    assert events[0] == Notice("the server refused stream_options: usage is not reported")
    assert (text_of(events), len(requests)) == ("Hello", 2)


def test_refused_stream_options_are_left_out_once_only():
    with pytest.raises(Refused):
        reply([httpx.Response(422, text="stream_options")])


@pytest.mark.parametrize(
    ("code", "said"),
    [
        (400, "System role not supported"),
        (422, "messages[0].role does not support 'system' with this model"),
        (500, "Jinja Exception: System role not supported"),
    ],
)
def test_a_refused_system_role_names_its_cure(code, said):
    with pytest.raises(Refused) as caught:
        reply([httpx.Response(code, json={"error": {"message": said}})])
    assert str(caught.value).endswith("--role user")


def test_waiting_can_be_interrupted():
    def stop(_seconds):
        raise KeyboardInterrupt

    with transport.open_client(httpx.MockTransport(lambda _: httpx.Response(503)), timeout_seconds=1) as client:
        events = transport.stream_reply(ask(), client=client, timeout_seconds=1, retries=2, sleep=stop)
        assert isinstance(next(events), Waiting)
        with pytest.raises(KeyboardInterrupt):
            next(events)


# --- errors ---------------------------------------------------------------------------------


def test_a_closed_port_says_so():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}"
    with transport.open_client(None, timeout_seconds=1, base_url=url) as client, pytest.raises(ConnectionFailed) as caught:
        list(transport.stream_reply(ask(url), client=client, timeout_seconds=1, retries=0))
    assert str(caught.value) == f"{url}: connection refused: is the server running?"


@pytest.mark.parametrize("answer", [hang(), sse(": wait\n\n", ending="hang"), sse(text_event("Hel"), ending="hang")])
def test_silence_is_a_stall_that_names_its_seconds(answer):
    with WireServer([answer]) as server, pytest.raises(Stalled, match=r"no byte for 0\.2 s"):
        ask_server(server, timeout_seconds=0.2)


def test_keep_alive_comments_are_no_silence():
    with WireServer([sse(*[": wait\n\n", 0.1] * 5, HELLO)]) as server:
        assert text_of(ask_server(server, timeout_seconds=0.3)) == "Hello"


@pytest.mark.parametrize("ending", ["cut", "reset"])
def test_a_stream_that_breaks_is_cut(ending):
    with WireServer([sse(text_event("Hel"), ending=ending)]) as server, pytest.raises(StreamCut):
        ask_server(server)


def test_a_gzipped_stream_is_read_and_a_cut_one_is_cut():
    whole = sse(HELLO).gzipped()
    with WireServer([whole, whole.cut_at(len(whole.body) - 20, "close")]) as server:
        assert text_of(ask_server(server)) == "Hello"
        with pytest.raises(StreamCut):
            ask_server(server)


def test_what_is_not_gzip_though_it_says_so_is_a_bad_reply():
    with pytest.raises(BadReply, match="Content-Encoding"):
        reply([lambda _: stream(b"data: plain\n\n", **{"content-encoding": "gzip"})])


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({"error": {"message": "model\n not found", "type": "x"}}, "model not found"),
        ({"error": "no such model"}, "no such model"),
        ({"message": "nope"}, "nope"),
        ({"detail": "gone"}, "gone"),
        ({"detail": [{"loc": ["body"], "msg": "field required"}]}, "field required"),
        ([{"error": {"message": "in a list"}}], "in a list"),
        ({"error": {"message": None}}, '{"error": {"message": null}}'),
        ("<!doctype html><title>502 Bad\nGateway</title><h1>x</h1>", "502 Bad Gateway"),
        ("<html><body><h1>Not here</h1> really</body></html>", "Not here really"),
        ("upstream gone", "upstream gone"),
        ("x" * 400, "x" * 299 + "…"),
        ("<title" * 9000, "<title" * 49 + "<titl…"),
        ("[" * 9000, "[" * 299 + "…"),
        ("", ""),
    ],
)
def test_a_servers_words_are_found_in_any_error_body(body, words):
    raw = body if isinstance(body, str) else json.dumps(body)
    began = time.thread_time()
    assert server_words(raw.encode(), KEY) == words
    assert time.thread_time() - began < 0.5


_JSON = st.recursive(
    st.none() | st.booleans() | st.floats() | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["error", "message", "detail", "x"]), inner, max_size=3),
)


@given(_JSON)
def test_no_error_body_is_too_odd_to_be_put_into_one_line(value):
    words = server_words(json.dumps(value).encode(), KEY)
    assert "\n" not in words
    assert len(words) <= 300


@pytest.mark.parametrize(
    ("code", "style", "cure"),
    [
        (401, "openai", "check the API key (OPENAI_API_KEY)"),
        (403, "anthropic", "check the API key (ANTHROPIC_API_KEY)"),
        (404, "openai", "check the model's name (m) and the base URL (asked for /v1/chat/completions)"),
        (413, "anthropic", "shorten the soul or the conversation"),
        (529, "anthropic", "try again later"),
    ],
)
def test_a_refusal_names_its_cure(code, style, cure):
    with pytest.raises(Refused) as caught:
        reply([httpx.Response(code, json={"error": {"message": "no"}})], the_ask=ask(style=style), retries=0)
    assert str(caught.value) == f"http://127.0.0.1:9: HTTP {code}: no: {cure}"


def test_a_refused_key_is_named_by_the_place_that_refused_it():
    with pytest.raises(Refused, match=r"check the API key \(OPENROUTER_API_KEY\)$"):
        reply([httpx.Response(401)], the_ask=ask("https://openrouter.ai/api/v1"))


def test_a_long_error_body_is_read_up_to_a_cap():
    sent = []

    def endless():
        while len(sent) < 10_000:
            sent.append(1)
            yield b"x" * 1024

    with pytest.raises(Refused):
        reply([httpx.Response(400, content=endless())])
    assert len(sent) <= 65


# --- the key --------------------------------------------------------------------------------


def shown(error):
    """Return all that the error, its chain, and a traceback with the locals of our own frames show."""
    seen, texts = error, []
    while seen is not None:
        texts += [repr(seen), str(seen.args), str(getattr(seen, "__dict__", ""))]
        frames = traceback.TracebackException.from_exception(seen, capture_locals=True).stack
        texts += [str(frame.locals) for frame in frames if Path(frame.filename).is_relative_to(PACKAGE)]
        seen = seen.__cause__ or seen.__context__
    return "".join(texts)


ECHOES = [
    httpx.Response(401, json={"error": {"message": f"Incorrect API key provided: {KEY}"}}),
    httpx.Response(401, json={"error": {"message": f"Incorrect API key provided: {KEY[:8]}***{KEY[-4:]}."}}),
    httpx.Response(403, text=f"Authorization: Bearer {KEY} is not allowed"),
    httpx.Response(307, headers={"location": f"http://other.example/{KEY}?key={KEY}"}),
    httpx.Response(200, text=f"<html><title>{KEY}</title>"),
    httpx.Response(200, text=f"key {KEY} unknown"),
    httpx.Response(200, json={"error": {"message": f"bad key {KEY}"}}),
    httpx.Response(200, headers={"content-type": "text/event-stream"}, text=f'data: {{"error": {{"message": "bad key {KEY}"}}}}\n\n'),
    httpx.ConnectError("refused"),
    httpx.ReadTimeout("slow"),
    httpx.LocalProtocolError(f"Illegal header value b'Bearer {KEY}'"),
]


@pytest.mark.parametrize("answer", ECHOES, ids=lambda answer: repr(answer)[:40].replace(KEY, "key"))
def test_no_error_shows_a_piece_of_the_key(answer):
    with pytest.raises(ToolnexusError) as caught:
        reply([answer], retries=0)
    own = caught.value
    text = shown(own)
    assert [KEY[at : at + 6] for at in range(len(KEY) - 5) if KEY[at : at + 6] in text] == []
    assert (own.__cause__, own.__context__) == (None, None)


def test_a_traceback_with_locals_shows_no_key():
    with WireServer([status(401, "no")]) as server:
        try:
            with transport.open_client(None, timeout_seconds=5, base_url=server.base_url) as client:
                the_ask = ask(server.base_url)
                list(transport.stream_reply(the_ask, client=client, timeout_seconds=5, retries=0))
        except WireError as error:
            assert KEY not in shown(error)
        assert server.requests[0].headers["authorization"] == f"Bearer {KEY}"


@pytest.mark.parametrize(
    ("text", "clean"),
    [
        (f"key {KEY}.", "key [redacted]."),
        (f"key {KEY[:9]} and {KEY[-7:]}", "key [redacted] and [redacted]"),
        (f"key {KEY[:7]}…{KEY[-4:]}", "key [redacted]"),
        ("another: sk-" + "live-0123456789", "another: [redacted]"),
        ("Bearer abcdef0123", "Bearer [redacted]"),
        ("Bearer authentication is required", "Bearer authentication is required"),
        ('"x-api-key": "abcdef"', '"x-api-key": "[redacted]"'),
        ("ends in ****wxyz", "ends in [redacted]"),
        ("max_tokens must be at most 4096", "max_tokens must be at most 4096"),
        ("", ""),
    ],
)
def test_scrub_takes_out_keys_and_leaves_sentences(text, clean):
    assert scrub(text, KEY) == clean


def test_a_placeholder_key_does_not_blot_out_the_words_of_a_local_server():
    assert scrub("no such model: x", "x") == "no such model: x"


_KEYS = st.text("abcdefghijklmnopqrstuvwxyzABCXYZ0123456789-_", min_size=6, max_size=60).filter(
    lambda key: not any(key[at : at + 6] in "[redacted]" for at in range(len(key) - 5))
)


@given(_KEYS, st.text(max_size=30), st.text(max_size=30), st.data())
def test_scrub_leaves_no_piece_of_any_key(key, before, after, data):
    start = data.draw(st.integers(0, len(key) - 6))
    piece = key[start : data.draw(st.integers(start + 6, len(key)))]
    clean = scrub(before + piece + after, key)
    assert [key[at : at + 6] for at in range(len(key) - 5) if key[at : at + 6] in clean] == []


@pytest.mark.parametrize("unit", ["sk-", "Bearer ", "a*", "***", "x-api-key:", "bearer\t", "sk-a…", "authorization:"])
def test_scrub_takes_linear_time_on_hostile_text(unit):
    began = time.thread_time()
    scrub(unit * (64 * 1024 // len(unit)), KEY)
    assert time.thread_time() - began < 1.5


# --- stopping -------------------------------------------------------------------------------


def test_closing_the_generator_closes_the_connection_at_once():
    with (
        WireServer([sse(text_event("Hel"), ending="hang")]) as server,
        transport.open_client(None, timeout_seconds=20, base_url=server.base_url) as client,
    ):
        events = transport.stream_reply(ask(server.base_url), client=client, timeout_seconds=20, retries=0)
        next(event for event in events if isinstance(event, TextDelta))
        events.close()
        assert server.hung_up.wait(2)


@pytest.mark.parametrize("answer", [hang(), sse(text_event("Hel"), ending="hang")])
def test_stop_ends_a_silent_wait_and_frees_the_server(answer):
    with WireServer([answer]) as server:
        began = time.monotonic()
        timer = threading.Timer(0.2, signal.pthread_kill, (threading.main_thread().ident, signal.SIGINT))
        timer.start()
        with pytest.raises(KeyboardInterrupt):
            ask_server(server, timeout_seconds=20)
        assert time.monotonic() - began < 2
        assert server.hung_up.wait(2)


@settings(max_examples=30, deadline=None)
@given(st.text(min_size=1, max_size=30), st.integers(1, 9))
def test_any_text_survives_any_chunking(text, size):
    raw = (text_event(text) + ENDING).encode("utf-8", "replace")
    events, _ = reply([lambda _: stream(*(raw[at : at + size] for at in range(0, len(raw), size)))])
    assert text_of(events) == text


# --- why nothing answers --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("reason", "words", "tries"),
    [
        (ConnectionRefusedError(111, "x"), "connection refused: is the server running?", 2),
        (socket.gaierror(-2, "x"), "unknown host: check the base URL and the network", 2),
        (ssl.SSLCertVerificationError(1, "x"), "its certificate is not trusted: check the address, or set SSL_CERT_FILE", 1),
        (ssl.SSLError(1, "x"), "no TLS there: does the server speak https, or only http?", 1),
        (OSError(5, "x"), "the connection broke before an answer came: try again", 2),
    ],
)
def test_a_failed_connection_says_why_and_is_tried_again_when_that_may_help(reason, words, tries):
    asked = []

    def handler(request):
        asked.append(request)
        raise httpx.ConnectError("wrapped") from reason

    with transport.open_client(httpx.MockTransport(handler), timeout_seconds=1) as client, pytest.raises(ConnectionFailed) as caught:
        list(transport.stream_reply(ask(), client=client, timeout_seconds=1, retries=1, sleep=lambda _: None))
    assert (str(caught.value), len(asked)) == (f"http://127.0.0.1:9: {words}", tries)


# --- what a server refuses ------------------------------------------------------------------


TOOLLESS = [
    (400, "registry.ollama.ai/library/gemma:2b does not support tools"),
    (404, "No endpoints found that support tool use. To learn more about provider routing, visit the docs"),
    (400, '"auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set'),
    (500, "tools param requires --jinja flag"),
    (400, "`tools` is not supported with this model"),
    (400, "tool calling is not supported with this model"),
    (422, "This model doesn't support tool use in streaming mode."),
    (400, "Function calling is not enabled for models/gemma"),
]
A_TOOL = Tool("note", "Notes.", {"type": "object"}, lambda arguments: "ok")


@pytest.mark.parametrize(("code", "said"), TOOLLESS)
@pytest.mark.parametrize("style", ["openai", "anthropic"])
def test_a_model_that_takes_no_tools_is_asked_once_more_without(code, said, style):
    def picky(request):
        if b'"tools"' in request.content:
            return httpx.Response(code, json={"error": {"message": said}})
        whole = {"type": "message", "content": [{"type": "text", "text": "Hello"}], "stop_reason": "end_turn"}
        return httpx.Response(200, json=WHOLE if style == "openai" else whole)

    events, requests = reply([picky], retries=0, the_ask=ask("http://127.0.0.1:9", style=style, tools=(A_TOOL,)))
    assert events[0] == Notice("this model takes no tools: memory and other tools are off for this run")
    assert (text_of(events), len(requests)) == ("Hello", 2)


@pytest.mark.parametrize(("code", "said"), TOOLLESS)
def test_the_same_words_where_no_tool_was_sent_are_a_refusal(code, said):
    with pytest.raises(Refused):
        reply([httpx.Response(code, json={"error": {"message": said}})], retries=0)


@pytest.mark.parametrize("said", ["tool 'note': the schema is invalid", "messages with role 'tool' must follow a call"])
def test_a_tool_that_is_refused_for_itself_is_no_model_without_tools(said):
    with pytest.raises(Refused) as caught:
        reply([httpx.Response(400, json={"error": {"message": said}})], the_ask=ask(tools=(A_TOOL,)))
    assert said in str(caught.value)


def test_what_a_server_refused_is_not_sent_to_it_again_in_this_run():
    manners = transport.Manners()
    seen = []

    def picky(request):
        seen.append(json.loads(request.content))
        for name, said in (("tools", "does not support tools"), ("max_tokens", "use max_completion_tokens")):
            if name in seen[-1]:
                return httpx.Response(400, json={"error": {"message": said}})
        return httpx.Response(200, json=WHOLE)

    with transport.open_client(httpx.MockTransport(picky), timeout_seconds=5) as client:
        for expected in (3, 1):
            before = len(seen)
            the_ask = ask(tools=(A_TOOL,), params={"max_tokens": 9})
            list(transport.stream_reply(the_ask, client=client, manners=manners))
            assert len(seen) - before == expected
    assert (seen[-1]["max_completion_tokens"], "max_tokens" in seen[-1]) == (9, False)


@pytest.mark.parametrize("code", [400, 422, 500])
def test_refused_stream_options_are_left_out_whatever_the_status(code):
    def picky(request):
        if b"stream_options" in request.content:
            return httpx.Response(code, json={"error": {"message": "unknown field stream_options"}})
        return httpx.Response(200, json=WHOLE)

    assert text_of(reply([picky], retries=0)[0]) == "Hello"


@pytest.mark.parametrize(
    ("params", "said", "cure"),
    [
        ({"temperature": 0}, "Unsupported value: 'temperature' does not support 0 with this model.", "leave --temperature out"),
        ({"seed": 1}, "Unrecognized request argument supplied: seed", "leave --seed out"),
        ({"top_p": 1}, "top_p: Extra inputs are not permitted", "leave --param top_p out"),
        ({}, "Developer instruction is not enabled for models/gemma-3-1b-it", "--role user"),
        ({}, "Unsupported value. Supported values are: 'developer', 'assistant', 'user'", "--role user"),
        ({}, "This model does not support system prompts", "--role user"),
        ({}, "System messages are not supported", "--role user"),
        ({}, "Only user and assistant roles are supported!", "--role user"),
    ],
)
def test_a_refused_parameter_or_role_names_its_cure_at_the_end(params, said, cure):
    with pytest.raises(Refused) as caught:
        reply([httpx.Response(400, json={"error": {"message": said}})], the_ask=ask(params=params))
    assert str(caught.value).endswith(cure)


LOADING = httpx.Response(503, json={"error": {"message": "Loading model", "type": "unavailable_error", "code": 503}})


def test_a_server_that_loads_its_model_is_waited_for_visibly():
    events, requests = reply([LOADING, LOADING, LOADING, LOADING, httpx.Response(200, json=WHOLE)], retries=0, timeout_seconds=60)
    assert len(requests) == 5
    assert {event.reason for event in events if isinstance(event, Waiting)} == {"the server still loads its model"}
    assert text_of(events) == "Hello"


def test_a_server_that_never_ends_loading_is_given_up_after_the_timeout():
    slept = []
    with pytest.raises(Refused, match="Loading model"):
        reply([LOADING], retries=0, timeout_seconds=3, slept=slept)
    assert sum(slept) == pytest.approx(3)


# --- the environment ------------------------------------------------------------------------


ELSEWHERE = "https://models.example/v1"
WRONG = [
    ("ALL_PROXY", "socks5://user:hunter2@127.0.0.1:1", "SOCKS"),
    ("HTTP_PROXY", "garbage://user:hunter2@x", "no address of a proxy"),
    ("https_proxy", "http://user:hunter2@x:port", "no address of a proxy"),
    ("NO_PROXY", "[::1]", "NO_PROXY"),
    ("SSL_CERT_FILE", "/nowhere/hunter2.pem", "SSL_CERT_FILE"),
]


@pytest.mark.parametrize(("name", "value", "words"), WRONG)
def test_a_wrong_variable_is_named_without_its_value(monkeypatch, name, value, words):
    for other in ("ALL_PROXY", "HTTPS_PROXY", "HTTP_PROXY", "NO_PROXY", "SSL_CERT_FILE", "SSL_CERT_DIR"):
        monkeypatch.delenv(other, raising=False)
        monkeypatch.delenv(other.lower(), raising=False)
    monkeypatch.setenv(name, value)
    with pytest.raises(ConnectionFailed, match=words) as caught:
        transport.open_client(None, timeout_seconds=1, base_url=ELSEWHERE)
    assert name in str(caught.value)
    assert "hunter2" not in shown(caught.value)
    transport.open_client(None, timeout_seconds=1, base_url="http://127.0.0.1:9").close()


# --- how much and how long ------------------------------------------------------------------


def test_one_endless_event_ends_the_reply_and_keeps_what_came():
    def endless():
        yield text_event("so far").encode()
        yield b"data: "
        for _ in range(1_000):
            yield b"x" * 2**20

    events = []
    with transport.open_client(httpx.MockTransport(lambda _: stream(*endless())), timeout_seconds=5) as client, pytest.raises(TooLong):
        for event in transport.stream_reply(ask(), client=client):
            events.append(event)
    assert text_of(events) == "so far"


def test_an_endless_reply_ends_at_its_cap(monkeypatch):
    monkeypatch.setattr(watch, "REPLY_BYTES", 2**20)
    many = text_event("x" * 1_000).encode() * 20
    with pytest.raises(TooLong, match="longer than 1 MB"):
        reply([lambda _: stream(*[many] * 200)])


@pytest.mark.parametrize("nothing", [b": keep-alive\n\n", b'data: {"choices":[{"index":0,"delta":{}}]}\n\n'])
def test_a_server_that_says_nothing_for_ten_minutes_hangs(monkeypatch, nothing):
    clock = iter(range(10**6))
    monkeypatch.setattr(transport, "Watch", lambda place: watch.Watch(place, now=lambda: next(clock)))
    with pytest.raises(Stalled, match="nothing was said for 600 s"):
        reply([lambda _: stream(text_event("hi").encode(), *[nothing] * 2_000)])


# --- the client of an address ---------------------------------------------------------------


def test_the_runs_of_a_process_share_a_connection_and_no_cookie():
    answers = [json_reply(WHOLE, headers={"Set-Cookie": "who=me"})] * 3
    with WireServer(answers) as server:
        for _ in answers:
            with transport.borrowed_client(None, timeout_seconds=5, base_url=server.base_url) as client:
                assert text_of(list(transport.stream_reply(ask(server.base_url), client=client))) == "Hello"
    assert server.connections == 1
    assert [request.headers.get("cookie") for request in server.requests] == [None] * 3


# --- secrets in other forms -----------------------------------------------------------------


FORMS = [
    lambda key: key.upper(),
    lambda key: key.encode().hex(),
    lambda key: key.encode().hex().upper(),
    lambda key: quote(key, safe=""),
    *(lambda key, n=n: base64.b64encode(b"x" * n + key.encode() + b"yz").decode() for n in range(6)),
]


@pytest.mark.parametrize("form", FORMS, ids=range(len(FORMS)))
def test_a_secret_is_scrubbed_in_every_form_it_may_be_written_in(form):
    secret = "Hd7/Kx+2Mn5=Pq8Rs1Vt"
    written = form(secret)
    clean = scrub(f"bad key {written}!", secret)
    assert clean.startswith("bad key") and "[redacted]" in clean
    assert [written[at : at + 12] for at in range(2, len(written) - 14) if written[at : at + 12] in clean] == []


def test_a_servers_control_characters_reach_no_error_model_or_ending():
    evil = "\x1b]8;;http://x\x07m\x1b[31m"
    body = {"model": evil, "choices": [{"index": 0, "message": {"content": "Hello"}, "finish_reason": evil}]}
    events, _ = reply([httpx.Response(200, json=body)])
    with pytest.raises(Refused) as caught:
        reply([httpx.Response(400, json={"error": evil})])
    assert [c for c in f"{events}{caught.value}" if not c.isprintable()] == []
    assert "\\x1b" not in repr(events)
