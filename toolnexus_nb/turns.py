"""The turn loop: a request, its reply, the tools it asks for, and again, to an honest end.

Border: `transport` moves bytes, `providers` speak the dialects, tools do the work.
"""

from __future__ import annotations

import time
from collections.abc import Generator, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from .conversation import (
    Event,
    Finish,
    Message,
    Notice,
    ReasoningDelta,
    Reply,
    Run,
    RunStatus,
    TextDelta,
    Tool,
    ToolCall,
    ToolCallDelta,
    ToolFinished,
    ToolResult,
    ToolStarted,
    TurnStarted,
    Usage,
    Waiting,
)
from .errors import DeadlinePassed, LocalModelError, Stalled, ToolnexusError
from .planning import Plan
from .providers import Ask
from .providers.written import written_call
from .spec import Options, Spec
from .tools import run_tool

if TYPE_CHECKING:
    from .transport import Manners

#: The rule of thumb for tokens where no tokenizer is at hand; always shown with "≈".
CHARACTERS_PER_TOKEN: Final = 4
#: The same call with the same result this often means that the model goes in circles.
LOOP_REPEATS: Final = 3
#: A reply that asks for more calls than this is out of control: the first ones run, then the run ends.
MOST_CALLS: Final = 64
#: Below this share of the estimate the server has most likely not read all that was sent.
_CUT_SHARE: Final = 0.4
_CUT_MIN_TOKENS: Final = 400


