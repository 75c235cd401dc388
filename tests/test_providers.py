"""The contract both dialects keep, and what either does with anything at all.

The files under tests/data follow the providers' documented examples, with values of our own.
"""

import json
import re
from itertools import pairwise

import pytest
from dialect_events import CALLS, DATA, TEXT, TOOL, data, fold, message_of, pairs, recorded
from hypothesis import given
from hypothesis import strategies as st

from toolnexus_nb.conversation import (
    Finish,
    Message,
    Notice,
    Reasoning,
    TextDelta,
    ToolCall,
)
from toolnexus_nb.errors import BadReply, ModelError, StreamCut, ToolnexusError
from toolnexus_nb.providers import Ask, Endpoint, anthropic, openai, provider
from toolnexus_nb.providers.history import sound
from toolnexus_nb.providers.written import written_call

STYLES = ("openai", "anthropic")


# --- the contract both dialects keep ----------------------------------------------------------

CONTRACT = {
    "openai_streaming.sse": (TEXT, "stop"),
    "openai_chat_completion.json": (TEXT, "stop"),
    "anthropic_basic_streaming.sse": (TEXT, "stop"),
    "anthropic_message.json": (TEXT, "stop"),
    "openai_streaming_with_tool_calls.sse": (CALLS, "tool_calls"),
    "openai_chat_completion_with_tool_calls.json": (CALLS, "tool_calls"),
    "anthropic_streaming_with_tool_use.sse": (CALLS, "tool_calls"),
    "anthropic_message_with_tool_use.json": (CALLS, "tool_calls"),
}


@pytest.mark.parametrize("name", CONTRACT)
def test_the_same_conversation_folds_to_the_same_reply(name):
    message, reason = CONTRACT[name]
    reply = fold(recorded(name))
    assert (reply.message(), reply.finish, reply.model) == (message, Finish(reason), "m-tide")


@pytest.mark.parametrize("name", CONTRACT)
def test_the_same_counts_fold_to_the_same_usage(name):
    usage = fold(recorded(name)).usage
    assert (usage.prompt, usage.completion, usage.total, usage.cached) == (120, 30, 150, 100)


@pytest.mark.parametrize("name", CONTRACT)
def test_finish_comes_once_and_last(name):
    assert [isinstance(event, Finish) for event in recorded(name)][-1:] == [True]
    assert sum(isinstance(event, Finish) for event in recorded(name)) == 1


def test_reasoning_is_kept_apart_from_the_text():
    assert message_of(recorded("openai_streaming_with_reasoning_content.sse")) == Message(
        "assistant", TEXT.text, reasoning=(Reasoning("Two ports, one tide."),)
    )
    assert message_of(recorded("anthropic_streaming_with_extended_thinking.sse")) == Message(
        "assistant", TEXT.text, reasoning=(Reasoning("Two ports, one tide.", "c2lnbmVk"), Reasoning("", redacted="aGlkZGVu"))
    )


@pytest.mark.parametrize("name", [name for name in CONTRACT if name.endswith(".sse")])
def test_a_stream_cut_before_its_terminal_event_is_never_a_reply(name):
    style, whole = name.split("_")[0], pairs((DATA / name).read_bytes())
    # openai names its finish_reason before usage and [DONE]; anthropic's terminal event is the last one.
    terminal = len(whole) - (3 if style == "openai" else 1)
    for length in range(terminal):
        with pytest.raises(StreamCut):
            list(provider(style).events(whole[:length]))


