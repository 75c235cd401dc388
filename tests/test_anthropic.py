"""The messages dialect: its requests, and the events of its streams."""

from dataclasses import replace

import pytest
from dialect_events import CALLS, TOOL, data, fold, message_of, recorded

from toolnexus_nb.conversation import (
    Finish,
    Message,
    Reasoning,
    TextDelta,
    ToolCall,
    Usage,
)
from toolnexus_nb.errors import BadReply, StreamCut
from toolnexus_nb.providers import Ask, Endpoint, anthropic
from toolnexus_nb.providers.ends import NO_REASON

# --- the request ------------------------------------------------------------------------------


def anthropic_body(**changes):
    base = {"endpoint": Endpoint("anthropic", "http://h", "m", "k"), "system": "soul", "messages": (Message("user", "hi"),)}
    return anthropic.request(Ask(**{**base, **changes})).body


def test_an_anthropic_request_in_full():
    ask = Ask(Endpoint("anthropic", "http://h", "m", "k"), "soul", (Message("user", "hi"),), (TOOL,), {"temperature": 0})
    request = anthropic.request(ask)
    assert request.url == "http://h/v1/messages"
    assert request.headers == {"anthropic-version": "2023-06-01", "x-api-key": "k"}
    assert request.body == {
        "model": "m",
        "max_tokens": 4096,
        "system": [{"type": "text", "text": "soul", "cache_control": {"type": "ephemeral"}}],
        "messages": [{"role": "user", "content": [{"type": "text", "text": "hi"}]}],
        "stream": True,
        "tools": [{"name": "tide", "description": "says the tide", "input_schema": TOOL.parameters}],
        "temperature": 0,
    }


def test_an_anthropic_request_leaves_out_what_there_is_none_of():
    assert set(anthropic_body(system="")) == {"model", "max_tokens", "messages", "stream"}


def test_max_tokens_can_be_told_otherwise():
    assert anthropic_body(params={"max_tokens": 5})["max_tokens"] == 5


@pytest.mark.parametrize(
    ("base_url", "url"),
    [
        ("http://h/v1", "http://h/v1/messages"),
        ("http://h/v1/", "http://h/v1/messages"),
        ("http://h/v1/messages", "http://h/v1/messages"),
        ("http://h/api/v1", "http://h/api/v1/messages"),
        ("http://h/v1?beta=true", "http://h/v1/messages?beta=true"),
    ],
)
def test_v1_is_in_the_anthropic_address_once(base_url, url):
    assert anthropic.request(Ask(Endpoint("anthropic", base_url, "m"), "", ())).url == url


def test_all_results_of_a_turn_and_the_next_prompt_go_back_in_one_user_message():
    history = (
        Message("user", "tide?"),
        CALLS,
        Message("tool", "high", tool_call_id="call_tide"),
        Message("tool", "no wind here", tool_call_id="call_wind", is_error=True),
        Message("user", "and now?"),
    )
    assert anthropic_body(messages=history, tools=(TOOL,))["messages"] == [
        {"role": "user", "content": [{"type": "text", "text": "tide?"}]},
        {
            "role": "assistant",
            "content": [
                {"type": "text", "text": "I look it up."},
                {"type": "tool_use", "id": "call_tide", "name": "tide", "input": {"port": "Brest"}},
                {"type": "tool_use", "id": "call_wind", "name": "wind", "input": {"port": "Brest", "hours": 3}},
            ],
        },
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "call_tide", "content": "high"},
                {"type": "tool_result", "tool_use_id": "call_wind", "content": "no wind here", "is_error": True},
                {"type": "text", "text": "and now?"},
            ],
        },
    ]


def test_thinking_goes_back_first_and_only_when_it_was_signed():
    reasoning = (Reasoning("unsigned"), Reasoning("hm", "sig"), Reasoning("", redacted="blob"))
    (message,) = anthropic_body(messages=(Message("assistant", "High.", reasoning=reasoning),))["messages"]
    assert message["content"] == [
        {"type": "thinking", "thinking": "hm", "signature": "sig"},
        {"type": "redacted_thinking", "data": "blob"},
        {"type": "text", "text": "High."},
    ]