@dataclass(slots=True)
class Turns:
    """One run under way: what has been said, used and called so far."""

    spec: Spec
    tools: tuple[Tool, ...]
    prompt: str
    options: Options
    plan: Plan
    messages: list[Message] = field(default_factory=list)
    calls: list[ToolCall] = field(default_factory=list)
    notices: list[str] = field(default_factory=list)
    usage: Usage = Usage()
    turns: int = 0
    text: str = ""
    reasoning: str = ""
    model: str = ""
    reply: Reply | None = None
    started: float = field(default_factory=time.monotonic)
    first_token: float | None = None
    #: What the server of this run has refused, so that no turn asks for it again.
    manners: Manners | None = None

    def stream(self) -> Generator[Event, None, Run]:
        self.messages = [*_answered(self.options.history, self.prompt), Message("user", self.prompt)]
        try:
            # Closed at once, not when it is collected: Stop frees the server, and every call gets its answer.
            with closing(self._turns()) as events:
                for event in events:
                    self._note(event)
                    yield event
            status, error, limit = self._verdict
        except KeyboardInterrupt:
            status, error, limit = "interrupted", "", ""
        except Stalled as stall:
            status, error, limit = "timeout", str(stall), ""
        except DeadlinePassed:
            status, error, limit = "incomplete", "", "seconds"
        except LocalModelError as failure:
            if not self.turns:
                raise
            status, error, limit = "error", str(failure), ""
        except ToolnexusError as failure:
            status, error, limit = "error", str(failure), ""
        self._keep_partial()
        return self._run(status, error, limit)

    _verdict: tuple[RunStatus, str, str] = ("done", "", "")

    def _turns(self) -> Generator[Event, None, None]:
        max_turns = min(self.options.max_turns, self.spec.budget.max_turns or self.options.max_turns)
        yield from map(Notice, self.plan.embedded.notices if self.plan.embedded else ())
        while True:
            if limit := self._spent(max_turns):
                self._verdict = ("incomplete", "", limit)
                return
            yield from self._one_reply()
            ending = self._ending()
            if ending is not None:
                self._verdict = ending
                return
            yield from self._answer_calls({tool.name: tool for tool in self.tools})
            if self._asked > MOST_CALLS and not self._verdict[2]:
                yield Notice(f"the reply asked for {self._asked} tool calls: the first {MOST_CALLS} were run, the rest were not")
                self._verdict = ("incomplete", "", "tool_calls")
            if self._verdict[2]:
                return

    def _spent(self, max_turns: int) -> str:
        budget = self.spec.budget.max_tokens
        if budget is not None and (self.usage.total or 0) >= budget:
            return "max_tokens"
        if self.deadline is not None and time.monotonic() >= self.deadline:
            return "seconds"
        return "max_turns" if self.turns >= max_turns else ""

    @property
    def deadline(self) -> float | None:
        """The moment, on the monotonic clock, at which the run ends; None for an open one."""
        given = [seconds for seconds in (self.options.deadline_seconds, self.spec.budget.seconds) if seconds is not None]
        return self.started + min(given) if given else None

    def _one_reply(self) -> Iterator[Event]:
        from . import transport  # httpx loads with the first request, not with the package

        self.manners = self.manners or transport.Manners()
        system = self.spec.prompt
        ask = Ask(self.plan.endpoint, system, tuple(self.messages), self.tools, self.plan.params, self.options.role)
        estimate = estimate_tokens(system, *(message.text for message in self.messages))
        self._fits(estimate)
        yield TurnStarted(self.turns + 1, estimate, self.plan.endpoint.model)
        self.reply = reply = Reply()
        options, there = self.options, self.plan
        with transport.borrowed_client(
            there.transport, timeout_seconds=options.timeout_seconds, base_url=there.endpoint.base_url
        ) as client:
            for event in transport.stream_reply(
                ask,
                client=client,
                timeout_seconds=options.timeout_seconds,
                deadline=self.deadline,
                retries=options.retries,
                manners=self.manners,
            ):
                if not isinstance(event, Waiting | Notice):
                    reply.add(event)
                yield event
        self._close_reply()
        yield from self._doubts(reply, estimate)

    def _close_reply(self) -> None:
        """Move the reply, whole or not, from the wire into the history."""
        reply, self.reply = self.reply, None
        if reply is None:
            return
        message = replace(reply.message(), origin=self.plan.endpoint.origin)
        self.text = message.text
        self.reasoning = "\n\n".join(filter(None, (self.reasoning, *(block.text for block in message.reasoning))))
        self.usage = self.usage + reply.usage
        self.model = reply.model or self.model
        if reply.finish or message.text or message.tool_calls:
            self.turns += 1
        whole = reply.finish is not None and reply.finish.reason in ("stop", "tool_calls")
        # A call of a reply that did not end well must never run, nor stand unanswered in the history.
        self.messages.append(replace(message, tool_calls=message.tool_calls[:MOST_CALLS] if whole else ()))
        self._finish, self._asked = reply.finish, len(message.tool_calls)

    _finish: Finish | None = None
    #: How many calls the reply asked for, those beyond the cap too.
    _asked: int = 0

    def _ending(self) -> tuple[RunStatus, str, str] | None:
        """Say how the run ends with this reply, or None when tools are to be run first."""
        finish = self._finish
        assert finish is not None  # the providers raise StreamCut otherwise
        calls = self.messages[-1].tool_calls
        if finish.reason in ("stop", "tool_calls"):
            if calls:
                return None
            return ("done", "", "") if finish.reason == "stop" else ("incomplete", "", "tool calls announced, none sent")
        return "incomplete", "", finish.detail or finish.reason if finish.reason == "unknown" else finish.reason

    def _answer_calls(self, tools: Mapping[str, Tool]) -> Iterator[Event]:
        asked = self.messages[-1].tool_calls
        answered: list[ToolCall] = []
        try:
            for call in asked:
                if self._loops(call):
                    self._verdict = ("incomplete", "", "loop")
                    return
                yield ToolStarted(call)
                began = time.monotonic()
                result = run_tool(tools, call)
                done = replace(call, result=result, seconds=time.monotonic() - began)
                answered.append(done)
                self.calls.append(done)
                yield ToolFinished(done)
        finally:
            # Every call has an answer in the history, also when Stop came in between: both
            # dialects refuse a call without one.
            self.messages += [_answer(call) for call in answered]
            self.messages += [_answer(replace(call, result=_NOT_RUN)) for call in asked[len(answered) :]]

    def _loops(self, call: ToolCall) -> bool:
        same = [done.result for done in self.calls if (done.name, done.arguments_json) == (call.name, call.arguments_json)]
        return len(same) >= LOOP_REPEATS and len({result.text for result in same if result}) == 1

    def _fits(self, estimate: int) -> None:
        """Refuse, before the request, what the embedded model's context cannot hold."""
        inside = self.plan.embedded
        if inside is None or inside.context_tokens is None or inside.count_tokens is None:
            return
        # Counting costs a round trip; a quarter of the context by estimate is safely inside.
        if estimate < inside.context_tokens // 4:
            return
        tokens = inside.count_tokens("\n".join((self.spec.prompt, *(message.text for message in self.messages))))
        if tokens >= inside.context_tokens:
            what = "the soul" if self.turns == 0 and not self.options.history else "the conversation"
            raise LocalModelError(
                f"{what} does not fit the local model: {tokens} tokens, its context is {inside.context_tokens}: "
                "shorten it, or name a larger model with -m"
            )

    def _doubts(self, reply: Reply, estimate: int) -> Iterator[Event]:
        read = reply.usage.prompt
        if read is not None and estimate >= _CUT_MIN_TOKENS and read < estimate * _CUT_SHARE:
            yield Notice(f"the server read {read} prompt tokens of ≈ {estimate} sent: it may have cut the soul; check its context length")
        if reply.finish is None or reply.finish.reason != "stop" or self.messages[-1].tool_calls:
            return
        if not self.text:
            yield Notice("the model ended its turn without any text")
        elif name := written_call(self.text, [tool.name for tool in self.tools]):
            yield Notice(f"the model wrote a call of {name} as text, so nothing was run: it may not support tools, or its server does not")

    def _note(self, event: Event) -> None:
        if isinstance(event, Notice):
            self.notices.append(event.text)
        if self.first_token is None and isinstance(event, TextDelta | ReasoningDelta | ToolCallDelta):
            self.first_token = time.monotonic() - self.started

    def _keep_partial(self) -> None:
        """Keep what a broken reply had so far, and leave a history both dialects accept."""
        self._close_reply()
        last = self.messages[-1]
        if last.role == "assistant" and not last.text and not last.tool_calls:
            self.messages.pop()

    def _run(self, status: RunStatus, error: str, limit: str) -> Run:
        return Run(
            text=self.text,
            status=status,
            error=error,
            limit=limit,
            usage=self.usage,
            turns=self.turns,
            tool_calls=tuple(self.calls),
            messages=tuple(self.messages),
            model=self.model or self.plan.endpoint.model,
            soul_digest=self.spec.digest,
            seconds=time.monotonic() - self.started,
            first_token_seconds=self.first_token,
            reasoning=self.reasoning,
            notices=tuple(self.notices),
        )


def _answered(history: tuple[Message, ...], prompt: str) -> tuple[Message, ...]:
    """Return the history without a last prompt that got no answer and is the one to be sent now."""
    unanswered = bool(history) and history[-1] == Message("user", prompt)
    return history[:-1] if unanswered else history


_NOT_RUN: Final = ToolResult("not run: the turn was stopped before this call", is_error=True)


def _answer(call: ToolCall) -> Message:
    result = call.result or _NOT_RUN
    return Message("tool", result.text, tool_call_id=call.id, is_error=result.is_error)


def estimate_tokens(*texts: str) -> int:
    """Return characters / 4, rounded up: an estimate for English, low for CJK."""
    return -(-sum(map(len, texts)) // CHARACTERS_PER_TOKEN)
