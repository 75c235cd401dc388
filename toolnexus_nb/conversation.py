"""The values of a conversation: messages, tools, usage, the events of a run and their fold into a Run.

Border: none. Nothing here knows a wire format, a file or a screen.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, Final, Literal

from .errors import RunFailed

Role = Literal["user", "assistant", "tool"]
RunStatus = Literal["done", "incomplete", "interrupted", "timeout", "error"]


@dataclass(frozen=True, slots=True)
class ToolResult:
    """A tool's answer to the model. `diff` is for the person who watches and is never sent."""

    text: str
    is_error: bool = False
    diff: str = ""


@dataclass(frozen=True, slots=True)
class Tool:
    """A function the model may call.

    `parameters` is a JSON Schema of an object. `call` takes the arguments as one dict; a
    str it returns becomes a ToolResult, an exception it raises becomes an error result.
    """

    name: str
    description: str
    parameters: Mapping[str, Any]
    call: Callable[[dict[str, Any]], ToolResult | str] = field(repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A call the model asked for, as it wrote it; `result` and `seconds` once it was answered.

    `arguments_json` is the model's own text, kept as it came, because it goes back to the
    server with the history. So do the fields in `extra`, which only that server understands.
    """

    id: str
    name: str
    arguments_json: str
    result: ToolResult | None = None
    seconds: float | None = None
    extra: Mapping[str, Any] = field(default_factory=dict, repr=False, compare=False)

    @property
    def arguments(self) -> dict[str, Any]:
        """The arguments as a dict; empty when they are not a JSON object (see `problem`)."""
        return self._parsed()[0]

    @property
    def problem(self) -> str:
        """What is wrong with the arguments, in words for the model; "" when nothing is."""
        return self._parsed()[1]

    def _parsed(self) -> tuple[dict[str, Any], str]:
        if not self.arguments_json.strip():
            return {}, ""
        try:
            value = json.loads(self.arguments_json, parse_constant=_no_constant)
        except (ValueError, RecursionError) as error:
            return {}, f"the arguments are not JSON: {error}"
        if not isinstance(value, dict):
            return {}, f"the arguments must be a JSON object, not {type(value).__name__}"
        return value, ""


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is no JSON value")


@dataclass(frozen=True, slots=True)
class Reasoning:
    """A block of the model's reasoning. `signature` and `redacted` go back to the server unread."""

    text: str
    signature: str = ""
    redacted: str = ""


@dataclass(frozen=True, slots=True)
class Message:
    """One entry of the history. The system prompt is not one: it belongs to the session.

    A "tool" message answers the call `tool_call_id`; `is_error` says that the tool failed.
    `extra` holds fields of a reply that go back as they came, together with its reasoning, but
    only to the server that sent them: `origin` names it.
    """

    role: Role
    text: str
    tool_calls: tuple[ToolCall, ...] = ()
    tool_call_id: str = ""
    is_error: bool = False
    reasoning: tuple[Reasoning, ...] = ()
    extra: Mapping[str, Any] = field(default_factory=dict, repr=False, compare=False)
    origin: str = field(default="", repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens as the server counted them; None where it reported nothing, which is not 0.

    `prompt` is all that was read, cached tokens included; `cached` and `reasoning` are parts
    of `prompt` and `completion`.
    """

    prompt: int | None = None
    completion: int | None = None
    total: int | None = None
    cached: int | None = None
    reasoning: int | None = None

    def updated(self, later: Usage) -> Usage:
        """Return the later report of the same request: a cumulative value replaces, None does not."""
        known = {f.name: value for f in fields(later) if (value := getattr(later, f.name)) is not None}
        return replace(self, **known)

    def __add__(self, other: Usage) -> Usage:
        """Sum two requests; a field is None only when neither reported it."""
        sums = {}
        for f in fields(self):
            known = [v for v in (getattr(self, f.name), getattr(other, f.name)) if v is not None]
            sums[f.name] = sum(known) if known else None
        return Usage(**sums)


# --- what a provider says while one reply arrives ---------------------------------------------


@dataclass(frozen=True, slots=True)
class TextDelta:
    """More of the reply's text."""

    text: str


@dataclass(frozen=True, slots=True)
class ReasoningDelta:
    """More of the model's reasoning; `block` tells blocks apart, `redacted` is opaque data."""

    text: str = ""
    block: int = 0
    signature: str = ""
    redacted: str = ""


@dataclass(frozen=True, slots=True)
class ToolCallDelta:
    """A piece of a tool call. Pieces with the same `key` belong to one call.

    The provider picks the key, so that a server which sends no index, or one index for
    two calls, is understood where its dialect is known.
    """

    key: int
    id: str = ""
    name: str = ""
    arguments: str = ""


@dataclass(frozen=True, slots=True)
class UsageReport:
    """Usage of this reply so far, cumulative: a later report replaces an earlier one."""

    usage: Usage


@dataclass(frozen=True, slots=True)
class ModelNamed:
    """The model's name in the server's own words."""

    model: str


@dataclass(frozen=True, slots=True)
class Kept:
    """Fields that go back to the server as they came: of the call `key`, or of the message (None).

    A later event's field replaces an earlier one of the same name.
    """

    fields: Mapping[str, Any]
    key: int | None = None


#: How a reply can end. "unknown" carries the server's word in `Finish.detail`.
FinishReason = Literal["stop", "tool_calls", "length", "refused", "unknown"]


@dataclass(frozen=True, slots=True)
class Finish:
    """The terminal event: the server says the reply is whole, or why it stopped."""

    reason: FinishReason
    detail: str = ""


# --- what the agent says around it -----------------------------------------------------------


@dataclass(frozen=True, slots=True)
class TurnStarted:
    """A request goes out. `prompt_tokens_estimate` is characters / 4 of all that is sent."""

    turn: int
    prompt_tokens_estimate: int
    model: str


@dataclass(frozen=True, slots=True)
class Waiting:
    """A retry is coming: `seconds` left until it, after attempt number `attempt` failed for `reason`."""

    seconds: float
    attempt: int
    reason: str


@dataclass(frozen=True, slots=True)
class Notice:
    """Something the person should know that is no failure."""

    text: str


@dataclass(frozen=True, slots=True)
class ToolStarted:
    """A tool is about to run."""

    call: ToolCall


@dataclass(frozen=True, slots=True)
class ToolFinished:
    """A tool has run: `call.result` and `call.seconds` are set."""

    call: ToolCall


ReplyEvent = TextDelta | ReasoningDelta | ToolCallDelta | UsageReport | ModelNamed | Kept | Notice | Finish
WireEvent = ReplyEvent | Waiting
Event = WireEvent | TurnStarted | ToolStarted | ToolFinished


@dataclass(slots=True)
class Reply:
    """The fold of one reply's events. `finish` is None until the terminal event arrived."""

    usage: Usage = Usage()
    model: str = ""
    finish: Finish | None = None
    _texts: list[str] = field(default_factory=list)
    _calls: dict[int, list[str]] = field(default_factory=dict)
    _arguments: dict[int, list[str]] = field(default_factory=dict)
    _reasoning: dict[int, tuple[list[str], list[str], list[str]]] = field(default_factory=dict)
    _kept: dict[int | None, dict[str, Any]] = field(default_factory=dict)

    def add(self, event: ReplyEvent) -> None:
        match event:
            case TextDelta(text):
                self._texts.append(text)
            case ReasoningDelta(text, block, signature, redacted):
                for pieces, piece in zip(self._reasoning.setdefault(block, ([], [], [])), (text, signature, redacted), strict=True):
                    pieces.append(piece)
            case ToolCallDelta(key, id_, name, arguments):
                call = self._calls.setdefault(key, ["", ""])
                call[0] = call[0] or id_
                call[1] = call[1] or name
                self._arguments.setdefault(key, []).append(arguments)
            case UsageReport(usage):
                self.usage = self.usage.updated(usage)
            case ModelNamed(model):
                self.model = model
            case Kept(fields_, key):
                self._kept.setdefault(key, {}).update(fields_)
            case Finish():
                self.finish = event

    def message(self) -> Message:
        """Return what has arrived as an assistant message; an id is made up where none came."""
        calls = tuple(
            ToolCall(id_ or f"call_{key}", name, "".join(self._arguments[key]), extra=self._kept.get(key, {}))
            for key, (id_, name) in sorted(self._calls.items())
        )
        reasoning = tuple(Reasoning(*map("".join, parts)) for _, parts in sorted(self._reasoning.items()))
        return Message("assistant", "".join(self._texts), calls, reasoning=reasoning, extra=self._kept.get(None, {}))


#: Statuses that mean the model did not get to answer.
_FAILED: Final = ("error", "timeout")


@dataclass(frozen=True, slots=True)
class Run:
    """What a run came to. Text, usage and messages are kept whatever the status.

    status    done | incomplete | interrupted | timeout | error
    text      the last reply's text, as far as it arrived
    error     one line when the status is timeout or error, else ""
    limit     what stopped an incomplete run: max_turns, max_tokens, length, loop, refused …; else ""
    usage     summed over the turns
    turns     requests that were answered, wholly or in part
    tool_calls   every call with its result, in order
    messages  the whole history, this run's prompt included, in a form both dialects accept
    seconds, first_token_seconds   wall time; the latter None when no token came
    """

    text: str
    status: RunStatus
    error: str = ""
    limit: str = ""
    usage: Usage = Usage()
    turns: int = 0
    tool_calls: tuple[ToolCall, ...] = ()
    messages: tuple[Message, ...] = ()
    model: str = ""
    soul_digest: str = ""
    seconds: float = 0.0
    first_token_seconds: float | None = None
    reasoning: str = ""
    notices: tuple[str, ...] = ()

    @property
    def is_error(self) -> bool:
        """True for `error` and `timeout`: the model did not get to answer."""
        return self.status in _FAILED

    @property
    def total_tokens(self) -> int | None:
        return self.usage.total

    @property
    def ending(self) -> str:
        """How the run ended, in words: "done", "incomplete: max_turns", "error: …"."""
        detail = self.error or self.limit
        return f"{self.status}: {detail}" if detail else self.status

    def raise_for_status(self) -> Run:
        """Return the run when it is done; raise RunFailed, with the run inside, when it is not."""
        if self.status != "done":
            raise RunFailed(self.ending, self)
        return self

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        turns = "1 turn" if self.turns == 1 else f"{self.turns} turns"
        return f"<Run {self.ending}: {len(self.text)} characters, {turns}, model {self.model}>"
