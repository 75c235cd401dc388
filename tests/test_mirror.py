"""The mirror, used by itself through httpx, in both dialects, streamed and whole."""

import hashlib
import json
import time

import httpx
import httpx_sse
import pytest

from toolnexus_nb.embedded import Embedded, open_embedded
from toolnexus_nb.embedded.mirror import MirrorTransport
from toolnexus_nb.errors import ModelError

SOUL = "## AGENTS.md\n\n# Rules\n\nOne line.\n\n## SOUL.md\n\nYou are Zoë.\n\n## MEMORY.md\n\n"
PATHS = {"openai": "/v1/chat/completions", "anthropic": "/v1/messages"}
BOTH = pytest.mark.parametrize("dialect", PATHS)


def post(dialect, body, **options):
    with httpx.Client(transport=MirrorTransport(), base_url="http://mirror.invalid", **options) as client:
        return client.post(PATHS[dialect], json=body)


def ask(dialect, text, *, system="", stream=False, tools=(), history=()):
    """Return the HTTP answer to one user text."""
    messages = [*history, {"role": "user", "content": text}]
    body = {"model": "mirror", "stream": stream, "messages": messages}
    if dialect == "anthropic":
        body |= {"max_tokens": 100, "tools": [{"name": name, "input_schema": {}} for name in tools]}
        body |= {"system": system} if system else {}
    else:
        body |= {"tools": [{"type": "function", "function": {"name": name}} for name in tools]}
        body["messages"] = [*([{"role": "system", "content": system}] if system else []), *messages]
    return post(dialect, body)


def reply(dialect, text, **what):
    """Return the text of a whole answer."""
    body = ask(dialect, text, **what).json()
    if dialect == "anthropic":
        return "".join(block["text"] for block in body["content"] if block["type"] == "text")
    return body["choices"][0]["message"]["content"]


def events(answer):
    """Return the JSON of each event of a stream."""
    return [event.json() for event in httpx_sse.EventSource(answer).iter_sse() if event.data != "[DONE]"]


def deltas(answer):
    return [choice["delta"] for event in events(answer) for choice in event.get("choices", ())]


def test_it_reports_sections_sizes_digest_messages_tools_and_the_last_text():
    digest = hashlib.sha256(SOUL.encode()).hexdigest()[:12]
    assert (
        reply("openai", "Hello *there*", system=SOUL, tools=["memory", "clock"])
        == f"""This is the mirror. I am **no language model**: I only report what I was sent.

System prompt: 74 characters, 75 bytes, sha256 `{digest}`.

The section headings I see in it, in order:

1. `AGENTS.md`: 18 characters, 18 bytes
2. `SOUL.md`: 12 characters, 13 bytes
3. `MEMORY.md`: 0 characters, 0 bytes

Messages: 1 (1 user). Tools offered: `memory`, `clock`.

Your last message:

> ```
> Hello *there*
> ```"""
    )


def test_both_dialects_report_the_same():
    assert reply("openai", "Hi", system=SOUL, tools=["memory"]) == reply("anthropic", "Hi", system=SOUL, tools=["memory"])


@BOTH
def test_without_a_soul_it_says_so(dialect):
    assert "No system prompt." in reply(dialect, "Hi")


def test_a_prompt_without_headings_is_reported_as_such():
    assert "I see none of the seven section headings in it." in reply("openai", "Hi", system="You are Kip.")


def test_a_soul_sent_as_the_first_user_message_is_recognised():
    first = [{"role": "user", "content": SOUL}]
    assert "No system prompt. The first message looks like one: 74 characters" in reply("openai", "Hi", history=first)


@BOTH
def test_the_last_text_cannot_leave_its_quoted_block(dialect):
    text = "```\n<script>\r# Title\r\n````"
    assert reply(dialect, text).endswith("> `````\n> ```\n> <script>\n> # Title\n> ````\n> `````")


def test_a_very_long_text_is_quoted_in_part():
    assert reply("openai", "x" * 4100).endswith("\n> [100 characters more]\n> ```")


