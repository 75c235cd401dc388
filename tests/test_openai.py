"""The chat-completions dialect: its requests, and what the many servers that speak it really send."""

from dataclasses import replace

import pytest
from dialect_events import TOOL, data, fold, message_of

from toolnexus_nb.conversation import (
    Finish,
    Message,
    ModelNamed,
    Reasoning,
    ReasoningDelta,
    TextDelta,
    ToolCall,
    ToolCallDelta,
    Usage,
    UsageReport,
)
from toolnexus_nb.errors import BadReply, StreamCut
from toolnexus_nb.providers import Ask, Endpoint, openai
from toolnexus_nb.providers.ends import NO_REASON

# --- the request ------------------------------------------------------------------------------


def openai_body(**changes):
    base = {"endpoint": Endpoint("openai", "http://h/v1", "m", "k"), "system": "soul", "messages": (Message("user", "hi"),)}
    return openai.request(Ask(**{**base, **changes})).body


def test_an_openai_request_in_full():
    ask = Ask(Endpoint("openai", "http://h/v1/", "m", "k"), "soul", (Message("user", "hi"),), (TOOL,), {"temperature": 0, "seed": 7})
    request = openai.request(ask)
    assert request.url == "http://h/v1/chat/completions"
    assert request.headers == {"Authorization": "Bearer k"}
    assert request.body == {
        "model": "m",
        "messages": [{"role": "system", "content": "soul"}, {"role": "user", "content": "hi"}],
        "stream": True,
        "stream_options": {"include_usage": True},
        "tools": [{"type": "function", "function": {"name": "tide", "description": "says the tide", "parameters": TOOL.parameters}}],
        "temperature": 0,
        "seed": 7,
    }


def test_an_openai_request_leaves_out_what_there_is_none_of():
    body = openai_body(system="", include_usage=False)
    assert body == {"model": "m", "messages": [{"role": "user", "content": "hi"}], "stream": True}


def test_the_soul_can_be_sent_as_the_first_user_message():
    assert openai_body(role="user")["messages"] == [{"role": "user", "content": "soul\n\nhi"}]


def test_parameters_have_the_last_word():
    body = openai_body(params={"stream": False, "model": "other"})
    assert (body["stream"], body["model"]) == (False, "other")


def test_a_server_with_one_model_is_sent_no_name():
    assert "model" not in openai_body(endpoint=Endpoint("openai", "http://h/v1", ""))


@pytest.mark.parametrize(
    ("base_url", "url"),
    [
        ("http://h", "http://h/chat/completions"),
        ("http://h/v1/chat/completions", "http://h/v1/chat/completions"),
        ("http://h/openai?api-version=1", "http://h/openai/chat/completions?api-version=1"),
    ],
)
def test_the_openai_path_is_added_once(base_url, url):
    assert openai.request(Ask(Endpoint("openai", base_url, "m"), "", ())).url == url


def test_tool_calls_and_results_go_back_to_an_openai_server():
    call = ToolCall("c1", "tide", '{ "port":"Brest" }')
    history = (
        Message("assistant", "", (call,)),
        Message("tool", "high", tool_call_id="c1"),
        Message("assistant", "High.", reasoning=(Reasoning("x"),)),
    )
    assert openai_body(system="", messages=history)["messages"] == [
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "tide", "arguments": '{ "port":"Brest" }'}}],
        },
        {"role": "tool", "tool_call_id": "c1", "content": "high"},
        {"role": "assistant", "content": "High."},
    ]


def test_a_tool_name_the_model_made_up_goes_back_in_a_form_servers_accept():
    history = (Message("assistant", "", (ToolCall("c1", "functions.tide: now", "{}"), ToolCall("c2", "", "{}"))),)
    names = [call["function"]["name"] for call in openai_body(system="", messages=history)["messages"][0]["tool_calls"]]
    assert names == ["functions_tide__now", "unnamed"]


# --- tool calls as servers send them ----------------------------------------------------------


def piece(id_=None, name=None, arguments=None, **more):
    function = {key: value for key, value in (("name", name), ("arguments", arguments)) if value is not None}
    return {**({"id": id_} if id_ is not None else {}), "function": function, **more}


def calls_of(*deltas, finish="tool_calls"):
    """Return (id, name, arguments) of each call in a stream with these tool_calls deltas."""
    chunks = [{"choices": [{"index": 0, "delta": {"tool_calls": delta}}]} for delta in deltas]
    reply = fold(openai.events(data(*chunks, {"choices": [{"index": 0, "delta": {}, "finish_reason": finish}]})))
    assert reply.finish == Finish("tool_calls")
    return [(call.id, call.name, call.arguments_json) for call in reply.message().tool_calls]


