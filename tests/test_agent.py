"""The agent as plain Python runs it: how a run ends, what it keeps, what is sent."""

from __future__ import annotations

import hashlib
import json
import os

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from wire_server import WireServer, drop, hang, json_reply, sse, status

from toolnexus_nb import Agent, Budget, Options, Spec, compose_soul, from_dir
from toolnexus_nb.conversation import Message, Run, TextDelta, ToolCall, ToolFinished, ToolResult, ToolStarted, TurnStarted, Usage
from toolnexus_nb.embedded import Embedded, default_name
from toolnexus_nb.embedded.mirror import MirrorTransport
from toolnexus_nb.errors import LocalModelError, MissingKeyError, ModelError, PersonaError, PromptError, RunFailed
from toolnexus_nb.providers import Endpoint, provider
from toolnexus_nb.turns import MOST_CALLS, Plan, Turns

STYLES = ("openai", "anthropic")
SOUL = "You are Kip.\r\nTerse — naïve 🜁.  "
USAGE = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}


# --- what a server says and hears, in either dialect -------------------------------------------


class Scripted(httpx.BaseTransport):
    """Answers each request with the next of `answers`; the bodies it was sent are in `bodies`."""

    def __init__(self, *answers):
        self.answers = list(answers)
        self.bodies = []

    def handle_request(self, request):
        self.bodies.append(json.loads(request.read()))
        answer = self.answers[len(self.bodies) - 1]
        if isinstance(answer, BaseException):
            raise answer
        return answer if isinstance(answer, httpx.Response) else httpx.Response(200, json=answer)


class Breaking(httpx.SyncByteStream):
    """A body that is sent in part and then ends with an exception, or without a word."""

    def __init__(self, *pieces, end=None):
        self.pieces, self.end = pieces, end

    def __iter__(self):
        yield from self.pieces
        if self.end is not None:
            raise self.end


def said(style, text="", calls=(), reason="stop", usage=USAGE):
    """Return a whole reply as JSON; `calls` are (id, name, arguments as JSON)."""
    if style == "openai":
        message = {"role": "assistant", "content": text}
        if calls:
            message["tool_calls"] = [
                {"id": id_, "type": "function", "function": {"name": name, "arguments": arguments}} for id_, name, arguments in calls
            ]
        body = {"model": "m-1", "choices": [{"index": 0, "message": message, "finish_reason": reason}]}
        return body | ({"usage": usage} if usage else {})
    words = {"stop": "tool_use" if calls else "end_turn", "length": "max_tokens"}
    uses = [{"type": "tool_use", "id": id_, "name": name, "input": json.loads(arguments)} for id_, name, arguments in calls]
    body = {"type": "message", "model": "m-1", "content": [{"type": "text", "text": text}, *uses], "stop_reason": words.get(reason, reason)}
    return body | ({"usage": {"input_tokens": usage["prompt_tokens"], "output_tokens": usage["completion_tokens"]}} if usage else {})


def streamed(*chunks, end=None):
    """Return an openai stream of the given deltas that breaks off without a terminal event."""
    pieces = (f"data: {json.dumps({'model': 'm-1', 'choices': [{'index': 0, 'delta': delta}]})}\n\n".encode() for delta in chunks)
    return httpx.Response(200, headers={"content-type": "text/event-stream"}, stream=Breaking(*pieces, end=end))


def system_of(style, body):
    if style == "openai":
        first = body["messages"][0]
        return first["content"] if first["role"] == "system" else None
    return body["system"][0]["text"]


def agent(*tools, **spec):
    return Agent("kip", Spec(soul=SOUL, model="m-1", tools=tools, **spec))


def run(transport, *tools, prompt="hi", budget=None, **options):
    asked = agent(*tools, budget=budget or Budget())
    return asked.run(prompt, Options(transport=transport, **{"retries": 0, **options}))


def accepted(run):
    """Hold that the history, with one more prompt behind it, is what both dialects accept."""
    messages = (*run.messages, Message("user", "and then?"))
    for style in STYLES:
        body = provider(style).request(_ask(style, messages)).body
        _hold_accepted(style, body["messages"])
    return True


def _ask(style, messages):
    from toolnexus_nb.providers import Ask

    return Ask(Endpoint(style, "http://127.0.0.1:9/v1", "m"), "", tuple(messages))