def test_empty_messages_are_left_out_and_their_neighbours_become_one():
    history = (Message("user", "a"), Message("assistant", " \n", reasoning=(Reasoning("hm", "sig"),)), Message("user", "b"))
    assert anthropic_body(messages=history)["messages"] == [
        {"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}
    ]


def test_an_empty_result_has_no_content():
    history = (Message("assistant", "", (ToolCall("c1", "tide", "{}"),)), Message("tool", "", tool_call_id="c1"))
    assert anthropic_body(messages=history, tools=(TOOL,))["messages"][1]["content"] == [{"type": "tool_result", "tool_use_id": "c1"}]


def test_call_ids_that_repeat_or_are_not_plain_are_made_unique_with_their_results():
    turn = (
        Message("assistant", "", (ToolCall("call_0", "tide", "{}"), ToolCall("functions.wind:1", "wind", "{}"))),
        Message("tool", "w", tool_call_id="functions.wind:1"),
        Message("tool", "t", tool_call_id="call_0"),
    )
    messages = anthropic_body(messages=(*turn, *turn), tools=(TOOL,))["messages"]
    assert [[block.get("id") or block["tool_use_id"] for block in message["content"]] for message in messages] == [
        ["call_0", "call00000"],
        ["call00000", "call_0"],
        ["call00001", "call00002"],
        ["call00002", "call00001"],
    ]


def test_two_calls_of_one_turn_with_the_same_id_get_a_result_each():
    call = ToolCall("x", "tide", "{}")
    results = (Message("tool", "1", tool_call_id="x"), Message("tool", "2", tool_call_id="x"))
    messages = anthropic_body(messages=(Message("assistant", "", (call, call)), *results), tools=(TOOL,))["messages"]
    assert [(block["tool_use_id"], block["content"]) for block in messages[1]["content"]] == [("x", "1"), ("call00000", "2")]


# --- the answer -------------------------------------------------------------------------------


def anthropic_stream(*events):
    return list(anthropic.events(data(*events)))


def start_of(index, **block):
    return {"type": "content_block_start", "index": index, "content_block": block}


def delta_of(index, **delta):
    return {"type": "content_block_delta", "index": index, "delta": delta}


def ending(reason, **usage):
    return {"type": "message_delta", "delta": {"stop_reason": reason}, "usage": usage}


STOP = {"type": "message_stop"}


@pytest.mark.parametrize(
    ("word", "finish"),
    [
        ("end_turn", Finish("stop")),
        ("stop_sequence", Finish("stop")),
        ("tool_use", Finish("tool_calls")),
        ("max_tokens", Finish("length")),
        ("model_context_window_exceeded", Finish("length")),
        ("refusal", Finish("refused")),
        ("pause_turn", Finish("unknown", "pause_turn")),
        (None, Finish("unknown", "no stop_reason")),
    ],
)
def test_each_anthropic_stop_reason_has_its_ending(word, finish):
    assert anthropic_stream(ending(word), STOP) == [finish]


def test_done_in_place_of_message_stop_ends_a_reply():
    text = delta_of(0, type="text_delta", text="a")
    assert anthropic_stream(text, ending("end_turn"), "[DONE]") == [TextDelta("a"), Finish("stop")]
    assert anthropic_stream(text, "[DONE]") == [TextDelta("a"), NO_REASON, Finish("stop")]
    with pytest.raises(StreamCut):
        anthropic_stream(start_of(0, type="tool_use", id="a", name="tide"), "[DONE]")


def test_calls_are_told_as_text_where_there_are_no_tools():
    history = (Message("assistant", "", (ToolCall("c1", "tide", "{}"),)), Message("tool", "high", tool_call_id="c1"))
    blocks = [block for message in anthropic_body(messages=history)["messages"] for block in message["content"]]
    assert [block["type"] for block in blocks] == ["text", "text"]
    assert "high" in blocks[1]["text"]


def test_signatures_and_fields_of_another_server_are_not_sent():
    call = ToolCall("c1", "tide", "{}", extra={"caller": {"type": "direct"}})
    message = Message("assistant", "High.", (call,), reasoning=(Reasoning("hm", "sig"),), origin="anthropic http://other")
    content = anthropic_body(messages=(message,), tools=(TOOL,))["messages"][0]["content"]
    assert [block["type"] for block in content] == ["text", "tool_use"]
    assert "caller" not in content[1]
    (own, *_) = anthropic_body(messages=(replace(message, origin="anthropic http://h"),), tools=(TOOL,))["messages"]
    assert [block["type"] for block in own["content"]] == ["thinking", "text", "tool_use"]
    assert own["content"][2]["caller"] == {"type": "direct"}


def test_a_stop_reason_without_message_stop_is_not_the_end():
    with pytest.raises(StreamCut, match="message_stop"):
        anthropic_stream(delta_of(0, type="text_delta", text="a"), ending("end_turn"))


def test_nothing_is_read_after_message_stop():
    def stream():
        yield from data(ending("end_turn"), STOP)
        raise AssertionError("read on")

    assert list(anthropic.events(stream())) == [Finish("stop")]


def test_the_event_name_stands_in_for_a_missing_type():
    stream = [("content_block_delta", '{"index": 0, "delta": {"type": "text_delta", "text": "a"}}'), ("message_stop", "{}")]
    assert list(anthropic.events(stream)) == [TextDelta("a"), Finish("unknown", "no stop_reason")]


def test_pings_and_unknown_events_are_ignored():
    unknown = [
        {"type": "ping"},
        {"type": "brand_new", "x": 1},
        delta_of(0, type="citations_delta"),
        start_of(1, type="brand_new"),
        "[DONE]",
    ]
    assert anthropic_stream(*unknown, ending("end_turn"), STOP) == [Finish("stop")]


def test_an_anthropic_error_event_is_a_bad_reply():
    with pytest.raises(BadReply, match=r"^the server reports an error: overloaded_error: Overloaded$"):
        recorded("anthropic_error_event.sse")


def test_usage_of_message_delta_replaces_and_is_not_added():
    start = {"type": "message_start", "message": {"usage": {"input_tokens": 10, "output_tokens": 1}}}
    assert fold(anthropic_stream(start, ending("end_turn", input_tokens=10, output_tokens=20), STOP)).usage == Usage(10, 20, 30)


def test_cached_tokens_were_read_too():
    usage = {"input_tokens": 3, "cache_read_input_tokens": 100, "cache_creation_input_tokens": 20, "output_tokens": 7}
    assert fold(anthropic_stream({"type": "message_start", "message": {"usage": usage}}, ending("end_turn"), STOP)).usage == Usage(
        123, 7, 130, 100
    )


def test_a_later_report_of_some_counts_keeps_the_others():
    start = {"type": "message_start", "message": {"usage": {"input_tokens": 3, "cache_read_input_tokens": 100}}}
    later = ending("end_turn", input_tokens=None, cache_read_input_tokens=100, output_tokens=7)
    assert fold(anthropic_stream(start, later, STOP)).usage == Usage(103, 7, 110, 100)


def test_a_gateway_s_zero_does_not_take_back_what_is_known():
    start = {"type": "message_start", "message": {"usage": {"input_tokens": 30, "output_tokens": 0}}}
    assert fold(anthropic_stream(start, ending("end_turn", input_tokens=0, output_tokens=7), STOP)).usage == Usage(30, 7, 37)


def test_anthropic_usage_that_is_missing_is_none_and_not_zero():
    assert fold(anthropic_stream(ending("end_turn"), STOP)).usage == Usage()
    assert fold(anthropic_stream(ending("end_turn", output_tokens=4), STOP)).usage == Usage(None, 4)


def test_input_that_comes_whole_at_the_start_of_a_call_is_kept():
    events = anthropic_stream(start_of(0, type="tool_use", id="a", name="tide", input={"x": 1}), ending("tool_use"), STOP)
    assert message_of(events).tool_calls == (ToolCall("a", "tide", '{"x": 1}'),)


def test_input_that_comes_at_the_start_and_again_in_pieces_is_taken_once():
    start = start_of(0, type="tool_use", id="a", name="tide", input={"x": 1})
    events = anthropic_stream(start, delta_of(0, type="input_json_delta", partial_json='{"x": 1}'), ending("tool_use"), STOP)
    assert message_of(events).tool_calls == (ToolCall("a", "tide", '{"x": 1}'),)


def test_a_call_without_input_has_no_arguments():
    events = anthropic_stream(start_of(0, type="tool_use", id="a", name="tide", input={}), ending("end_turn"), STOP)
    assert message_of(events).tool_calls == (ToolCall("a", "tide", ""),)
    assert events[-1] == Finish("tool_calls")


def test_calls_with_the_same_block_index_are_told_apart():
    stream = []
    for id_ in ("a", "b"):
        stream += [
            start_of(0, type="tool_use", id=id_, name="tide", input={}),
            delta_of(0, type="input_json_delta", partial_json=f'{{"{id_}":1}}'),
        ]
    calls = message_of(anthropic_stream(*stream, ending("tool_use"), STOP)).tool_calls
    assert calls == (ToolCall("a", "tide", '{"a":1}'), ToolCall("b", "tide", '{"b":1}'))


def test_a_tool_that_runs_on_the_server_is_not_ours_to_answer():
    stream = [
        start_of(0, type="server_tool_use", id="s", name="web_search", input={}),
        delta_of(0, type="input_json_delta", partial_json='{"q":1}'),
    ]
    assert anthropic_stream(*stream, ending("end_turn"), STOP) == [Finish("stop")]


def test_two_thinking_blocks_stay_two():
    stream = [
        start_of(0, type="thinking", thinking="a", signature="s"),
        start_of(1, type="thinking", thinking="b"),
        delta_of(1, type="signature_delta", signature="t"),
    ]
    assert message_of(anthropic_stream(*stream, ending("end_turn"), STOP)).reasoning == (Reasoning("a", "s"), Reasoning("b", "t"))


def test_a_plain_anthropic_answer_with_thinking_is_read_in_full():
    content = [
        {"type": "thinking", "thinking": "hm", "signature": "s"},
        {"type": "redacted_thinking", "data": "blob"},
        {"type": "text", "text": "a"},
    ]
    message = message_of(anthropic.whole({"content": content, "stop_reason": "end_turn"}))
    assert message == Message("assistant", "a", reasoning=(Reasoning("hm", "s"), Reasoning("", redacted="blob")))


def test_a_plain_anthropic_answer_without_stop_reason_is_whole():
    assert list(anthropic.whole({"content": "archived"})) == [TextDelta("archived"), Finish("stop")]


def test_a_plain_anthropic_answer_that_was_cut_says_so():
    assert list(anthropic.whole({"content": [], "stop_reason": "max_tokens"})) == [Finish("length")]
