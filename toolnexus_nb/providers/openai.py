"""The chat-completions dialect, as OpenAI documents it and as the many servers that speak it differ from it.

Border: none; values in, values out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
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
from ..errors import BadReply, StreamCut, WireError
from .ends import NO_REASON, finish
from .history import sent_arguments, sent_name, sound
from .kept import Keeping, of_call
from .reading import (
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
from .tidy import Tidy
from .tool_pieces import ToolPieces
from .wire import Ask, WireRequest

_DONE: Final = "[DONE]"
_NO_REPLY: Final = "(no reply to this result)"


# --- the request ------------------------------------------------------------------------------


def request(ask: Ask) -> WireRequest:
    """Return the streaming request that asks for one reply."""
    there = ask.endpoint
    body: dict[str, Any] = {"model": there.model} if there.model else {}
    body |= {"messages": _merged([*_soul(ask), *_messages(ask)]), "stream": True}
    if ask.include_usage:
        body["stream_options"] = {"include_usage": True}
    if ask.tools and ask.takes_tools:
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


def _messages(ask: Ask) -> Iterator[dict[str, Any]]:
    origin, before = ask.endpoint.origin, ""
    for message in sound(ask.messages, origin, tools=ask.takes_tools):
        if before == "tool" and message.role == "user":
            # Mistral refuses a user's message right behind a result.
            yield {"role": "assistant", "content": _NO_REPLY}
        yield _message(message, message.origin == origin)
        before = message.role


def _message(message: Message, known: bool) -> dict[str, Any]:
    """Return a message as it is sent; `known` says that this server wrote it, so that its own fields go back."""
    if message.role == "tool":
        return {"role": "tool", "tool_call_id": message.tool_call_id, "content": message.text}
    own = message.extra if known and message.role == "assistant" else {}
    if not message.tool_calls:
        return {**own, "role": message.role, "content": message.text}
    calls = [of_call(call.extra if known else {}, _call(call)) for call in message.tool_calls]
    return {**own, "role": "assistant", "content": message.text or None, "tool_calls": calls}


def _call(call: ToolCall) -> dict[str, Any]:
    # Servers parse the arguments of the history and fail on what is no object; a good text goes back as it came.
    arguments = call.arguments_json if sent_arguments(call) else "{}"
    return {"id": call.id, "type": "function", "function": {"name": sent_name(call), "arguments": arguments}}


# --- the answer -------------------------------------------------------------------------------


def events(stream: Iterable[tuple[str, str]]) -> Iterator[ReplyEvent]:
    """Turn (event name, data) pairs into events; Finish is the last, also when usage comes after it.

    A reply is whole once it named a finish_reason; the closing [DONE] is not asked for. Without
    a finish_reason, [DONE] behind text or whole calls ends a reply too, with a Notice.
    Raises BadReply and StreamCut as Provider says.
    """
    reply, tidy = _Reply(), Tidy()
    try:
        for name, data in stream:
            if data.strip() == _DONE:
                reply.closed = True
                break
            if found := reply.chunk(name, data):
                yield from tidy.passed(found, data)
        last, finished = reply.end()
    except WireError:
        yield from tidy.broken()
        raise
    yield from tidy.ending(last, finished)


def whole(body: object) -> Iterator[ReplyEvent]:
    """Turn a plain JSON answer into the same events. A message without finish_reason is a whole one."""
    answer = as_object(body, "the answer is")
    raise_for_error(answer)
    choice = _first_choice(answer)
    if not isinstance(choice.get("message"), dict):
        hint = "use --style anthropic" if answer.get("type") == "message" else "check the base URL"
        raise BadReply(f"the answer holds no message in choices: {one_line(as_json(body))}: {hint}")
    reply = _Reply()
    found = [*reply.head(answer, choice), *reply.piece(choice["message"], string(choice.get("finish_reason")).strip() or "stop")]
    last, finished = reply.end()
    yield from Tidy().ending([*found, *last], finished)


def _first_choice(answer: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the choice number 0; the others were not asked for. Empty when there is none."""
    given = answer.get("choices")
    if isinstance(given, list) and len(given) == 1 and isinstance(given[0], dict) and given[0].get("index", 0) == 0:
        only: Mapping[str, Any] = given[0]
        return only
    choices = objects(given)
    numbers = [place if number(choice.get("index")) is None else choice["index"] for place, choice in enumerate(choices)]
    return choices[numbers.index(0)] if 0 in numbers else {}