def _hold_accepted(style, messages):
    assert messages[0]["role"] == "user"
    assert messages[-1]["role"] == "user"
    open_calls = []
    for message in messages:
        if style == "openai":
            if open_calls:
                assert message["role"] == "tool"
                open_calls.remove(message["tool_call_id"])
                continue
            open_calls = [call["id"] for call in message.get("tool_calls", ())]
            assert message["role"] in ("user", "assistant")
            assert message["content"] or open_calls
        else:
            blocks = message["content"]
            assert blocks
            assert all(block["text"].strip() for block in blocks if block["type"] == "text")
            answered = [block["tool_use_id"] for block in blocks if block["type"] == "tool_result"]
            assert answered == open_calls
            open_calls = [block["id"] for block in blocks if block["type"] == "tool_use"]
    assert not open_calls


def tide(port: str) -> str:
    """Say the tide."""
    return f"high at {port}"


# --- the original's example ----------------------------------------------------------------------


def test_the_originals_example_runs_to_its_end(kip):
    soul, found = compose_soul(kip)
    assert found == ["AGENTS.md", "SOUL.md", "MEMORY.md"]
    transport = httpx.MockTransport(lambda _: httpx.Response(200, json={"choices": [{"message": {"content": "archived"}}]}))
    archivist = Agent("archivist", Spec(does="keeps records", soul=soul, model="m-archivist"))
    done = archivist.run("file this", Options(transport=transport))
    assert (done.status, done.text, done.is_error, done.model) == ("done", "archived", False, "m-archivist")


def test_a_run_tells_all_of_itself():
    done = run(Scripted(said("openai", "hello")))
    assert done == Run(
        "hello",
        "done",
        usage=Usage(10, 5, 15),
        turns=1,
        messages=(Message("user", "hi"), Message("assistant", "hello")),
        model="m-1",
        soul_digest=hashlib.sha256(SOUL.encode()).hexdigest(),
        seconds=done.seconds,
        first_token_seconds=done.first_token_seconds,
    )
    assert 0 < done.first_token_seconds <= done.seconds
    assert (done.total_tokens, str(done), done.raise_for_status() is done) == (15, "hello", True)
    assert repr(done) == "<Run done: 5 characters, 1 turn, model m-1>"


@pytest.mark.parametrize("style", STYLES)
def test_stream_yields_the_events_and_returns_the_run(style):
    transport = Scripted(said(style, "look", [("c1", "tide", '{"port": "Brest"}')]), said(style, "high"))
    events, stream = [], agent(tide).stream("hi", Options(transport=transport, style=style))
    while True:
        try:
            events.append(next(stream))
        except StopIteration as end:
            done = end.value
            break
    told = (TurnStarted, TextDelta, ToolStarted, ToolFinished)
    kinds = [type(event) for event in events if isinstance(event, told)]
    assert kinds == [TurnStarted, TextDelta, ToolStarted, ToolFinished, TurnStarted, TextDelta]
    assert (done.text, done.status, done.turns, done.usage) == ("high", "done", 2, Usage(20, 10, 30))


# --- what is sent --------------------------------------------------------------------------------


@pytest.mark.parametrize("style", STYLES)
def test_the_system_prompt_is_the_same_on_every_turn_though_memory_changes(style, kip):
    transport = Scripted(
        said(style, "", [("c1", "memory", '{"action": "add", "text": "likes tea"}')]),
        said(style, "", [("c2", "memory", '{"action": "add", "target": "user", "text": "Ünal"}')]),
        said(style, "noted"),
    )
    ava = from_dir(kip)
    done = ava.run("remember", Options(model="m", transport=transport, style=style))
    assert done.status == "done"
    assert (kip / "MEMORY.md").read_text() == "- prefers metric units\n- likes tea\n"
    assert (kip / "USER.md").read_text() == "- Ünal\n"
    assert [system_of(style, body) for body in transport.bodies] == [ava.spec.prompt] * 3
    assert "tea" not in ava.spec.prompt


@pytest.mark.parametrize("style", STYLES)
@given(soul=st.text(alphabet=st.characters(exclude_categories=["Cs"]), min_size=1), prompt=st.text(min_size=1))
def test_nothing_is_added_to_a_soul(style, soul, prompt):
    body = Agent("a", Spec(soul=soul, model="m")).request(prompt, Options(transport=MirrorTransport(), style=style)).body
    assert system_of(style, body) == soul


def test_options_decide_the_body():
    transport = Scripted(said("openai", "x"))
    run(transport, params={"temperature": 0, "seed": 7})
    assert transport.bodies == [
        {
            "model": "m-1",
            "messages": [{"role": "system", "content": SOUL}, {"role": "user", "content": "hi"}],
            "stream": True,
            "stream_options": {"include_usage": True},
            "temperature": 0,
            "seed": 7,
        }
    ]


def test_the_options_model_comes_before_the_specs():
    transport = Scripted(said("openai", "x"))
    run(transport, model="m-2")
    assert transport.bodies[0]["model"] == "m-2"