@pytest.mark.parametrize("style", STYLES)
def test_events_are_passed_on_as_they_arrive(style):
    first = {
        "openai": {"choices": [{"delta": {"content": "Hi"}}]},
        "anthropic": {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": "Hi"}},
    }

    def stream():
        yield from data(first[style])
        raise AssertionError("the second event was asked for too early")

    assert next(provider(style).events(stream())) == TextDelta("Hi")


@pytest.mark.parametrize("style", STYLES)
def test_the_system_prompt_is_the_same_on_every_turn(style):
    ask = {"endpoint": Endpoint(style, "http://h/v1", "m"), "system": "# Soul\n\nünïcode"}
    first = provider(style).request(Ask(messages=(Message("user", "a"),), **ask)).body
    later = provider(style).request(Ask(messages=(Message("user", "a"), TEXT, Message("user", "b")), **ask)).body
    soul = {"openai": lambda body: body["messages"][0], "anthropic": lambda body: body["system"]}[style]
    assert json.dumps(soul(first)) == json.dumps(soul(later))


@pytest.mark.parametrize("style", STYLES)
def test_the_key_is_in_no_repr(style):
    request = provider(style).request(Ask(Endpoint(style, "http://h/v1", "m", "k-secret"), "", ()))
    assert "k-secret" in str(dict(request.headers))
    assert "k-secret" not in repr(request)


@pytest.mark.parametrize("style", STYLES)
def test_no_key_sends_no_header_for_one(style):
    request = provider(style).request(Ask(Endpoint(style, "http://h/v1", "m"), "", ()))
    assert not {"Authorization", "x-api-key"} & set(request.headers)


@pytest.mark.parametrize("style", STYLES)
def test_an_address_that_is_none_is_a_model_error(style):
    with pytest.raises(ModelError, match="base URL"):
        provider(style).request(Ask(Endpoint(style, "http://[::1", "m"), "", ()))


def test_an_unknown_dialect_is_a_model_error():
    with pytest.raises(ModelError, match=r"^style 'opnai': there is no such dialect: use openai or anthropic$"):
        provider("opnai")


# --- answers of the wrong kind ----------------------------------------------------------------


def test_the_other_dialect_is_named():
    with pytest.raises(BadReply, match="use --style anthropic"):
        list(openai.events(data({"type": "message_start", "message": {}})))
    with pytest.raises(BadReply, match="use --style anthropic"):
        list(openai.whole({"type": "message", "content": []}))
    with pytest.raises(BadReply, match="use --style openai"):
        list(anthropic.events(data({"choices": []})))
    with pytest.raises(BadReply, match="use --style openai"):
        list(anthropic.whole({"choices": []}))


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("error", ["busy", {"message": "busy"}, {"type": "error", "message": "busy"}, ["busy"]])
def test_an_error_in_a_plain_answer_is_a_bad_reply(style, error):
    with pytest.raises(BadReply, match=r"the server reports an error: .*busy"):
        list(provider(style).whole({"error": error}))


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize(
    "body", [None, [], "text", 7, {}, {"choices": None}, {"choices": []}, {"choices": [{}]}, {"content": None}, {"detail": "x"}]
)
def test_a_plain_answer_of_another_kind_is_a_bad_reply(style, body):
    with pytest.raises(BadReply):
        list(provider(style).whole(body))


# --- a history that is not sound --------------------------------------------------------------


UNSOUND = ["", "nonsense", "[1]", '"a"', "null", '{"a": NaN}', '{"a": 1e999}', "[" * 100_000]


@pytest.mark.parametrize("arguments", UNSOUND, ids=lambda text: text[:12] or "empty")
def test_arguments_no_server_would_parse_go_back_as_an_empty_object(arguments):
    history = (Message("assistant", "", (ToolCall("c1", "tide", arguments),)),)
    message, _answer = openai.request(Ask(Endpoint("openai", "http://h", "m"), "", history)).body["messages"]
    assert message["tool_calls"][0]["function"]["arguments"] == "{}"
    message, _answer = anthropic.request(Ask(Endpoint("anthropic", "http://h", "m"), "", history, (TOOL,))).body["messages"]
    assert message["content"][0]["input"] == {}


# --- anything at all --------------------------------------------------------------------------

KEYS = st.sampled_from(
    [
        *("type", "object", "error", "message", "model", "usage", "index", "id", "name"),
        *("choices", "delta", "finish_reason", "role", "content", "reasoning", "reasoning_content", "refusal"),
        *("tool_calls", "function", "function_call", "arguments"),
        *("prompt_tokens", "completion_tokens", "total_tokens", "prompt_tokens_details", "cached_tokens"),
        *(
            "content_block",
            "text",
            "input",
            "partial_json",
            "thinking",
            "signature",
            "data",
            "stop_reason",
            "input_tokens",
            "output_tokens",
        ),
    ]
)
WORDS = st.sampled_from(
    [
        *("message_start", "content_block_start", "content_block_delta", "content_block_stop", "message_delta", "message_stop", "ping"),
        *("error", "text", "tool_use", "thinking", "redacted_thinking"),
        *("text_delta", "input_json_delta", "thinking_delta", "signature_delta", "stop", "tool_calls", "end_turn"),
    ]
)
LEAVES = st.none() | st.booleans() | st.integers(-2, 3) | st.floats() | WORDS | st.text(max_size=5)
ANYTHING = st.recursive(LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=5), max_leaves=25)
CHUNKS = st.fixed_dictionaries(
    {}, optional={"choices": st.lists(st.dictionaries(KEYS, ANYTHING, max_size=4), max_size=2), "usage": ANYTHING}
)
EVENTS = st.fixed_dictionaries(
    {"type": WORDS}, optional={"index": ANYTHING, "content_block": ANYTHING, "delta": ANYTHING, "usage": ANYTHING, "message": ANYTHING}
)