TWO = [("a", "tide", '{"x":1}'), ("b", "wind", '{"y":2}')]


def test_calls_without_an_index_are_told_apart():
    assert calls_of([piece("a", "tide", '{"x"')], [piece(arguments=":1}")], [piece("b", "wind", "")], [piece(arguments='{"y":2}')]) == TWO


def test_calls_that_come_whole_in_one_list_without_an_index_are_told_apart():
    assert calls_of([piece("a", "tide", '{"x":1}'), piece("b", "wind", '{"y":2}')]) == TWO


def test_calls_with_equal_indices_are_told_apart_by_their_ids():
    assert calls_of([piece("a", "tide", '{"x":1}', index=0)], [piece("b", "wind", '{"y":2}', index=0)]) == TWO


def test_pieces_of_calls_with_equal_indices_may_alternate_when_each_has_its_id():
    deltas = [("a", "tide", '{"x"'), ("b", "wind", '{"y"'), ("a", None, ":1}"), ("b", None, ":2}")]
    assert calls_of(*([piece(*delta, index=0)] for delta in deltas)) == TWO


def test_pieces_of_calls_with_indices_may_alternate():
    first = [piece("a", "tide", "", index=0), piece("b", "wind", "", index=1)]
    assert calls_of(first, [piece(arguments='{"y":2}', index=1)], [piece(arguments='{"x":1}', index=0)]) == TWO


def test_calls_with_one_id_for_all_are_told_apart_by_their_index():
    deltas = [piece("same", "tide", '{"x":1}', index=0), piece("same", "wind", '{"y":2}', index=1)]
    assert calls_of(deltas) == [("same", "tide", '{"x":1}'), ("same", "wind", '{"y":2}')]


def test_calls_without_index_and_id_are_told_apart_by_their_names():
    expected = [("call_0", "tide", '{"x":1}'), ("call_1", "wind", '{"y":2}')]
    assert calls_of([piece(name="tide", arguments='{"x":1}')], [piece(name="wind", arguments='{"y":2}')]) == expected


def test_the_same_tool_called_twice_without_index_and_id_is_two_calls():
    expected = [("call_0", "tide", '{"x":1}'), ("call_1", "tide", '{"x":2}')]
    assert calls_of([piece(name="tide", arguments='{"x":1}')], [piece(name="tide", arguments='{"x":2}')]) == expected


def test_a_fresh_id_with_every_piece_is_still_one_call():
    assert calls_of([piece("a", "tide", "", index=0)], [piece("r1", None, '{"x"', index=0)], [piece("r2", None, ":1}", index=0)]) == TWO[:1]


def test_a_name_repeated_with_every_piece_is_still_one_call():
    assert calls_of([piece("a", "tide", '{"x"', index=0)], [piece(None, "tide", ":1}", index=0)]) == TWO[:1]
    assert calls_of([piece("a", "tide", '{"x"', index=0)], [piece("a", "tide", ":1}", index=0)]) == TWO[:1]


def test_empty_strings_for_id_and_name_change_nothing():
    assert calls_of([piece("a", "tide", "", index=0)], [piece("", "", '{"x":1}', index=0)], [piece("", "", "", index=0)]) == TWO[:1]


def test_arguments_in_ten_pieces_are_joined():
    text = '{"x":"0123456789"}'
    assert calls_of([piece("a", "tide", "", index=0)], *([piece(arguments=part, index=0)] for part in text)) == [("a", "tide", text)]


def test_arguments_sent_as_an_object_become_its_json():
    assert calls_of([piece("a", "tide", {"port": "Ünal"})]) == [("a", "tide", '{"port": "Ünal"}')]


def test_arguments_sent_as_a_list_are_kept_for_the_tool_to_refuse():
    (call,) = calls_of([piece("a", "tide", [1])])
    assert ToolCall(*call).problem == "the arguments must be a JSON object, not list"


def test_a_number_as_id_is_kept_as_text():
    assert calls_of([piece(7, "tide", "{}")]) == [("7", "tide", "{}")]


def test_a_call_without_its_envelope_is_read():
    assert calls_of([{"id": "a", "name": "tide", "arguments": '{"x":1}'}]) == TWO[:1]