def test_the_soul_can_go_as_a_user_message():
    transport = Scripted(said("openai", "x"))
    run(transport, role="user")
    assert transport.bodies[0]["messages"] == [{"role": "user", "content": f"{SOUL}\n\nhi"}]


def test_messages_of_a_run_continue_it():
    first = run(Scripted(said("openai", "one")))
    transport = Scripted(said("openai", "two"))
    second = run(transport, prompt="more", history=first.messages)
    assert [message["content"] for message in transport.bodies[0]["messages"]] == [SOUL, "hi", "one", "more"]
    assert [message.text for message in second.messages] == ["hi", "one", "more", "two"]


@pytest.mark.parametrize("style", STYLES)
def test_the_request_is_what_stream_would_send_and_sends_nothing(style):
    transport = Scripted(said(style, "x"))
    options = Options(transport=transport, style=style, params={"top_p": 0.5})
    asked = agent(tide)
    body = asked.request("hi", options).body
    assert transport.bodies == []
    asked.run("hi", options)
    assert transport.bodies == [body]


# --- how a run ends ------------------------------------------------------------------------------


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize(
    ("directive", "status", "limit", "words"),
    [
        ("", "done", "", ""),
        ("/length\n", "incomplete", "length", ""),
        ("/cut\n", "error", "", "the stream ended without"),
        ("/error kaput\n", "error", "", "kaput"),
        ("/fail 400 not like this\n", "error", "", "not like this"),
        ("/stall 2\n", "timeout", "", "no byte for 0.2 s"),
    ],
)
def test_each_end_has_its_status_and_keeps_what_had_arrived(style, directive, status, limit, words):
    done = run(MirrorTransport(), prompt=f"{directive}hello", style=style, timeout_seconds=0.2)
    assert (done.status, done.limit, done.is_error) == (status, limit, status in ("error", "timeout"))
    assert words in done.error
    assert "\n" not in done.error
    assert done.text.startswith("" if "fail" in directive else "This is the mirror")
    assert done.messages[0] == Message("user", f"{directive}hello")
    assert [message.text for message in done.messages[1:]] == ([done.text] if done.text else [])
    assert done.soul_digest == hashlib.sha256(SOUL.encode()).hexdigest()
    assert accepted(done)


def test_a_run_that_is_not_done_can_be_made_to_raise():
    failed = run(MirrorTransport(), prompt="/fail 400 no")
    with pytest.raises(RunFailed, match=r"^error: .*400.*no") as caught:
        failed.raise_for_status()
    assert caught.value.run is failed


def test_usage_of_a_reply_that_broke_is_kept():
    broken = httpx.Response(
        200,
        headers={"content-type": "text/event-stream"},
        stream=Breaking(
            b'data: {"choices": [{"index": 0, "delta": {"content": "par"}}], "usage": {"prompt_tokens": 7, "completion_tokens": 1}}\n\n'
        ),
    )
    done = run(Scripted(broken))
    assert (done.status, done.text, done.usage, done.turns) == ("error", "par", Usage(7, 1, 8), 1)


def test_usage_is_none_where_nothing_was_reported():
    done = run(Scripted(said("openai", "x", usage=None)))
    assert (done.usage, done.total_tokens) == (Usage(), None)


@pytest.mark.parametrize("style", STYLES)
def test_usage_is_summed_over_the_turns_that_reported_it(style):
    call = [("c1", "tide", '{"port": "Brest"}')]
    transport = Scripted(said(style, "", call), said(style, "", [("c2", "tide", '{"port": "Kiel"}')], usage=None), said(style, "x"))
    assert run(transport, tide, style=style).usage == Usage(20, 10, 30)


def test_far_fewer_prompt_tokens_than_sent_are_a_notice():
    usage = {"prompt_tokens": 500, "completion_tokens": 1}
    done = Agent("a", Spec(soul="word " * 2_000, model="m")).run("hi", Options(transport=Scripted(said("openai", "x", usage=usage))))
    assert done.notices == ("the server read 500 prompt tokens of ≈ 2501 sent: it may have cut the soul; check its context length",)


def test_enough_prompt_tokens_are_no_notice():
    usage = {"prompt_tokens": 2_000, "completion_tokens": 1}
    done = Agent("a", Spec(soul="word " * 2_000, model="m")).run("hi", Options(transport=Scripted(said("openai", "x", usage=usage))))
    assert done.notices == ()


@pytest.mark.parametrize("style", STYLES)
def test_a_reply_without_text_is_said(style):
    done = run(Scripted(said(style, "")), style=style)
    assert (done.status, done.notices) == ("done", ("the model ended its turn without any text",))
    assert accepted(done)


