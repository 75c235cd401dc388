"""The server's side of both dialects: a request body read into a Heard, a Said written as JSON or SSE.

Border: none. The mirror answers with it; `providers` is the client's side of the same formats.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

Dialect = Literal["openai", "anthropic"]
#: Characters in one piece of a streamed reply: small, so that every reply takes several.
PIECE_CHARACTERS: Final = 24
#: What ends a reply here, in each dialect's own word.
_ENDINGS: Final[dict[str, dict[str, str]]] = {
    "openai": {"stop": "stop", "length": "length", "tool_calls": "tool_calls"},
    "anthropic": {"stop": "end_turn", "length": "max_tokens", "tool_calls": "tool_use"},
}


@dataclass(frozen=True, slots=True)
class Entry:
    """One message as it was heard: `role` is user, assistant or tool, `name` the tool that answers."""

    role: str
    text: str
    name: str = ""


@dataclass(frozen=True, slots=True)
class Heard:
    """What a request says, in no dialect."""

    dialect: Dialect
    system: str
    entries: tuple[Entry, ...]
    tools: tuple[str, ...]
    stream: bool
    include_usage: bool


@dataclass(frozen=True, slots=True)
class Said:
    """What to answer. `calls` are (id, tool name, arguments as JSON)."""

    text: str
    finish: str
    prompt_tokens: int
    completion_tokens: int
    reasoning_tokens: int = 0
    reasoning: str = ""
    calls: tuple[tuple[str, str, str], ...] = field(default=())


def read(dialect: Dialect, body: Any) -> Heard:
    """Read a request body. Raises ValueError in one line for what is no request."""
    messages = _messages(body)
    if dialect == "anthropic":
        system, entries = _text(body.get("system")), _anthropic_entries(messages)
        tools = [tool.get("name") for tool in body.get("tools") or ()]
    else:
        system = "\n\n".join(_text(m.get("content")) for m in messages if m.get("role") in ("system", "developer"))
        entries = _openai_entries(messages)
        tools = [tool.get("function", {}).get("name") for tool in body.get("tools") or ()]
    options = body.get("stream_options") or {}
    return Heard(dialect, system, tuple(entries), tuple(map(str, tools)), bool(body.get("stream")), bool(options.get("include_usage")))


def _messages(body: Any) -> list[Mapping[str, Any]]:
    match body:
        case {"messages": list(messages)}:
            return [message for message in messages if isinstance(message, Mapping)]
    raise ValueError("the body has no list of messages")


def _openai_entries(messages: list[Mapping[str, Any]]) -> Iterator[Entry]:
    names: dict[str, str] = {}
    for message in messages:
        for call in message.get("tool_calls") or ():
            names[call.get("id", "")] = call.get("function", {}).get("name", "")
        role = str(message.get("role"))
        if role not in ("system", "developer"):
            yield Entry(role, _text(message.get("content")), names.get(message.get("tool_call_id", ""), ""))


def _anthropic_entries(messages: list[Mapping[str, Any]]) -> Iterator[Entry]:
    names: dict[str, str] = {}
    for message in messages:
        content, role = message.get("content"), str(message.get("role"))
        blocks = [block for block in content if isinstance(block, Mapping)] if isinstance(content, list) else []
        for block in blocks:
            if block.get("type") == "tool_use":
                names[block.get("id", "")] = block.get("name", "")
            elif block.get("type") == "tool_result":
                yield Entry("tool", _text(block.get("content")), names.get(block.get("tool_use_id", ""), ""))
        text = _text(content)
        if text or not any(block.get("type") == "tool_result" for block in blocks):
            yield Entry(role, text)


def _text(content: Any) -> str:
    """Return the text of a content field: a string, or a list with text blocks."""
    if isinstance(content, str):
        return content
    blocks = content if isinstance(content, list) else []
    return "".join(str(block.get("text", "")) for block in blocks if isinstance(block, Mapping) and block.get("type") == "text")


# --- answers ---------------------------------------------------------------------------------


def whole(heard: Heard, said: Said, model: str) -> dict[str, Any]:
    """Return the answer to a request that asked for no stream."""
    if heard.dialect == "anthropic":
        return {
            "id": "msg_mirror",
            "type": "message",
            "role": "assistant",
            "model": model,
            "content": [block for block, _ in _blocks(said)],
            "stop_reason": _ENDINGS["anthropic"][said.finish],
            "stop_sequence": None,
            "usage": {"input_tokens": said.prompt_tokens, "output_tokens": said.completion_tokens},
        }
    message: dict[str, Any] = {"role": "assistant", "content": said.text or None}
    if said.reasoning:
        message["reasoning_content"] = said.reasoning
    if said.calls:
        message["tool_calls"] = [
            {"id": id_, "type": "function", "function": {"name": name, "arguments": arguments}} for id_, name, arguments in said.calls
        ]
    choice = {"index": 0, "message": message, "finish_reason": said.finish}
    return {**_openai_head(model, "chat.completion"), "choices": [choice], "usage": _openai_usage(said)}


def stream(heard: Heard, said: Said, model: str) -> Iterator[bytes]:
    """Yield the answer as SSE, one event at a time."""
    if heard.dialect == "anthropic":
        for event in _anthropic_events(said, model):
            yield f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode()
        return
    for chunk in _openai_chunks(said, model, heard.include_usage):
        yield f"data: {json.dumps(chunk)}\n\n".encode()
    yield b"data: [DONE]\n\n"


def failure(dialect: Dialect, kind: str, message: str) -> dict[str, Any]:
    """Return an error body."""
    if dialect == "anthropic":
        return {"type": "error", "error": {"type": kind, "message": message}}
    return {"error": {"message": message, "type": kind, "param": None, "code": None}}


def failure_event(dialect: Dialect, kind: str, message: str) -> bytes:
    """Return an error that comes inside a stream that began well."""
    prefix = "event: error\n" if dialect == "anthropic" else ""
    return f"{prefix}data: {json.dumps(failure(dialect, kind, message))}\n\n".encode()


def _openai_head(model: str, kind: str) -> dict[str, Any]:
    return {"id": "chatcmpl-mirror", "object": kind, "created": 0, "model": model}


def _openai_usage(said: Said) -> dict[str, Any]:
    usage: dict[str, Any] = {
        "prompt_tokens": said.prompt_tokens,
        "completion_tokens": said.completion_tokens,
        "total_tokens": said.prompt_tokens + said.completion_tokens,
    }
    if said.reasoning_tokens:
        usage["completion_tokens_details"] = {"reasoning_tokens": said.reasoning_tokens}
    return usage


def _openai_chunks(said: Said, model: str, include_usage: bool) -> Iterator[dict[str, Any]]:
    head = _openai_head(model, "chat.completion.chunk")
    for delta in _openai_deltas(said):
        yield {**head, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]}
    yield {**head, "choices": [{"index": 0, "delta": {}, "finish_reason": said.finish}]}
    if include_usage:
        yield {**head, "choices": [], "usage": _openai_usage(said)}


def _openai_deltas(said: Said) -> Iterator[dict[str, Any]]:
    yield {"role": "assistant", "content": ""}
    for piece in _pieces(said.reasoning):
        yield {"reasoning_content": piece}
    for piece in _pieces(said.text):
        yield {"content": piece}
    for index, (id_, name, arguments) in enumerate(said.calls):
        yield {"tool_calls": [{"index": index, "id": id_, "type": "function", "function": {"name": name, "arguments": ""}}]}
        for piece in _pieces(arguments):
            yield {"tool_calls": [{"index": index, "function": {"arguments": piece}}]}


def _anthropic_events(said: Said, model: str) -> Iterator[dict[str, Any]]:
    start = {"id": "msg_mirror", "type": "message", "role": "assistant", "model": model, "content": []}
    usage = {"input_tokens": said.prompt_tokens, "output_tokens": 1}
    yield {"type": "message_start", "message": {**start, "stop_reason": None, "stop_sequence": None, "usage": usage}}
    yield {"type": "ping"}
    for index, (block, deltas) in enumerate(_blocks(said)):
        yield {"type": "content_block_start", "index": index, "content_block": {**block, **_EMPTY[block["type"]]}}
        for delta in deltas:
            yield {"type": "content_block_delta", "index": index, "delta": delta}
        yield {"type": "content_block_stop", "index": index}
    ending = {"stop_reason": _ENDINGS["anthropic"][said.finish], "stop_sequence": None}
    yield {"type": "message_delta", "delta": ending, "usage": {"output_tokens": said.completion_tokens}}
    yield {"type": "message_stop"}


#: What a block's content is when a stream announces it.
_EMPTY: Final[dict[str, dict[str, Any]]] = {
    "thinking": {"thinking": "", "signature": ""},
    "text": {"text": ""},
    "tool_use": {"input": {}},
}


def _blocks(said: Said) -> Iterator[tuple[dict[str, Any], list[dict[str, Any]]]]:
    """Yield each content block of the reply whole, and the deltas that a stream makes of it."""
    if said.reasoning:
        deltas: list[dict[str, Any]] = [{"type": "thinking_delta", "thinking": piece} for piece in _pieces(said.reasoning)]
        block = {"type": "thinking", "thinking": said.reasoning, "signature": "mirror"}
        yield block, [*deltas, {"type": "signature_delta", "signature": "mirror"}]
    if said.text:
        yield {"type": "text", "text": said.text}, [{"type": "text_delta", "text": piece} for piece in _pieces(said.text)]
    for id_, name, arguments in said.calls:
        block = {"type": "tool_use", "id": id_, "name": name, "input": _object(arguments)}
        yield block, [{"type": "input_json_delta", "partial_json": piece} for piece in _pieces(arguments)]


def _object(arguments: str) -> Any:
    """Return the arguments as an object; a whole anthropic answer has no place for what is none."""
    try:
        return json.loads(arguments)
    except ValueError:
        return arguments


def _pieces(text: str) -> list[str]:
    return [text[i : i + PIECE_CHARACTERS] for i in range(0, len(text), PIECE_CHARACTERS)]