def test_the_old_function_call_is_read():
    deltas = [{"function_call": {"name": "tide", "arguments": ""}}, {"function_call": {"arguments": '{"x":1}'}}]
    chunks = [{"choices": [{"delta": delta}]} for delta in deltas]
    reply = fold(openai.events(data(*chunks, {"choices": [{"delta": {}, "finish_reason": "function_call"}]})))
    assert reply.message().tool_calls == (ToolCall("call_0", "tide", '{"x":1}'),)
    assert reply.finish == Finish("tool_calls")


def test_a_stop_with_calls_asks_for_them_to_be_run():
    assert calls_of([piece("a", "tide", '{"x":1}')], finish="stop") == TWO[:1]


def test_an_empty_entry_is_no_call():
    reply = fold(openai.events(data({"choices": [{"delta": {"tool_calls": [{}, None, {"function": {}}]}, "finish_reason": "stop"}]})))
    assert (reply.message().tool_calls, reply.finish) == ((), Finish("stop"))


# --- endings, usage, text ---------------------------------------------------------------------


def openai_stream(*chunks):
    return list(openai.events(data(*chunks)))


def said(content, finish=None, **more):
    return {"choices": [{"index": 0, "delta": {"content": content}, "finish_reason": finish}], **more}


@pytest.mark.parametrize(
    ("word", "finish"),
    [
        ("stop", Finish("stop")),
        ("STOP", Finish("stop")),
        ("eos_token", Finish("stop")),
        ("tool_calls", Finish("tool_calls")),
        ("length", Finish("length")),
        ("content_filter", Finish("refused")),
        ("insufficient_system_resource", Finish("unknown", "insufficient_system_resource")),
        *((word, Finish("stop")) for word in ("eos", "COMPLETE", "end")),
        ("max_output_tokens", Finish("length")),
        ("SAFETY", Finish("refused")),
    ],
)
def test_each_openai_finish_reason_has_its_ending(word, finish):
    assert openai_stream(said("a", word))[-1] == finish


@pytest.mark.parametrize("word", ["error", "ERROR", "failed"])
def test_a_finish_reason_that_means_a_failure_is_one(word):
    with pytest.raises(BadReply, match="broke the reply off"):
        openai_stream(said("a", word))


@pytest.mark.parametrize("word", ["", " ", None, 0, False, {}, ["stop"]])
def test_an_empty_finish_reason_is_no_finish(word):
    with pytest.raises(StreamCut, match="not the whole reply"):
        openai_stream(said("a", word))
    assert openai_stream(said("a", word), "[DONE]") == [TextDelta("a"), NO_REASON, Finish("stop")]


def test_a_closed_stream_that_said_nothing_is_cut():
    with pytest.raises(StreamCut):
        openai_stream(said(""), "[DONE]")


def test_whole_calls_without_a_finish_reason_are_run_and_half_ones_are_cut():
    chunk = {"choices": [{"delta": {"tool_calls": [piece("a", "tide", '{"x":1}')]}}]}
    half = {"choices": [{"delta": {"content": "see", "tool_calls": [piece("a", "tide", '{"x":')]}}]}
    assert openai_stream(chunk, "[DONE]")[-2:] == [NO_REASON, Finish("tool_calls")]
    with pytest.raises(StreamCut):
        openai_stream(half, "[DONE]")


def test_fields_that_only_the_server_knows_go_back_to_it_with_a_call():
    call = piece("a", "tide", "{}", extra_content={"google": {"thought_signature": "c2ln"}})
    chunks = [{"choices": [{"delta": {"reasoning_content": part}}]} for part in ("Two ", "ports.")]
    chunks.append({"choices": [{"delta": {"tool_calls": [call]}, "finish_reason": "tool_calls"}]})
    there = Endpoint("openai", "http://h/v1", "m")
    message = replace(message_of(openai_stream(*chunks)), origin=there.origin)
    history = (message, Message("tool", "high", tool_call_id="a"))
    sent = openai_body(system="", messages=history)["messages"][0]
    assert (sent["reasoning_content"], sent["tool_calls"][0]["extra_content"]) == ("Two ports.", call["extra_content"])
    elsewhere = openai_body(system="", messages=history, endpoint=Endpoint("openai", "http://other/v1", "m"))["messages"][0]
    assert set(elsewhere) == {"role", "content", "tool_calls"}
    assert set(elsewhere["tool_calls"][0]) == {"id", "type", "function"}