@pytest.mark.parametrize("style", STYLES)
def test_an_unknown_reason_to_stop_is_incomplete_in_the_servers_word(style):
    done = run(Scripted(said(style, "so", reason="tired")), style=style)
    assert (done.status, done.limit, done.text) == ("incomplete", "tired", "so")


# --- tools ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("style", STYLES)
def test_parallel_calls_are_all_answered_in_order(style):
    calls = [("c1", "tide", '{"port": "Brest"}'), ("c2", "tide", '{"port": "Kiel"}')]
    transport = Scripted(said(style, "I look", calls), said(style, "high"))
    done = run(transport, tide, style=style)
    assert [(call.id, call.result) for call in done.tool_calls] == [
        ("c1", ToolResult("high at Brest")),
        ("c2", ToolResult("high at Kiel")),
    ]
    assert [(message.role, message.text) for message in done.messages] == [
        ("user", "hi"),
        ("assistant", "I look"),
        ("tool", "high at Brest"),
        ("tool", "high at Kiel"),
        ("assistant", "high"),
    ]
    assert all(call.seconds >= 0 for call in done.tool_calls)
    assert accepted(done)


def _raises(port: str) -> str:
    raise ValueError("no such port")


def _exits(port: str) -> str:
    raise SystemExit(3)


_raises.__name__ = _exits.__name__ = "tide"


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize(
    ("tool", "call", "answer"),
    [
        (tide, ("c1", "tidal", "{}"), "unknown tool: tidal: there is tide"),
        (tide, ("c1", "tide", '{"harbour": 1}'), "wrong arguments: missing a required argument: 'port'"),
        (_raises, ("c1", "tide", '{"port": "x"}'), "ValueError: no such port"),
        (_exits, ("c1", "tide", '{"port": "x"}'), "SystemExit: 3"),
    ],
)
def test_a_tools_failure_is_an_answer_for_the_model(style, tool, call, answer):
    transport = Scripted(said(style, "", [call]), said(style, "sorry"))
    done = run(transport, tool, style=style)
    assert (done.status, done.text) == ("done", "sorry")
    assert [call.result for call in done.tool_calls] == [ToolResult(answer, is_error=True)]
    assert [(m.text, m.is_error) for m in done.messages if m.role == "tool"] == [(answer, True)]


@pytest.mark.parametrize(
    ("arguments", "answer"),
    [
        ('{"port": "Bre', "the arguments are not JSON"),
        ('["Brest"]', "the arguments must be a JSON object, not list"),
        ('{"port": NaN}', "the arguments are not JSON: NaN is no JSON value"),
    ],
)
def test_arguments_that_are_no_object_are_answered_and_never_run(arguments, answer):
    ran = []

    def tide(port: str) -> str:
        ran.append(port)
        return "high"

    done = run(Scripted(said("openai", "", [("c1", "tide", arguments)]), said("openai", "sorry")), tide)
    assert done.tool_calls[0].result.is_error
    assert done.tool_calls[0].result.text.startswith(answer)
    assert (ran, done.text) == ([], "sorry")
    assert accepted(done)


def test_a_tool_may_answer_with_a_result_of_its_own():
    def tide(port: str) -> ToolResult:
        return ToolResult("no", is_error=True, diff="+x\n")

    done = run(Scripted(said("openai", "", [("c1", "tide", '{"port": "x"}')]), said("openai", "ok")), tide)
    assert done.tool_calls == (
        ToolCall("c1", "tide", '{"port": "x"}', ToolResult("no", is_error=True, diff="+x\n"), done.tool_calls[0].seconds),
    )


@pytest.mark.parametrize("style", STYLES)
def test_the_limit_on_turns_ends_a_run_with_an_answered_history(style):
    answers = [said(style, f"{n}", [(f"c{n}", "tide", json.dumps({"port": str(n)}))]) for n in range(5)]
    transport = Scripted(*answers)
    done = run(transport, tide, style=style, max_turns=3)
    assert (done.status, done.limit, done.turns, len(transport.bodies), len(done.tool_calls)) == ("incomplete", "max_turns", 3, 3, 3)
    assert (done.text, done.usage) == ("2", Usage(30, 15, 45))
    assert accepted(done)


def test_the_smaller_limit_on_turns_counts():
    answers = [said("openai", "", [(f"c{n}", "tide", json.dumps({"port": str(n)}))]) for n in range(5)]
    assert run(Scripted(*answers), tide, budget=Budget(max_turns=2)).turns == 2