def outcome(events):
    """Drain the events; return whether they ended well. What is no ToolnexusError goes through."""
    try:
        drained = list(events)
    except ToolnexusError as error:
        assert "\n" not in str(error)
        str(error).encode()
        return False
    message = message_of(drained)
    json.dumps([message.text, [[call.id, call.name, call.arguments_json] for call in message.tool_calls]]).encode()
    assert isinstance(drained[-1], Finish)
    return True


@pytest.mark.parametrize("style", STYLES)
@given(st.lists(ANYTHING | CHUNKS | EVENTS, max_size=6), st.sampled_from(["message", "error", "message_stop", "ping"]))
def test_whatever_a_stream_holds_it_is_a_reply_or_one_of_our_errors(style, values, name):
    outcome(provider(style).events([(name, json.dumps(value)) for value in values]))


@pytest.mark.parametrize("style", STYLES)
@given(ANYTHING | CHUNKS | st.dictionaries(KEYS, ANYTHING, max_size=6))
def test_whatever_a_plain_answer_holds_it_is_a_reply_or_one_of_our_errors(style, body):
    outcome(provider(style).whole(body))


@pytest.mark.parametrize("style", STYLES)
@given(st.text(max_size=30))
def test_data_that_is_no_json_is_a_bad_reply(style, text):
    outcome(provider(style).events([("message", text)]))


@pytest.mark.parametrize("style", STYLES)
def test_nesting_without_end_is_a_bad_reply(style):
    with pytest.raises(BadReply):
        list(provider(style).events([("message", "[" * 200_000)]))


@pytest.mark.parametrize("style", STYLES)
@given(st.lists(st.tuples(st.sampled_from(["user", "assistant", "tool"]), st.sampled_from(["", " ", "a"]), st.booleans()), max_size=8))
def test_any_history_makes_a_request(style, entries):
    call = ToolCall("call_0", "tide", "no json")
    history = tuple(
        Message(role, text, (call,) if role == "assistant" and extra else (), "call_0" if role == "tool" else "")
        for role, text, extra in entries
    )
    body = provider(style).request(Ask(Endpoint(style, "http://h", "m"), "", history)).body
    json.dumps(body)
    if style == "anthropic":
        roles = [message["role"] for message in body["messages"]]
        assert all(before != after for before, after in pairwise(roles))
        assert all(block.get("text", "a").strip() for message in body["messages"] for block in message["content"])


IDS = st.sampled_from(["call_0", "", "functions.tide:1", "call00000", "x" * 70])
ORIGINS = st.sampled_from(["", "openai http://h", "anthropic http://h", "openai http://other"])


@pytest.mark.parametrize("style", STYLES)
@given(st.lists(st.tuples(st.sampled_from(["user", "assistant", "tool"]), st.lists(IDS, max_size=3), IDS, ORIGINS), max_size=8))
def test_in_any_history_every_call_has_one_id_of_its_own_and_one_answer(style, entries):
    history = tuple(
        Message(role, "a", tuple(ToolCall(id_, "tide", "{}") for id_ in ids), answered if role == "tool" else "", origin=origin)
        if role == "assistant"
        else Message(role, "a", tool_call_id=answered if role == "tool" else "")
        for role, ids, answered, origin in entries
    )
    sent = [*sound(history, f"{style} http://h", tools=True)]
    ids = [call.id for message in sent for call in message.tool_calls]
    answers = [message.tool_call_id for message in sent if message.role == "tool"]
    assert len(set(ids)) == len(ids)
    assert sorted(answers) == sorted(ids)
    assert all(re.fullmatch("[A-Za-z0-9_-]{1,64}", id_) for id_ in ids)
    for place, message in enumerate(sent):
        count = len(message.tool_calls)
        assert [answer.role for answer in sent[place + 1 : place + 1 + count]] == ["tool"] * count


THOUGHTS = [
    ("<think>\nhm\n</think>\n\nHigh.", "hm", "High."),
    ("\n<think>a < b</think>High.", "a < b", "High."),
    ("[THINK]hm[/THINK]High.", "hm", "High."),
    ("<think></think>High.", "", "High."),
    ("The tag <think> opens.</think>", "", "The tag <think> opens.</think>"),
    ("```\n<think>x</think>\n```", "", "```\n<think>x</think>\n```"),
    ("<thinking>about</thinking>", "", "<thinking>about</thinking>"),
    ("<think>a</think>b <think>c</think>", "a", "b <think>c</think>"),
    ("<", "", "<"),
    ("  \n", "", "  \n"),
]


