"""The messages dialect, as Anthropic documents it.

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
    Reasoning,
    ReasoningDelta,
    ReplyEvent,
    TextDelta,
    Tool,
    ToolCallDelta,
    Usage,
    UsageReport,
)
from ..errors import BadReply, StreamCut, WireError
from .ends import NO_REASON, finish
from .history import sent_arguments, sent_name, sound
from .kept import Keeping
from .reading import (
    address,
    as_json,
    as_object,
    identifier,
    mapping,
    number,
    objects,
    one_line,
    parsed,
    raise_for_error,
    string,
    text,
)
from .tidy import Tidy
from .wire import Ask, WireRequest

VERSION: Final = "2023-06-01"
#: The dialect demands a limit; this one is sent unless the parameters name another.
DEFAULT_MAX_TOKENS: Final = 4096
_DONE: Final = "[DONE]"
#: The number of reasoning that stands between tags in the text: no block of the dialect has it.
_TAGGED_BLOCK: Final = -1

_Block = dict[str, Any]


# --- the request ------------------------------------------------------------------------------


def request(ask: Ask) -> WireRequest:
    """Return the streaming request that asks for one reply; the soul is marked as cacheable."""
    there = ask.endpoint
    body: dict[str, Any] = {"model": there.model, "max_tokens": DEFAULT_MAX_TOKENS}
    if ask.system:
        body["system"] = [{"type": "text", "text": ask.system, "cache_control": {"type": "ephemeral"}}]
    body |= {"messages": _messages(ask), "stream": True}
    if ask.tools and ask.takes_tools:
        body["tools"] = [_tool(tool) for tool in ask.tools]
    headers = {"anthropic-version": VERSION} | ({"x-api-key": there.api_key} if there.api_key else {})
    return WireRequest(address(there.base_url, "/v1", "/messages"), headers, {**body, **ask.params})


def _tool(tool: Tool) -> _Block:
    return {"name": tool.name, "description": tool.description, "input_schema": tool.parameters}


def _messages(ask: Ask) -> list[dict[str, Any]]:
    """Return the history with alternating roles and without what the server refuses: empty text, empty messages."""
    messages: list[dict[str, Any]] = []
    origin = ask.endpoint.origin
    # A request without tools must hold no calls either.
    for message in sound(ask.messages, origin, tools=bool(ask.tools) and ask.takes_tools):
        role = "assistant" if message.role == "assistant" else "user"
        blocks = list(_blocks(message, message.origin in ("", origin)))
        if not blocks:
            continue
        if messages and messages[-1]["role"] == role:
            messages[-1]["content"] += blocks
        else:
            messages.append({"role": role, "content": blocks})
    return messages


def _blocks(message: Message, known: bool) -> Iterator[_Block]:
    """Yield a message's blocks; `known` says that this server may have written it: it refuses the signatures of others."""
    if message.role == "tool":
        yield _tool_result(message)
        return
    said = bool(message.text.strip())
    if known and (said or message.tool_calls):
        yield from (block for reasoning in message.reasoning for block in _thinking(reasoning))
    if said:
        yield {"type": "text", "text": message.text}
    for call in message.tool_calls:
        own = call.extra if known else {}
        yield {**own, "type": "tool_use", "id": call.id, "name": sent_name(call), "input": sent_arguments(call)}


def _thinking(reasoning: Reasoning) -> Iterator[_Block]:
    """Yield a block the server will know as its own; reasoning that it did not sign is refused."""
    if reasoning.redacted:
        yield {"type": "redacted_thinking", "data": reasoning.redacted}
    elif reasoning.signature:
        yield {"type": "thinking", "thinking": reasoning.text, "signature": reasoning.signature}


def _tool_result(message: Message) -> _Block:
    result: _Block = {"type": "tool_result", "tool_use_id": message.tool_call_id}
    if message.text.strip():
        result["content"] = message.text
    if message.is_error:
        result["is_error"] = True
    return result


# --- the answer -------------------------------------------------------------------------------