def test_a_token_budget_ends_a_run_before_the_next_request():
    answers = [said("openai", "", [(f"c{n}", "tide", json.dumps({"port": str(n)}))]) for n in range(5)]
    done = run(Scripted(*answers), tide, budget=Budget(max_tokens=30))
    assert (done.status, done.limit, done.turns, done.total_tokens) == ("incomplete", "max_tokens", 2, 30)
    assert accepted(done)


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("tool", [tide, _raises], ids=["successes", "failures"])
def test_a_model_that_repeats_itself_is_stopped(tool, style):
    done = run(MirrorTransport(), tool, prompt='/loop tide {"port": "Brest"}', style=style, max_turns=50)
    assert (done.status, done.limit, len(done.tool_calls)) == ("incomplete", "loop", 3)
    assert accepted(done)


def test_the_same_call_with_new_results_is_no_loop():
    count = iter(range(100))

    def tide(port: str) -> str:
        return str(next(count))

    done = run(MirrorTransport(), tide, prompt='/loop tide {"port": "Brest"}', max_turns=8)
    assert (done.limit, len(done.tool_calls)) == ("max_turns", 8)


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("reason", ["length", "content_filter", "tired"])
def test_calls_of_a_reply_that_did_not_end_well_never_run(style, reason):
    ran = []

    def tide(port: str) -> str:
        ran.append(port)
        return "high"

    done = run(Scripted(said(style, "so", [("c1", "tide", '{"port": "Brest"}')], reason=reason)), tide, style=style)
    assert (done.status, ran, done.text) == ("incomplete", [], "so")
    assert accepted(done)


@pytest.mark.parametrize("style", STYLES)
def test_a_call_cut_at_the_token_limit_never_runs(style):
    ran = []

    def tide(port: str = "") -> str:
        ran.append(port)
        return "high"

    done = run(MirrorTransport(), tide, prompt='/length\n/call tide {"port": "Brest"}', style=style)
    assert (done.status, done.limit, ran, done.tool_calls) == ("incomplete", "length", [], ())
    assert accepted(done)


# --- Stop ----------------------------------------------------------------------------------------


def test_stop_before_the_first_byte_keeps_the_prompt():
    done = run(Scripted(KeyboardInterrupt()))
    assert (done.status, done.text, done.turns, done.messages) == ("interrupted", "", 0, (Message("user", "hi"),))
    assert accepted(done)


def test_stop_in_mid_stream_keeps_the_text():
    done = run(Scripted(streamed({"content": "High "}, {"content": "wa"}, end=KeyboardInterrupt())))
    assert (done.status, done.text, done.turns, done.error) == ("interrupted", "High wa", 1, "")
    assert done.messages == (Message("user", "hi"), Message("assistant", "High wa"))
    assert accepted(done)


def test_stop_within_the_arguments_of_a_call_drops_the_call():
    half = {"tool_calls": [{"index": 0, "id": "c1", "function": {"name": "tide", "arguments": '{"po'}}]}
    done = run(Scripted(streamed({"content": "I look"}, half, end=KeyboardInterrupt())), tide)
    assert (done.status, done.tool_calls) == ("interrupted", ())
    assert done.messages == (Message("user", "hi"), Message("assistant", "I look"))
    assert accepted(done)


def test_stop_within_the_reasoning_leaves_no_empty_message():
    done = run(Scripted(streamed({"reasoning_content": "let me"}, end=KeyboardInterrupt())))
    assert (done.status, done.reasoning, done.messages) == ("interrupted", "let me", (Message("user", "hi"),))


@pytest.mark.parametrize("style", STYLES)
def test_stop_in_a_tool_answers_every_call_of_the_reply(style):
    def tide(port: str) -> str:
        if port == "Kiel":
            raise KeyboardInterrupt
        return "high"

    calls = [(f"c{n}", "tide", json.dumps({"port": port})) for n, port in enumerate(("Brest", "Kiel", "Bergen"))]
    done = run(Scripted(said(style, "I look", calls)), tide, style=style)
    assert (done.status, done.text, len(done.tool_calls)) == ("interrupted", "I look", 1)
    assert [message.text for message in done.messages if message.role == "tool"] == [
        "high",
        "not run: the turn was stopped before this call",
        "not run: the turn was stopped before this call",
    ]
    assert accepted(done)


@pytest.mark.parametrize("event", [TurnStarted, TextDelta, ToolStarted, ToolFinished])
def test_stop_thrown_in_while_an_event_is_drawn_ends_the_run(event):
    transport = Scripted(said("openai", "I look", [("c1", "tide", '{"port": "x"}')]), said("openai", "high"))
    stream = agent(tide).stream("hi", Options(transport=transport))
    while not isinstance(next(stream), event):
        pass
    with pytest.raises(StopIteration) as end:
        stream.throw(KeyboardInterrupt())
    assert end.value.value.status == "interrupted"
    assert accepted(end.value.value)


