"""The chat-completions dialect, as OpenAI documents it and as the many servers that speak it differ from it.

Border: none; values in, values out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from ..conversation import (
    Finish,
    Message,
    ModelNamed,
    ReasoningDelta,
    ReplyEvent,
    TextDelta,
    Tool,
    ToolCall,
    Usage,
    UsageReport,
)
from ..errors import BadReply, StreamCut
from .history import sent_arguments, sent_name
from .reading import (
    FINISH_REASONS,
    address,
    as_json,
    as_object,
    mapping,
    number,
    objects,
    one_line,
    parsed,
    raise_for_error,
    string,
    text,
)
from .surrogates import mended
from .tool_pieces import ToolPieces
from .wire import Ask, WireRequest

_DONE: Final = "[DONE]"


# --- the request ------------------------------------------------------------------------------


def request(ask: Ask) -> WireRequest:
    """Return the streaming request that asks for one reply."""
    there = ask.endpoint
    body: dict[str, Any] = {"model": there.model} if there.model else {}
    body |= {"messages": _merged([*_soul(ask), *map(_message, ask.messages)]), "stream": True}
    if ask.include_usage:
        body["stream_options"] = {"include_usage": True}
    if ask.tools:
        body["tools"] = [_tool(tool) for tool in ask.tools]
    headers = {"Authorization": f"Bearer {there.api_key}"} if there.api_key else {}
    return WireRequest(address(there.base_url, "", "/chat/completions"), headers, {**body, **ask.params})


def _soul(ask: Ask) -> list[dict[str, Any]]:
    return [{"role": ask.role, "content": ask.system}] if ask.system else []


def _merged(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Join neighbouring user messages: some chat templates demand that the roles alternate.

    They stand side by side where the soul goes as a user message, and after a turn that was
    stopped before any text arrived.
    """
    merged: list[dict[str, Any]] = []
    for message in messages:
        if merged and message["role"] == merged[-1]["role"] == "user":
            merged[-1] = {"role": "user", "content": f"{merged[-1]['content']}\n\n{message['content']}"}
        else:
            merged.append(message)
    return merged


def _tool(tool: Tool) -> dict[str, Any]:
    return {"type": "function", "function": {"name": tool.name, "description": tool.description, "parameters": tool.parameters}}


def _message(message: Message) -> dict[str, Any]:
    if message.role == "tool":
        return {"role": "tool", "tool_call_id": message.tool_call_id, "content": message.text}
    if not message.tool_calls:
        return {"role": message.role, "content": message.text}
    return {"role": "assistant", "content": message.text or None, "tool_calls": [_call(call) for call in message.tool_calls]}


def _call(call: ToolCall) -> dict[str, Any]:
    # Servers parse the arguments of the history and fail on what is no object; a good text goes back as it came.
    arguments = call.arguments_json if sent_arguments(call) else "{}"
    return {"id": call.id, "type": "function", "function": {"name": sent_name(call), "arguments": arguments}}


# --- the answer -------------------------------------------------------------------------------


def events(stream: Iterable[tuple[str, str]]) -> Iterator[ReplyEvent]:
    """Turn (event name, data) pairs into events; Finish is the last, also when usage comes after it.

    A reply is whole once it named a finish_reason; the closing [DONE] is not asked for.
    Raises BadReply and StreamCut as Provider says.
    """
    return mended(_events(stream))


def _events(stream: Iterable[tuple[str, str]]) -> Iterator[ReplyEvent]:
    reply = _Reply()
    for name, data in stream:
        if data.strip() == _DONE:
            break
        if data.strip():
            yield from _chunk(reply, name, data)
    if not reply.finish_reason:
        raise StreamCut("the stream ended without a finish_reason: what arrived is not the whole reply: try again")
    yield reply.finish()


def _chunk(reply: _Reply, name: str, data: str) -> Iterator[ReplyEvent]:
    if name == "error" and not data.lstrip().startswith("{"):
        raise BadReply(f"the server reports an error: {one_line(data)}")
    chunk = parsed(data)
    raise_for_error(chunk, name)
    if string(chunk.get("type")).startswith("message_"):
        raise BadReply("the server answers in the anthropic dialect: use --style anthropic")
    choice = _first_choice(chunk)
    yield from reply.head(chunk, choice)
    yield from reply.piece(mapping(choice.get("delta", choice.get("message"))), choice.get("finish_reason"))