def events(stream: Iterable[tuple[str, str]]) -> Iterator[ReplyEvent]:
    """Turn (event name, data) pairs into events; message_stop makes a reply whole.

    So does a closing [DONE], which some gateways send instead, behind text or a stop_reason.
    Raises BadReply and StreamCut as Provider says.
    """
    reply, tidy = _Reply(), Tidy(_TAGGED_BLOCK)
    try:
        for name, data in stream:
            if not data.strip():
                continue
            if data.strip() == _DONE:
                reply.closed = True
                continue
            event = _event(name, data)
            kind = string(event.get("type")) or name
            if kind == "message_stop":
                reply.stopped = True
                break
            if found := [*reply.event(kind, event)]:
                yield from tidy.passed(found, data)
        last, finished = reply.end()
    except WireError:
        yield from tidy.broken()
        raise
    yield from tidy.ending(last, finished)


def _event(name: str, data: str) -> Mapping[str, Any]:
    if name == "error" and not data.lstrip().startswith("{"):
        raise BadReply(f"the server reports an error: {one_line(data)}")
    event = parsed(data)
    raise_for_error(event, name)
    if "choices" in event:
        raise BadReply("the server answers in the openai dialect: use --style openai")
    return event


def whole(body: object) -> Iterator[ReplyEvent]:
    """Turn a plain JSON answer into the same events. A message without stop_reason is a whole one."""
    answer = as_object(body, "the answer is")
    raise_for_error(answer)
    content = answer.get("content")
    if not isinstance(content, str | list):
        hint = "use --style openai" if "choices" in answer else "check the base URL"
        raise BadReply(f"the answer holds no content: {one_line(as_json(body))}: {hint}")
    reply = _Reply()
    found = [*reply.head(answer)]
    if isinstance(content, str):
        found.append(TextDelta(content))
    for index, block in enumerate(objects(content)):
        found += reply.block(index, block)
    found += reply.ending(answer.get("stop_reason") or "end_turn", {})
    reply.stopped = True
    last, finished = reply.end()
    yield from Tidy(_TAGGED_BLOCK).ending([*found, *last], finished)