def test_stop_closes_the_connection():
    server = WireServer([sse({"choices": [{"index": 0, "delta": {"content": "High"}}]}, ending="hang")])
    with server:
        stream = agent().stream("hi", Options(base_url=server.base_url))
        while next(stream) != TextDelta("High"):
            pass
        with pytest.raises(StopIteration) as end:
            stream.throw(KeyboardInterrupt())
        assert server.hung_up.wait(2)
    assert (end.value.value.status, end.value.value.text) == ("interrupted", "High")


def test_a_stream_that_is_closed_closes_the_connection():
    server = WireServer([sse({"choices": [{"index": 0, "delta": {"content": "High"}}]}, ending="hang")])
    with server:
        stream = agent().stream("hi", Options(base_url=server.base_url))
        while next(stream) != TextDelta("High"):
            pass
        stream.close()
        assert server.hung_up.wait(2)


# --- a real server -------------------------------------------------------------------------------


def test_a_silent_server_is_a_timeout():
    with WireServer([hang()]) as server:
        done = agent().run("hi", Options(base_url=server.base_url, timeout_seconds=0.2))
    assert (done.status, done.error) == (
        "timeout",
        f"{server.root_url}: no byte for 0.2 s: the server hangs or still loads: allow more with timeout_seconds",
    )


def test_a_connection_that_drops_is_tried_again_and_said():
    with WireServer([drop(), json_reply(said("openai", "back"))]) as server:
        done = agent().run("hi", Options(base_url=server.base_url))
    assert (done.status, done.text, len(server.requests)) == ("done", "back", 2)


def test_no_retries_are_no_retries():
    with WireServer([drop(), json_reply(said("openai", "back"))]) as server:
        done = agent().run("hi", Options(base_url=server.base_url, retries=0))
    assert (done.status, len(server.requests)) == ("error", 1)


# --- which model ---------------------------------------------------------------------------------


def test_with_nothing_named_an_embedded_model_answers():
    assert default_name() in ("local", "mirror")
    with pytest.raises(ModelError, match="no model is named"):
        Agent("a", Spec()).run("hi", Options(transport=MirrorTransport()))
    with pytest.raises(ModelError, match="no model is named"):
        Agent("a", Spec()).run("hi", Options(base_url="http://127.0.0.1:9/v1"))


@pytest.mark.parametrize("style", STYLES)
def test_the_mirror_speaks_both_dialects(style):
    done = Agent("a", Spec(soul=SOUL, model="mirror")).run("hi", Options(style=style))
    assert (done.status, done.model) == ("done", "mirror")


def test_a_missing_key_is_one_line_that_names_its_variable(monkeypatch):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with pytest.raises(MissingKeyError, match=r"^no API key for openai: set OPENAI_API_KEY, or use -m local$"):
        Agent("a", Spec(model="openai:m")).run("hi")


def test_a_name_that_leads_nowhere_is_refused_before_a_request():
    with pytest.raises(ModelError, match="no endpoint"):
        Agent("a", Spec(model="m-archivist")).run("hi")
    with pytest.raises(ModelError, match="no endpoint"):
        Agent("a", Spec(model="m-archivist")).request("hi")


def test_a_request_needs_a_place_and_no_key(monkeypatch):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    assert Agent("a", Spec(model="openai:m")).request("hi").url == "https://api.openai.com/v1/chat/completions"


def test_the_key_is_in_no_repr():
    key = "sk-test-0123456789abcdef"
    options = Options(base_url="http://127.0.0.1:9/v1", api_key=key)
    asked = agent()
    stream = asked.stream("hi", options)
    assert key not in repr((options, asked, stream, asked.request("hi", options)))


def _small_context(context_tokens):
    def counted(text):
        return len(text.split())

    return Embedded("http://127.0.0.1:9/v1", "tiny", Scripted(), context_tokens, counted)


def test_a_soul_longer_than_the_context_is_refused_before_the_request():
    inside = _small_context(100)
    there = Plan(Endpoint("openai", inside.base_url, "tiny", embedded="local"), inside.transport, inside, {})
    spec = Spec(soul="word " * 200, model="local")
    done = None
    stream = Turns(spec, (), "hi", Options(), there).stream()
    with pytest.raises(LocalModelError, match="the soul does not fit the local model: 201 tokens, its context is 100: "):
        done = list(stream)
    assert (done, inside.transport.bodies) == (None, [])