def test_details_of_reasoning_that_come_in_pieces_go_back_as_one():
    entries = [
        {"type": "reasoning.text", "index": 0, "text": "Two "},
        {"type": "reasoning.text", "index": 0, "text": "ports.", "signature": "s"},
    ]
    chunks = [{"choices": [{"delta": {"reasoning_details": [entry]}}]} for entry in entries]
    message = message_of(openai_stream(*chunks, said("High.", "stop")))
    assert message.extra == {"reasoning_details": [{"type": "reasoning.text", "index": 0, "text": "Two ports.", "signature": "s"}]}


def test_a_user_never_speaks_right_behind_a_result():
    history = (
        Message("assistant", "", (ToolCall("c1", "tide", "{}"),)),
        Message("tool", "high", tool_call_id="c1"),
        Message("user", "go on"),
    )
    assert [message["role"] for message in openai_body(system="", messages=history)["messages"]] == [
        "assistant",
        "tool",
        "assistant",
        "user",
    ]


def test_calls_are_told_as_text_to_a_model_that_takes_no_tools():
    history = (
        Message("assistant", "", (ToolCall("c1", "tide", "{}"),)),
        Message("tool", "high", tool_call_id="c1"),
        Message("user", "go on"),
    )
    body = openai_body(system="", messages=history, tools=(TOOL,), takes_tools=False)
    assert "tools" not in body
    assert [(message["role"], "high" in message["content"]) for message in body["messages"]] == [("assistant", False), ("user", True)]


def test_a_stream_without_a_single_chunk_is_cut():
    with pytest.raises(StreamCut):
        openai_stream()


def test_done_is_not_asked_for_after_a_finish_reason():
    assert openai_stream(said("a", "stop")) == [TextDelta("a"), Finish("stop")]


def test_text_after_the_finish_reason_is_kept():
    assert openai_stream(said("a", "stop"), said("b", "stop"), "[DONE]") == [TextDelta("a"), TextDelta("b"), Finish("stop")]


def test_a_cut_reply_is_not_made_whole_by_a_later_stop():
    assert openai_stream(said("a", "length"), said("", "stop"), "[DONE]")[-1] == Finish("length")