class _Reply:
    """One reply while it arrives: what later chunks are understood by. Most chunks bring a little text and nothing else."""

    def __init__(self) -> None:
        self.model = ""
        self.usage = Usage()
        self.keeping = Keeping()
        self.calls = ToolPieces(self.keeping.call)
        self.refused = False
        self.has_text = False
        self.finish_reason = ""
        #: The server has sent its closing [DONE].
        self.closed = False

    def chunk(self, name: str, data: str) -> list[ReplyEvent]:
        """Return what one event of the stream adds. Raises BadReply."""
        if not data.strip():
            return []
        if name == "error" and not data.lstrip().startswith("{"):
            raise BadReply(f"the server reports an error: {one_line(data)}")
        chunk = parsed(data)
        raise_for_error(chunk, name)
        if string(chunk.get("type")).startswith("message_"):
            raise BadReply("the server answers in the anthropic dialect: use --style anthropic")
        choice = _first_choice(chunk)
        delta = choice.get("delta", choice.get("message"))
        found = self.head(chunk, choice)
        found += self.piece(delta if isinstance(delta, dict) else {}, choice.get("finish_reason"))
        return found

    def head(self, chunk: Mapping[str, Any], choice: Mapping[str, Any]) -> list[ReplyEvent]:
        """Return the model and the usage where the chunk says something new."""
        found: list[ReplyEvent] = []
        model = chunk.get("model")
        if model != self.model and (named := string(model)):
            self.model = named
            found.append(ModelNamed(named))
        # One provider (Moonshot) reports usage inside the choice.
        counts = chunk.get("usage") or choice.get("usage")
        if counts:
            usage = _usage(mapping(counts))
            if usage not in (Usage(), self.usage):
                self.usage = usage
                found.append(UsageReport(usage))
        return found

    def piece(self, delta: Mapping[str, Any], finish_reason: object) -> list[ReplyEvent]:
        """Return what a delta, or a whole message, adds."""
        found: list[ReplyEvent] = []
        content = delta.get("content")
        plain = not content or isinstance(content, str)
        more = not plain or len(delta) > ("content" in delta) + ("role" in delta)
        if more:
            if reasoning := _reasoning(delta):
                found.append(ReasoningDelta(reasoning))
            self.keeping.message(delta)
        if content and (words := content if isinstance(content, str) else text(content)):
            self.has_text = True
            found.append(TextDelta(words))
        if more:
            if refusal := string(delta.get("refusal")):
                self.refused = True
                found.append(TextDelta(refusal))
            found += self.calls.read(delta)
        # A reply once called cut or filtered is not made whole by a closing "stop".
        if finish_reason and self.finish_reason in ("", "stop"):
            self.finish_reason = string(finish_reason).strip() or self.finish_reason
        return found

    def end(self) -> tuple[list[ReplyEvent], Finish]:
        """Return the last events and the Finish. Raises StreamCut, or BadReply for a reason that means a failure."""
        kept: list[ReplyEvent] = [*self.keeping.events(with_calls=bool(self.calls))]
        word = self.finish_reason
        if not word:
            if not (self.closed and (self.calls.whole if self.calls else self.has_text)):
                raise StreamCut("the stream ended without a finish_reason: what arrived is not the whole reply: try again")
            word = "stop"
            kept.append(NO_REASON)
        return kept, finish(word, calls=bool(self.calls), refused=self.refused)


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