# --- personas ------------------------------------------------------------------------------------


def test_a_directory_is_an_agent_with_the_memory_tool_last(kip):
    ava = from_dir("kip/")
    assert (ava.name, ava.spec.does, ava.spec.model) == ("kip", "persona agent from kip/", "inherit")
    assert ava.spec.prompt == compose_soul(kip).text
    assert [tool.name for tool in ava.tools(Options())] == ["memory"]


def test_the_name_is_that_of_the_resolved_path(kip, monkeypatch):
    os.symlink(kip, kip.parent / "alias")
    monkeypatch.chdir(kip)
    assert (from_dir(".").name, from_dir(kip.parent / "alias").name) == ("kip", "kip")


def test_memory_can_be_left_out(kip):
    assert from_dir(kip, memory=False).tools(Options()) == ()
    assert from_dir(kip).tools(Options(memory="off")) == ()


def test_tools_of_the_options_are_offered_too(kip):
    assert [tool.name for tool in from_dir(kip).tools(Options(tools=(tide,)))] == ["memory", "tide"]


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda home: None, "no such directory"),
        (lambda home: home.write_text("x"), "is a file"),
        (lambda home: home.mkdir(), "none of the seven"),
    ],
)
def test_a_directory_without_a_persona_is_an_error_in_one_line(tmp_path, make, words):
    home = tmp_path / "ava"
    make(home)
    with pytest.raises(PersonaError, match=words) as caught:
        from_dir(home)
    assert "\n" not in str(caught.value)


def test_the_soul_is_a_snapshot(kip):
    ava = from_dir(kip)
    before = ava.spec.prompt
    (kip / "SOUL.md").write_text("You are another.\n")
    transport = Scripted(said("openai", "x"))
    ava.run("hi", Options(model="m", transport=transport))
    assert system_of("openai", transport.bodies[0]) == before


# --- leave to write ------------------------------------------------------------------------------

ADD = "/memory add likes tea"


def test_memory_asked_for_is_written_when_the_answer_is_yes(kip):
    asked, told = [], []

    def confirm(edit):
        asked.append((edit.action, edit.file))
        return True

    done = from_dir(kip).run(ADD, Options(model="mirror", memory="ask", confirm=confirm, on_edit=told.append))
    assert done.tool_calls[0].result.text == "ok (add → MEMORY.md); loads next session"
    assert (asked, [edit.file for edit in told]) == ([("add", "MEMORY.md")], ["MEMORY.md"])


@pytest.mark.parametrize("confirm", [lambda edit: False, None], ids=["no", "nobody to ask"])
def test_memory_asked_for_is_not_written_without_a_yes(kip, confirm):
    before = (kip / "MEMORY.md").read_bytes()
    done = from_dir(kip).run(ADD, Options(model="mirror", memory="ask", confirm=confirm))
    assert done.tool_calls[0].result == ToolResult("not written: the user refused this edit of MEMORY.md", is_error=True)
    assert (kip / "MEMORY.md").read_bytes() == before


@pytest.mark.parametrize(
    ("confirm", "text", "written"),
    [
        (lambda edit: True, "ok (add → MEMORY.md); loads next session: it is a link to ../real.md, outside the directory", True),
        (
            lambda edit: False,
            "not written: the user refused this edit of MEMORY.md (a link to ../real.md, outside the directory)",
            False,
        ),
        (
            None,
            "not written: MEMORY.md is a link to ../real.md, outside the directory: no one is here to ask: pass Options(confirm=…)",
            False,
        ),
    ],
    ids=["yes", "no", "nobody to ask"],
)
def test_a_memory_that_is_a_link_out_of_the_directory_is_asked_about_also_where_memory_is_on(kip, confirm, text, written):
    (kip / "MEMORY.md").rename(kip.parent / "real.md")
    (kip / "MEMORY.md").symlink_to("../real.md")
    before = (kip.parent / "real.md").read_bytes()
    done = from_dir(kip).run(ADD, Options(model="mirror", confirm=confirm))
    assert done.tool_calls[0].result.text == text
    assert ((kip.parent / "real.md").read_bytes() != before) is written


def test_memory_switched_off_is_no_tool(kip):
    before = (kip / "MEMORY.md").read_bytes()
    done = from_dir(kip).run(ADD, Options(model="mirror", memory="off"))
    assert done.tool_calls[0].result == ToolResult("unknown tool: memory: there is none", is_error=True)
    assert (kip / "MEMORY.md").read_bytes() == before