@dataclass(slots=True)
class _Reply:
    """One reply while it arrives. Calls and reasoning blocks are numbered in the order they began."""

    counts: dict[str, int] = field(default_factory=dict)
    stop_reason: str = ""
    #: The server's block index -> our number, for the block that has it now.
    calls: dict[int | None, int] = field(default_factory=dict)
    reasoning: dict[int | None, int] = field(default_factory=dict)
    call_count: int = 0
    reasoning_count: int = 0
    #: Arguments that came whole at a call's start; pieces that follow replace them.
    early: dict[int, str] = field(default_factory=dict)
    keeping: Keeping = field(default_factory=Keeping)
    has_text: bool = False
    #: The server has sent message_stop.
    stopped: bool = False
    #: The server has sent [DONE].
    closed: bool = False

    def event(self, kind: str, event: Mapping[str, Any]) -> Iterator[ReplyEvent]:
        """Yield what one event adds; events of kinds that are not known add nothing."""
        index = number(event.get("index"))
        match kind:
            case "message_start":
                yield from self.head(mapping(event.get("message")))
            case "content_block_start":
                yield from self.block(index, mapping(event.get("content_block")))
            case "content_block_delta":
                yield from self.delta(index, mapping(event.get("delta")))
            case "message_delta":
                yield from self.ending(mapping(event.get("delta")).get("stop_reason"), mapping(event.get("usage")))

    def head(self, message: Mapping[str, Any]) -> Iterator[ReplyEvent]:
        if model := string(message.get("model")):
            yield ModelNamed(model)
        yield from self._usage(mapping(message.get("usage")))

    def block(self, index: int | None, block: Mapping[str, Any]) -> Iterator[ReplyEvent]:
        """Yield what a block holds where it begins: nothing in a documented stream, all in a plain answer."""
        match block.get("type"):
            case "text":
                yield from self._text(text(block.get("text")))
            case "thinking":
                yield self._reasoning(index, string(block.get("thinking")), string(block.get("signature")))
            case "redacted_thinking":
                self._reasoning_begins(index)
                yield ReasoningDelta(block=self.reasoning[index], redacted=string(block.get("data")))
            case "tool_use":
                yield self._call_begins(index, block)

    def delta(self, index: int | None, delta: Mapping[str, Any]) -> Iterator[ReplyEvent]:
        match delta.get("type"):
            case "text_delta":
                yield from self._text(text(delta.get("text")))
            case "thinking_delta":
                yield self._more_reasoning(index, string(delta.get("thinking")), "")
            case "signature_delta":
                yield self._more_reasoning(index, "", string(delta.get("signature")))
            case "input_json_delta" if index in self.calls:
                # Blocks of tools that run on the server have such pieces too; those are not ours to answer.
                arguments = string(delta.get("partial_json"))
                if arguments:
                    self.early.pop(self.calls[index], None)
                yield ToolCallDelta(self.calls[index], arguments=arguments)

    def ending(self, stop_reason: object, usage: Mapping[str, Any]) -> Iterator[ReplyEvent]:
        self.stop_reason = string(stop_reason) or self.stop_reason
        yield from self._usage(usage)

    def end(self) -> tuple[list[ReplyEvent], Finish]:
        """Return the last events and the Finish. Raises StreamCut, or BadReply for a reason that means a failure."""
        last: list[ReplyEvent] = [ToolCallDelta(key, arguments=arguments) for key, arguments in self.early.items()]
        last += self.keeping.events(with_calls=bool(self.call_count))
        word = self.stop_reason
        if not self.stopped:
            if not (self.closed and (word or (self.has_text and not self.call_count))):
                raise StreamCut("the stream ended without message_stop: what arrived is not the whole reply: try again")
            if not word:
                word = "end_turn"
                last.append(NO_REASON)
        return last, finish(word, calls=bool(self.call_count))

    def _text(self, words: str) -> Iterator[TextDelta]:
        if words:
            self.has_text = True
            yield TextDelta(words)

    def _call_begins(self, index: int | None, block: Mapping[str, Any]) -> ToolCallDelta:
        key = self.calls[index] = self.call_count
        self.call_count += 1
        if block.get("input"):
            self.early[key] = as_json(block["input"])
        self.keeping.call(key, block)
        return ToolCallDelta(key, identifier(block.get("id")), string(block.get("name")))

    def _reasoning_begins(self, index: int | None) -> None:
        self.reasoning[index] = self.reasoning_count
        self.reasoning_count += 1

    def _reasoning(self, index: int | None, thinking: str, signature: str) -> ReasoningDelta:
        self._reasoning_begins(index)
        return ReasoningDelta(thinking, self.reasoning[index], signature)

    def _more_reasoning(self, index: int | None, thinking: str, signature: str) -> ReasoningDelta:
        if index not in self.reasoning:
            self._reasoning_begins(index)
        return ReasoningDelta(thinking, self.reasoning[index], signature)

    def _usage(self, usage: Mapping[str, Any]) -> Iterator[UsageReport]:
        """Yield the usage so far. Counts are cumulative; a gateway's 0 does not take back what is known."""
        known = {field: count for field in _COUNTS if (count := number(usage.get(field))) is not None}
        if not known:
            return
        self.counts |= {field: count for field, count in known.items() if count or field not in self.counts}
        yield UsageReport(_usage(self.counts))


_PROMPT_COUNTS: Final = ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")
_COUNTS: Final = (*_PROMPT_COUNTS, "output_tokens")


def _usage(counts: Mapping[str, int]) -> Usage:
    """Return the counts as Usage: cached tokens are not in input_tokens, but they were read."""
    read = [counts[field] for field in _PROMPT_COUNTS if field in counts]
    prompt, completion = sum(read) if read else None, counts.get("output_tokens")
    total = prompt + completion if prompt is not None and completion is not None else None
    return Usage(prompt, completion, total, counts.get("cache_read_input_tokens"))