def test_usage_after_the_finish_reason_is_read():
    events = openai_stream(said("a", "stop"), {"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 1}}, "[DONE]")
    assert events == [TextDelta("a"), UsageReport(Usage(3, 1, 4)), Finish("stop")]


def test_the_last_of_many_cumulative_usages_counts():
    usages = [{"prompt_tokens": 9, "completion_tokens": count, "total_tokens": 9 + count} for count in (1, 2, 2, 3)]
    events = openai_stream(*(said("a", usage=usage) for usage in usages), said("", "stop"))
    assert fold(events).usage == Usage(9, 3, 12)
    assert sum(isinstance(event, UsageReport) for event in events) == 3


def test_usage_that_is_missing_is_none_and_not_zero():
    assert fold(openai_stream(said("a", "stop", usage=None))).usage == Usage()
    assert fold(openai_stream(said("a", "stop", usage={"prompt_tokens": 3}))).usage == Usage(3)
    assert fold(openai_stream(said("a", "stop", usage={"prompt_tokens": "3", "completion_tokens": True}))).usage == Usage()


def test_cached_and_reasoning_tokens_are_read():
    usage = {
        "prompt_tokens": 10,
        "completion_tokens": 8.0,
        "total_tokens": 20,
        "prompt_tokens_details": {"cached_tokens": 4},
        "completion_tokens_details": {"reasoning_tokens": 5},
    }
    assert fold(openai_stream(said("a", "stop", usage=usage))).usage == Usage(10, 8, 20, 4, 5)


def test_only_the_first_of_several_choices_is_read():
    both = {"choices": [{"index": 1, "delta": {"content": "no"}}, {"index": 0, "delta": {"content": "yes"}, "finish_reason": "stop"}]}
    other = {"choices": [{"index": 1, "delta": {"content": "no"}, "finish_reason": "length"}]}
    assert openai_stream(both, other, "[DONE]") == [TextDelta("yes"), Finish("stop")]


@pytest.mark.parametrize(
    "chunk",
    [
        {},
        {"choices": None},
        {"choices": []},
        {"choices": [None]},
        {"choices": [{"delta": None}]},
        {"choices": "x", "prompt_filter_results": []},
    ],
)
def test_chunks_that_say_nothing_are_survived(chunk):
    assert openai_stream(chunk, said(None), said("a", "stop"), "[DONE]") == [TextDelta("a"), Finish("stop")]


def test_a_blank_event_is_survived():
    assert openai_stream("  ", said("a", "stop")) == [TextDelta("a"), Finish("stop")]


def test_content_in_parts_is_joined():
    parts = [{"type": "text", "text": "a"}, "b", {"type": "image"}, 7, {"type": "text", "text": "c"}]
    assert openai_stream(said(parts, "stop")) == [TextDelta("abc"), Finish("stop")]


def test_thinking_among_the_parts_is_reasoning():
    parts = [{"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}, {"type": "text", "text": "a"}]
    assert openai_stream(said(parts, "stop")) == [ReasoningDelta("hm"), TextDelta("a"), Finish("stop")]


@pytest.mark.parametrize("delta", [{"reasoning": "hm"}, {"reasoning_content": "hm"}, {"reasoning": "hm", "reasoning_content": "hm"}])
def test_reasoning_is_read_once_under_either_name(delta):
    assert openai_stream({"choices": [{"delta": delta, "finish_reason": "stop"}]}) == [ReasoningDelta("hm"), Finish("stop")]


def test_a_refusal_is_shown_and_is_no_success():
    chunks = [{"choices": [{"delta": {"refusal": part}}]} for part in ("I can", "not.")]
    assert openai_stream(*chunks, said("", "stop")) == [TextDelta("I can"), TextDelta("not."), Finish("refused")]


def test_a_lone_surrogate_becomes_the_replacement_character():
    assert message_of(openai_stream(r'{"choices":[{"delta":{"content":"a\ud83d"}}]}', said("b", "stop"))).text == "a\ufffdb"
    assert message_of(openai_stream(r'{"choices":[{"delta":{"content":"\ude00a\ud83d"},"finish_reason":"stop"}]}')).text == "\ufffda\ufffd"


def test_a_lone_surrogate_in_a_call_or_a_name_becomes_the_replacement_character():
    chunk = r'{"model":"m\ud83d","choices":[{"delta":{"tool_calls":[{"id":"\ud83d","function":{"name":"t\udead","arguments":"\ud83d"}}]}}]}'
    events = openai_stream(chunk, said("", "stop"))
    assert events[0] == ModelNamed("m\ufffd")
    assert message_of(events).tool_calls == (ToolCall("\ufffd", "t\ufffd", "\ufffd"),)


# --- errors -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("event", "words"),
    [
        (("message", {"error": {"message": "Out of\n memory", "type": "server_error", "code": 500}}), "server_error: Out of memory"),
        (("message", {"error": "busy"}), "busy"),
        (("message", {"object": "error", "message": "too long", "code": 400}), "too long"),
        (("message", {"choices": [{"finish_reason": "error"}], "error": {"code": 502}}), '{"code": 502}'),
        (("error", {"message": "gone"}), "gone"),
        (("error", "plain words"), "plain words"),
    ],
)
def test_an_error_inside_a_stream_is_a_bad_reply_in_one_line(event, words):
    name, value = event
    with pytest.raises(BadReply) as caught:
        list(openai.events([*data(said("a")), *data(value, name=name)]))
    assert str(caught.value) == f"the server reports an error: {words}"


def test_an_error_that_is_null_is_none():
    assert openai_stream(said("a", "stop", error=None)) == [TextDelta("a"), Finish("stop")]


def test_a_very_long_error_is_cut():
    with pytest.raises(BadReply) as caught:
        openai_stream({"error": {"message": "x" * 10_000}})
    assert len(str(caught.value)) < 350


@pytest.mark.parametrize("text", ["<html>", "{'a': 1}", "[]", "null", '"a"', "7"])
def test_data_of_another_kind_is_a_bad_reply(text):
    with pytest.raises(BadReply, match="check the base URL"):
        openai_stream(text)


# --- a plain JSON answer ----------------------------------------------------------------------


def test_a_plain_answer_without_finish_reason_is_whole():
    body = {
        "choices": [{"message": {"role": "assistant", "content": "archived"}}],
        "usage": {"prompt_tokens": 3, "completion_tokens": 1, "total_tokens": 4},
    }
    assert list(openai.whole(body)) == [UsageReport(Usage(3, 1, 4)), TextDelta("archived"), Finish("stop")]


def test_a_plain_answer_that_was_cut_says_so():
    assert list(openai.whole({"choices": [{"message": {"content": "a"}, "finish_reason": "length"}]})) == [TextDelta("a"), Finish("length")]


def test_a_plain_answer_with_calls_and_no_finish_reason_asks_for_them_to_be_run():
    message = {"content": None, "tool_calls": [{"id": "a", "function": {"name": "tide", "arguments": {}}}]}
    assert list(openai.whole({"choices": [{"message": message}]})) == [ToolCallDelta(0, "a", "tide", "{}"), Finish("tool_calls")]