def test_a_write_carries_its_diff_for_the_person_and_not_for_the_model(kip):
    done = from_dir(kip).run(ADD, Options(model="mirror"))
    assert "+- likes tea" in done.tool_calls[0].result.diff
    assert not any("+- likes tea" in message.text for message in done.messages if message.role == "tool")


# --- any history ---------------------------------------------------------------------------------


@pytest.mark.parametrize("style", STYLES)
@given(
    orders=st.lists(
        st.sampled_from(["/call tide {}", '/call tide {"port"', "/call nothing {}", "/reason hm", "/length", "/cut", "/error e"]),
        max_size=4,
    )
)
def test_whatever_happens_the_history_is_accepted_by_both_dialects(style, orders):
    done = run(MirrorTransport(), tide, prompt="\n".join([*orders, "hello"]), style=style, max_turns=3)
    assert accepted(done)


# --- limits that hold whatever a model does ------------------------------------------------------


@pytest.mark.parametrize("style", STYLES)
def test_a_reply_with_thousands_of_calls_runs_the_first_and_ends_there(style):
    told = []
    calls = [(f"c{n}", "note", json.dumps({"text": str(n)})) for n in range(2_000)]

    def note(text: str) -> str:
        told.append(text)
        return "ok"

    ended = run(Scripted(said(style, calls=calls, reason="stop")), note, style=style)
    assert (ended.status, ended.limit) == ("incomplete", "tool_calls")
    assert told == [str(n) for n in range(MOST_CALLS)]
    assert ended.notices == (f"the reply asked for 2000 tool calls: the first {MOST_CALLS} were run, the rest were not",)
    assert accepted(ended)


def test_the_most_calls_of_a_reply_are_all_run():
    calls = [(f"c{n}", "note", json.dumps({"text": str(n)})) for n in range(MOST_CALLS)]
    ended = run(Scripted(said("openai", calls=calls, reason="tool_calls"), said("openai", "noted")), as_note)
    assert (ended.status, ended.text, len(ended.tool_calls)) == ("done", "noted", MOST_CALLS)


def as_note(text: str) -> str:
    return f"noted {text}"


@pytest.mark.parametrize("where", ["options", "budget"])
def test_a_run_ends_by_the_clock_with_what_it_has(where):
    import time

    def slow(text: str) -> str:
        time.sleep(0.05)
        return text

    limit = {"deadline_seconds": 0.03} if where == "options" else {"budget": Budget(seconds=0.03)}
    ended = run(Scripted(said("openai", "I look", calls=[("c1", "slow", '{"text": "x"}')], reason="tool_calls")), slow, **limit)
    assert (ended.status, ended.limit, ended.text) == ("incomplete", "seconds", "I look")
    assert accepted(ended)


@pytest.mark.parametrize("prompt", ["", "  ", "\n\t"])
def test_a_blank_prompt_is_refused_in_one_line_and_nothing_is_sent(prompt):
    transport = Scripted()
    with pytest.raises(PromptError, match=r"^the prompt is blank: there is nothing to send: write a message$"):
        run(transport, prompt=prompt)
    assert transport.bodies == []


def test_a_call_written_as_text_is_said_to_have_run_nothing():
    ended = run(Scripted(said("openai", '<tool_call>{"name": "as_note", "arguments": {"text": "x"}}</tool_call>')), as_note)
    assert ended.status == "done"
    assert [notice for notice in ended.notices if "wrote a call of as_note as text, so nothing was run" in notice]


def test_a_prompt_that_got_no_answer_is_sent_once():
    transport = Scripted(httpx.Response(400, json={}), said("openai", "hello"))
    failed = run(transport, prompt="hello")
    run(transport, prompt="hello", history=failed.messages)
    assert [message["content"] for message in transport.bodies[1]["messages"] if message["role"] == "user"] == ["hello"]


def test_a_model_without_tools_answers_and_memory_is_said_to_be_off(kip):
    refused = status(400, {"error": {"message": "gemma does not support tools"}})
    with WireServer([refused, json_reply(said("openai", "hello"))]) as server:
        run = from_dir(kip).run("hi", Options(model="m", base_url=server.base_url))
    assert run.status == "done"
    assert run.notices == ("this model takes no tools: memory and other tools are off for this run",)
    assert ["tools" in request.json for request in server.requests] == [True, False]


def test_a_wrong_proxy_in_the_environment_is_a_run_with_status_error(kip, monkeypatch):
    monkeypatch.setenv("ALL_PROXY", "garbage://user:hunter2@x")
    run = from_dir(kip).run("hi", Options(model="m", base_url="http://models.example/v1"))
    assert (run.status, run.text) == ("error", "")
    assert run.error.startswith("ALL_PROXY is no address of a proxy")
    assert "hunter2" not in repr(run)