@BOTH
def test_usage_is_characters_by_four_rounded_up(dialect):
    usage = ask(dialect, "Hello", system="Be kind.").json()["usage"]
    written = -(-len(reply(dialect, "Hello", system="Be kind.")) // 4)
    assert list(usage.values())[:2] == [4, written]


def test_an_openai_stream_comes_in_small_pieces_that_make_the_whole():
    pieces = [delta.get("content", "") for delta in deltas(ask("openai", "Hi", system=SOUL, stream=True))]
    assert "".join(pieces) == reply("openai", "Hi", system=SOUL)
    assert max(map(len, pieces)) <= 24


def test_an_anthropic_stream_comes_in_small_pieces_that_make_the_whole():
    found = events(ask("anthropic", "Hi", system=SOUL, stream=True))
    pieces = [event["delta"]["text"] for event in found if event["type"] == "content_block_delta"]
    assert "".join(pieces) == reply("anthropic", "Hi", system=SOUL)
    assert max(map(len, pieces)) <= 24


def test_an_anthropic_stream_has_its_events_in_order():
    kinds = [event["type"] for event in events(ask("anthropic", "Hi", stream=True))]
    assert list(dict.fromkeys(kinds)) == [
        "message_start",
        "ping",
        "content_block_start",
        "content_block_delta",
        "content_block_stop",
        "message_delta",
        "message_stop",
    ]


def test_an_openai_stream_reports_usage_only_when_asked():
    body = {"stream": True, "messages": [{"role": "user", "content": "Hi"}]}
    with_usage = events(post("openai", body | {"stream_options": {"include_usage": True}}))
    assert [event["usage"]["prompt_tokens"] for event in with_usage if "usage" in event] == [1]
    assert not [event for event in events(post("openai", body)) if "usage" in event]


def test_answers_are_the_same_each_time():
    assert ask("openai", "Hi", stream=True).content == ask("openai", "Hi", stream=True).content


@BOTH
def test_content_may_be_a_list_of_blocks(dialect):
    history = [{"role": "user", "content": [{"type": "text", "text": "one"}]}]
    assert "Messages: 2 (2 user)." in reply(dialect, [{"type": "text", "text": "two"}], history=history)


# --- tools -----------------------------------------------------------------------------------


def test_calls_are_streamed_in_pieces_in_the_openai_dialect():
    answer = ask("openai", '/call memory {"action": "add", "text": "likes tea"}\n/call clock', stream=True)
    calls = [call for delta in deltas(answer) for call in delta.get("tool_calls", ())]
    arguments = {n: "".join(c["function"]["arguments"] for c in calls if c["index"] == n) for n in (0, 1)}
    assert [(c["index"], c["id"], c["function"]["name"]) for c in calls if "id" in c] == [
        (0, "call_mirror_1_1", "memory"),
        (1, "call_mirror_1_2", "clock"),
    ]
    assert arguments == {0: '{"action": "add", "text": "likes tea"}', 1: "{}"}
    assert events(answer)[-1]["choices"][0]["finish_reason"] == "tool_calls"


def test_calls_are_streamed_in_pieces_in_the_anthropic_dialect():
    found = events(ask("anthropic", '/call memory {"action": "add", "text": "likes tea"}\n/call clock', stream=True))
    starts = [event["content_block"] for event in found if event["type"] == "content_block_start"]
    pieces = [event["delta"]["partial_json"] for event in found if event["type"] == "content_block_delta" and event["index"] == 0]
    assert starts == [
        {"type": "tool_use", "id": "call_mirror_1_1", "name": "memory", "input": {}},
        {"type": "tool_use", "id": "call_mirror_1_2", "name": "clock", "input": {}},
    ]
    assert len(pieces) > 1
    assert json.loads("".join(pieces)) == {"action": "add", "text": "likes tea"}
    assert found[-2]["delta"]["stop_reason"] == "tool_use"


@pytest.mark.parametrize(
    ("line", "arguments"),
    [
        ("/memory add likes tea", {"action": "add", "text": "likes tea"}),
        ("/memory remove likes tea", {"action": "remove", "text": "likes tea"}),
        ("/memory user add is called Tove", {"action": "add", "text": "is called Tove", "target": "user"}),
        ("/memory replace tea => coffee", {"action": "replace", "text": "tea", "with": "coffee"}),
    ],
)
def test_memory_lines_are_calls_of_the_memory_tool(line, arguments):
    [call] = ask("openai", line).json()["choices"][0]["message"]["tool_calls"]
    assert (call["function"]["name"], json.loads(call["function"]["arguments"])) == ("memory", arguments)


def openai_history(text, *answers):
    calls = [{"id": f"c{n}", "type": "function", "function": {"name": f"tool{n}", "arguments": "{}"}} for n, _ in enumerate(answers)]
    tools = [{"role": "tool", "tool_call_id": f"c{n}", "content": answer} for n, answer in enumerate(answers)]
    return {"messages": [{"role": "user", "content": text}, {"role": "assistant", "content": None, "tool_calls": calls}, *tools]}


def anthropic_history(text, *answers):
    calls = [{"type": "tool_use", "id": f"c{n}", "name": f"tool{n}", "input": {}} for n, _ in enumerate(answers)]
    results = [{"type": "tool_result", "tool_use_id": f"c{n}", "content": answer} for n, answer in enumerate(answers)]
    return {"messages": [{"role": "user", "content": text}, {"role": "assistant", "content": calls}, {"role": "user", "content": results}]}


HISTORIES = {"openai": openai_history, "anthropic": anthropic_history}


@BOTH
def test_after_the_tools_it_repeats_what_they_answered(dialect):
    body = post(dialect, HISTORIES[dialect]("/call tool0\n/call tool1", "ok", "no such file")).json()
    text = body["content"][0]["text"] if dialect == "anthropic" else body["choices"][0]["message"]["content"]
    assert text == (
        "This is the mirror, no language model.\n\n"
        "The tool `tool0` answered:\n\n> ```\n> ok\n> ```\n\nThe tool `tool1` answered:\n\n> ```\n> no such file\n> ```"
    )


@BOTH
def test_a_loop_calls_again_after_every_answer(dialect):
    body = post(dialect, HISTORIES[dialect]("/loop tool0", "ok")).json()
    call = body["content"][0] if dialect == "anthropic" else body["choices"][0]["message"]["tool_calls"][0]
    assert call["id"] == "call_mirror_2_1"


# --- endings ---------------------------------------------------------------------------------


@BOTH
def test_fail_answers_with_that_status(dialect):
    answer = ask(dialect, "/fail 503 out of lamp oil")
    assert (answer.status_code, answer.json()["error"]["message"]) == (503, "out of lamp oil")


@BOTH
def test_a_directive_it_cannot_follow_is_a_bad_request_that_says_why(dialect):
    answer = ask(dialect, "/fail lamp")
    assert answer.status_code == 400
    assert answer.json()["error"]["message"].endswith("/fail lamp is no error status: write /fail 500 MESSAGE")


@BOTH
def test_cut_ends_without_the_terminal_event(dialect):
    whole, cut = events(ask(dialect, "/cat", stream=True)), events(ask(dialect, "/cut", stream=True))
    assert 2 < len(cut) < len(whole)
    assert "message_stop" not in [event.get("type") for event in cut]
    assert not any(choice["finish_reason"] for event in cut for choice in event.get("choices", ()))


def test_cut_leaves_half_a_whole_answer():
    with pytest.raises(json.JSONDecodeError):
        ask("openai", "/cut").json()


@BOTH
@pytest.mark.parametrize("stream", [True, False])
def test_error_is_reported_inside_a_good_answer(dialect, stream):
    answer = ask(dialect, "/error out of lamp oil", stream=stream)
    last = events(answer)[-1] if stream else answer.json()
    assert (answer.status_code, last["error"]["message"]) == (200, "out of lamp oil")


@BOTH
def test_length_ends_half_way_in_the_words_of_the_dialect(dialect):
    body = ask(dialect, "/length").json()
    ending = body["stop_reason"] if dialect == "anthropic" else body["choices"][0]["finish_reason"]
    assert ending == {"openai": "length", "anthropic": "max_tokens"}[dialect]


def test_reason_comes_before_the_text_in_the_openai_dialect():
    found = [key for delta in deltas(ask("openai", "/reason The lamp is lit.", stream=True)) for key in delta]
    assert list(dict.fromkeys(found)) == ["role", "content", "reasoning_content"]
    message = ask("openai", "/reason The lamp is lit.").json()["choices"][0]["message"]
    assert message["reasoning_content"] == "The lamp is lit."


def test_reason_is_a_signed_thinking_block_in_the_anthropic_dialect():
    body = ask("anthropic", "/reason The lamp is lit.").json()
    assert body["content"][0] == {"type": "thinking", "thinking": "The lamp is lit.", "signature": "mirror"}


@BOTH
def test_slow_waits_before_the_answer(dialect):
    began = time.monotonic()
    assert ask(dialect, "/slow 0.1").status_code == 200
    assert time.monotonic() - began >= 0.1


@pytest.mark.parametrize("directive", ["/slow 30", "/stall 30"])
def test_silence_beyond_the_clients_patience_is_a_read_timeout(directive):
    with pytest.raises(httpx.ReadTimeout, match="silent for 30 s"):
        post("openai", {"stream": True, "messages": [{"role": "user", "content": directive}]}, timeout=0.05)


def test_a_directive_counts_only_at_the_start_of_the_text():
    assert reply("openai", "Please do not\n/fail 500").endswith("> Please do not\n> /fail 500\n> ```")


def test_a_path_at_the_start_is_no_directive():
    assert reply("openai", "/usr/bin is a folder").endswith("> /usr/bin is a folder\n> ```")


# --- what is no request ------------------------------------------------------------------------


def test_another_address_is_not_found():
    with httpx.Client(transport=MirrorTransport()) as client:
        assert client.get("http://mirror.invalid/v1/models").status_code == 404


@BOTH
@pytest.mark.parametrize("content", [b"{", b"[]", b'{"messages": 1}', b'{"messages": [], "tools": [1]}'])
def test_a_body_that_is_no_request_is_refused(dialect, content):
    with httpx.Client(transport=MirrorTransport()) as client:
        assert client.post(f"http://mirror.invalid{PATHS[dialect]}", content=content).status_code == 400


# --- opening -----------------------------------------------------------------------------------


def test_the_mirror_is_opened_by_name():
    inside = open_embedded("mirror")
    assert inside == Embedded("http://mirror.invalid/v1", "mirror", inside.transport)
    assert isinstance(inside.transport, MirrorTransport)


def test_a_name_that_is_not_embedded_is_refused():
    with pytest.raises(ModelError, match=r"^gpt is not an embedded model: use local or mirror$"):
        open_embedded("gpt")