def in_pieces(style, pieces):
    if style == "openai":
        return data(
            *({"choices": [{"delta": {"content": piece}}]} for piece in pieces), {"choices": [{"delta": {}, "finish_reason": "stop"}]}
        )
    deltas = ({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": piece}} for piece in pieces)
    return data(*deltas, {"type": "message_delta", "delta": {"stop_reason": "end_turn"}}, {"type": "message_stop"})


@pytest.mark.parametrize("style", STYLES)
@given(st.sampled_from(THOUGHTS), st.data())
def test_reasoning_between_tags_is_told_from_the_text_wherever_the_stream_is_cut(style, thought, draw):
    whole, reasoning, text = thought
    cuts = sorted(draw.draw(st.lists(st.integers(0, len(whole)), max_size=6)))
    pieces = [whole[start:end] for start, end in pairwise([0, *cuts, len(whole)])]
    message = message_of(provider(style).events(in_pieces(style, pieces)))
    assert (message.text, "".join(block.text for block in message.reasoning)) == (text, reasoning)
    body = provider(style).request(Ask(Endpoint(style, "http://h", "m"), "", (message,))).body
    assert not reasoning or f"{reasoning}<" not in json.dumps(body)


@pytest.mark.parametrize("style", STYLES)
def test_reasoning_that_is_never_closed_is_no_answer(style):
    events = [*provider(style).events(in_pieces(style, ["<think>round and ", "round"]))]
    message = message_of(events)
    assert (message.text, message.reasoning[0].text) == ("", "round and round")
    assert [event.text for event in events if isinstance(event, Notice)] == [
        "the reply ended inside its reasoning, which was never closed: it holds no answer"
    ]


@pytest.mark.parametrize("style", STYLES)
def test_what_was_held_back_of_a_broken_stream_is_kept(style):
    events = provider(style).events(in_pieces(style, ["<thi"])[:1])
    arrived = []
    with pytest.raises(StreamCut):
        arrived.extend(iter(events))
    assert arrived == [TextDelta("<thi")]


@pytest.mark.parametrize("style", STYLES)
def test_an_error_in_a_list_is_read(style):
    with pytest.raises(BadReply, match="reports an error: quota"):
        list(provider(style).whole([{"error": {"message": "quota"}}]))


@pytest.mark.parametrize(
    "text",
    [
        '{"name": "memory", "arguments": {}}',
        '<tool_call>\n{"name": "memory", "arguments": {}}\n</tool_call>',
        '[TOOL_CALLS][{"name": "memory", "arguments": {}}]',
        '<|python_tag|>{"name": "memory", "parameters": {}}',
        "<function=memory>{}</function>",
        'I note it.\n```json\n{"tool": "memory", "args": {}}\n```',
        'memory_not? [memory(action="add")]'[12:],
    ],
)
def test_a_call_that_is_written_as_text_is_recognised(text):
    assert written_call(text, ["memory"]) == "memory"


@pytest.mark.parametrize(
    "text", ["I use memory(action) for that.", '{"name": "memory"}', '```json\n{"name": "port", "args": {}}\n```', "", "{" * 50_000]
)
def test_prose_and_other_json_is_no_call(text):
    assert written_call(text, ["memory"]) == ""


@pytest.mark.parametrize("style", STYLES)
@given(st.text(alphabet=st.sampled_from("aé🜁🌊"), max_size=12), st.data())
def test_text_cut_at_any_utf_16_unit_arrives_whole(style, text, draw):
    units = text.encode("utf-16-le")
    cut = 2 * draw.draw(st.integers(0, len(units) // 2))
    halves = [units[:cut].decode("utf-16-le", "surrogatepass"), units[cut:].decode("utf-16-le", "surrogatepass")]
    if style == "openai":
        stream = [{"choices": [{"delta": {"content": half}}], "usage": {"prompt_tokens": 1}} for half in halves]
        stream.append({"choices": [{"delta": {}, "finish_reason": "stop"}]})
    else:
        deltas = [{"type": "text_delta", "text": half} for half in halves]
        stream = [{"type": "content_block_delta", "index": 0, "delta": delta} for delta in deltas] + [{"type": "message_stop"}]
    assert message_of(provider(style).events(data(*stream))).text == text