def whole(body: object) -> Iterator[ReplyEvent]:
    """Turn a plain JSON answer into the same events. A message without finish_reason is a whole one."""
    return mended(_whole(body))


def _whole(body: object) -> Iterator[ReplyEvent]:
    answer = as_object(body, "the answer is")
    raise_for_error(answer)
    choice = _first_choice(answer)
    if not isinstance(choice.get("message"), dict):
        hint = "use --style anthropic" if answer.get("type") == "message" else "check the base URL"
        raise BadReply(f"the answer holds no message in choices: {one_line(as_json(body))}: {hint}")
    reply = _Reply()
    yield from reply.head(answer, choice)
    yield from reply.piece(choice["message"], string(choice.get("finish_reason")) or "stop")
    yield reply.finish()


def _first_choice(answer: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the choice number 0; the others were not asked for. Empty when there is none."""
    choices = objects(answer.get("choices"))
    numbers = [place if number(choice.get("index")) is None else choice["index"] for place, choice in enumerate(choices)]
    return choices[numbers.index(0)] if 0 in numbers else {}


@dataclass(slots=True)
class _Reply:
    """One reply while it arrives: what later chunks are understood by."""

    model: str = ""
    usage: Usage = Usage()
    calls: ToolPieces = field(default_factory=ToolPieces)
    refused: bool = False
    finish_reason: str = ""

    def head(self, chunk: Mapping[str, Any], choice: Mapping[str, Any]) -> Iterator[ReplyEvent]:
        """Yield the model and the usage where the chunk says something new."""
        model = string(chunk.get("model"))
        if model and model != self.model:
            self.model = model
            yield ModelNamed(model)
        # One provider (Moonshot) reports usage inside the choice.
        usage = _usage(mapping(chunk.get("usage") or choice.get("usage")))
        if usage not in (Usage(), self.usage):
            self.usage = usage
            yield UsageReport(usage)

    def piece(self, delta: Mapping[str, Any], finish_reason: object) -> Iterator[ReplyEvent]:
        """Yield what a delta, or a whole message, adds."""
        yield ReasoningDelta(_reasoning(delta))
        yield TextDelta(text(delta.get("content")))
        refusal = string(delta.get("refusal"))
        self.refused = self.refused or bool(refusal)
        yield TextDelta(refusal)
        yield from self.calls.read(delta)
        # A reply once called cut or filtered is not made whole by a closing "stop".
        if self.finish_reason in ("", "stop"):
            self.finish_reason = string(finish_reason).strip() or self.finish_reason

    def finish(self) -> Finish:
        reason = FINISH_REASONS.get(self.finish_reason.lower(), "unknown")
        if reason == "unknown":
            return Finish(reason, one_line(self.finish_reason))
        if reason == "stop" and self.refused:
            return Finish("refused")
        return Finish("tool_calls") if reason == "stop" and self.calls else Finish(reason)


def _reasoning(delta: Mapping[str, Any]) -> str:
    """Return the reasoning under either of its names; servers that send both send it twice."""
    said = text(delta.get("reasoning_content")) or text(delta.get("reasoning"))
    # Mistral's models put it among the parts of the content.
    parts = objects(delta.get("content"))
    return said or "".join(text(part.get("thinking")) for part in parts if part.get("type") == "thinking")


def _usage(usage: Mapping[str, Any]) -> Usage:
    prompt, completion = number(usage.get("prompt_tokens")), number(usage.get("completion_tokens"))
    total = number(usage.get("total_tokens"))
    if total is None and prompt is not None and completion is not None:
        total = prompt + completion
    cached = number(mapping(usage.get("prompt_tokens_details")).get("cached_tokens"))
    reasoning = number(mapping(usage.get("completion_tokens_details")).get("reasoning_tokens"))
    return Usage(prompt, completion, total, cached, reasoning)
