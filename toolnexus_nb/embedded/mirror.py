"""The mirror: no language model, a deterministic stand-in that reports what it was sent.

Border: httpx (it is a BaseTransport; nothing leaves the process). Works by itself:
`httpx.Client(transport=MirrorTransport())`.

Lines at the start of the user's text that are one of these tell it how to answer:

    /call TOOL {"key": "value"}    call a tool; several lines are parallel calls
    /loop TOOL {"key": "value"}    call it again after every answer, without an end
    /memory add TEXT               the same as /call memory; also remove TEXT, replace OLD => NEW,
                                   and `/memory user add TEXT` for USER.md
    /reason TEXT                   reason first
    /length                        end with "length", half-way
    /cut                           end half-way, without the terminal event
    /error MESSAGE                 report an error half-way, inside an answer that began well
    /fail STATUS MESSAGE           answer with an HTTP error
    /slow SECONDS                  wait before the answer
    /stall SECONDS                 wait half-way through it

Usage is characters / 4, rounded up, over the system prompt and all messages.
"""

from __future__ import annotations

import hashlib
import json
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Final

import httpx

from . import dialects
from .dialects import Dialect, Entry, Heard, Said

MODEL: Final = "mirror"
#: The headings it looks for. It sees text alone, so it cannot know who wrote one.
_HEADING: Final = re.compile(r"^## (AGENTS|SOUL|IDENTITY|USER|TOOLS|HEARTBEAT|MEMORY)\.md$", re.MULTILINE)
_DIRECTIVE: Final = re.compile(r"/(call|loop|memory|reason|length|cut|error|fail|slow|stall)(?:[ \t]+(.*))?")
_MEMORY: Final = re.compile(r"(?:(self|user)[ \t]+)?(add|replace|remove)[ \t]+(.+)")
_NEWLINE: Final = re.compile(r"\r\n|\r|\n")
_QUOTED_CHARACTERS: Final = 4000


class MirrorTransport(httpx.BaseTransport):
    """Answers POST …/chat/completions and …/v1/messages, as a stream or whole, as the request asks."""

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        dialect = _dialect(request)
        if dialect is None:
            return _refusal(404, "openai", "not_found_error", f"the mirror has no {request.method} {request.url.path}")
        try:
            heard = dialects.read(dialect, json.loads(request.read()))
            orders = _orders(_last_user_text(heard))
        except (ValueError, AttributeError, TypeError) as error:
            return _refusal(400, dialect, "invalid_request_error", f"the mirror cannot read the request: {error}")
        patience = (request.extensions.get("timeout") or {}).get("read")
        _wait(orders.slow, patience)
        if orders.fail:
            status, message = orders.fail
            return _refusal(status, dialect, "mirror_error", message)
        return _answer(heard, orders, patience)


@dataclass(frozen=True, slots=True)
class _Orders:
    """The directives of one user text. `calls` are (tool name, arguments as JSON)."""

    calls: tuple[tuple[str, str], ...] = ()
    loops: tuple[tuple[str, str], ...] = ()
    reason: str = ""
    length: bool = False
    cut: bool = False
    error: str = ""
    fail: tuple[int, str] | None = None
    slow: float = 0.0
    stall: float = 0.0


def _dialect(request: httpx.Request) -> Dialect | None:
    if request.method == "POST" and request.url.path.endswith("/chat/completions"):
        return "openai"
    return "anthropic" if request.method == "POST" and request.url.path.endswith("/v1/messages") else None


def _orders(text: str) -> _Orders:
    """Read the directives at the start of a user text. Raises ValueError for one it cannot follow."""
    orders = _Orders()
    for line in _NEWLINE.split(text):
        match = _DIRECTIVE.fullmatch(line.rstrip())
        if match is None:
            break
        orders = _follow(orders, match[1], (match[2] or "").strip())
    return orders


def _follow(orders: _Orders, word: str, rest: str) -> _Orders:
    name, _, tail = rest.partition(" ")
    change: dict[str, Any]
    match word:
        case "call":
            change = {"calls": (*orders.calls, (name, tail.strip() or "{}"))}
        case "loop":
            change = {"loops": (*orders.loops, (name, tail.strip() or "{}"))}
        case "memory":
            change = {"calls": (*orders.calls, ("memory", _memory_arguments(rest)))}
        case "length" | "cut":
            change = {word: True}
        case "fail":
            change = {"fail": (_status(name), tail or "asked to fail")}
        case "slow" | "stall":
            change = {word: _seconds(word, rest)}
        case _:
            change = {word: rest or "asked to"}
    return replace(orders, **change)


def _status(word: str) -> int:
    if not re.fullmatch(r"[45]\d\d", word, re.ASCII):
        raise ValueError(f"/fail {word} is no error status: write /fail 500 MESSAGE")
    return int(word)


def _seconds(word: str, text: str) -> float:
    if not re.fullmatch(r"\d+(\.\d+)?", text, re.ASCII):
        raise ValueError(f"/{word} {text} is no number of seconds: write /{word} 2")
    return float(text)


def _memory_arguments(rest: str) -> str:
    match = _MEMORY.fullmatch(rest)
    if match is None:
        raise ValueError(f"/memory {rest} is no edit: write /memory add TEXT, remove TEXT or replace OLD => NEW")
    target, action, text = match.groups()
    arguments = {"action": action, "text": text} | ({"target": target} if target else {})
    if action == "replace":
        old, _, new = text.partition(" => ")
        arguments |= {"text": old, "with": new}
    return json.dumps(arguments, ensure_ascii=False)


def _last_user_text(heard: Heard) -> str:
    return next((entry.text for entry in reversed(heard.entries) if entry.role == "user"), "")


def _tool_answers(heard: Heard) -> list[Entry]:
    """Return the tools' answers since the user's last text, the newest turn's alone."""
    answers: list[Entry] = []
    for entry in reversed(heard.entries):
        if entry.role != "tool":
            break
        answers.insert(0, entry)
    return answers


# --- what it says ----------------------------------------------------------------------------


def _said(heard: Heard, orders: _Orders) -> Said:
    answers = _tool_answers(heard)
    calls = orders.loops if answers else (*orders.calls, *orders.loops)
    text = "" if calls else (_report_answers(answers) if answers else _report(heard))
    if orders.length:
        text, calls = text[: len(text) // 2], tuple((name, arguments[: len(arguments) // 2]) for name, arguments in calls)
    turn = sum(entry.role == "assistant" for entry in heard.entries) + 1
    prompt = len(heard.system) + sum(len(entry.text) for entry in heard.entries)
    written = len(text) + len(orders.reason) + sum(len(arguments) for _, arguments in calls)
    return Said(
        text=text,
        finish="length" if orders.length else "tool_calls" if calls else "stop",
        prompt_tokens=_tokens(prompt),
        completion_tokens=_tokens(written),
        reasoning_tokens=_tokens(len(orders.reason)),
        reasoning=orders.reason,
        calls=tuple((f"call_mirror_{turn}_{n}", *call) for n, call in enumerate(calls, 1)),
    )


def _tokens(characters: int) -> int:
    return -(-characters // 4)


def _report(heard: Heard) -> str:
    return "\n\n".join(
        (
            "This is the mirror. I am **no language model**: I only report what I was sent.",
            *_report_soul(heard),
            _report_messages(heard),
            "Your last message:",
            _quote(_last_user_text(heard)),
        )
    )


def _report_soul(heard: Heard) -> list[str]:
    first = next((entry.text for entry in heard.entries if entry.role == "user"), "")
    if heard.system:
        title, soul = "System prompt", heard.system
    elif _HEADING.match(first):
        title, soul = "No system prompt. The first message looks like one", first
    else:
        return ["No system prompt."]
    head = f"{title}: {_size(soul)}, sha256 `{hashlib.sha256(_utf8(soul)).hexdigest()[:12]}`."
    sections = _sections(soul)
    if not sections:
        return [head, "I see none of the seven section headings in it."]
    lines = [f"{n}. `{name}`: {_size(body)}" for n, (name, body) in enumerate(sections, 1)]
    return [head, "The section headings I see in it, in order:", "\n".join(lines)]


def _sections(soul: str) -> list[tuple[str, str]]:
    """Return (file name, body) for each heading line; a body that quotes one counts as two."""
    found = list(_HEADING.finditer(soul))
    ends = [*(match.start() for match in found[1:]), len(soul)][: len(found)]
    return [(match[0][3:], soul[match.end() : end].strip("\n")) for match, end in zip(found, ends, strict=True)]


def _report_messages(heard: Heard) -> str:
    counts = [(sum(entry.role == role for entry in heard.entries), role) for role in ("user", "assistant", "tool")]
    parts = ", ".join(f"{count} {role}" for count, role in counts if count)
    tools = ", ".join(f"`{name}`" for name in heard.tools) or "none"
    return f"Messages: {len(heard.entries)} ({parts}). Tools offered: {tools}."


def _report_answers(answers: list[Entry]) -> str:
    told = [f"The tool `{entry.name or 'unnamed'}` answered:\n\n{_quote(entry.text)}" for entry in answers]
    return "\n\n".join(("This is the mirror, no language model.", *told))


def _size(text: str) -> str:
    return f"{len(text)} characters, {len(_utf8(text))} bytes"


def _utf8(text: str) -> bytes:
    return text.encode(errors="surrogatepass")


def _quote(text: str) -> str:
    """Return the text as a quoted block of code: nothing in it is Markdown any more."""
    more = len(text) - _QUOTED_CHARACTERS
    text = text if more <= 0 else f"{text[:_QUOTED_CHARACTERS]}\n[{more} characters more]"
    fence = "`" * max(3, 1 + max(map(len, re.findall("`+", text)), default=0))
    return "\n".join(f"> {line}".rstrip(" ") for line in (fence, *_NEWLINE.split(text), fence))


# --- how it says it --------------------------------------------------------------------------


def _refusal(status: int, dialect: Dialect, kind: str, message: str) -> httpx.Response:
    return httpx.Response(status, json=dialects.failure(dialect, kind, message))


def _answer(heard: Heard, orders: _Orders, patience: float | None) -> httpx.Response:
    said = _said(heard, orders)
    if heard.stream:
        return httpx.Response(200, headers={"content-type": "text/event-stream"}, stream=_Events(heard, said, orders, patience))
    _wait(orders.stall, patience)
    if orders.error:
        return httpx.Response(200, json=dialects.failure(heard.dialect, "mirror_error", orders.error))
    body = json.dumps(dialects.whole(heard, said, MODEL)).encode()
    return httpx.Response(200, headers={"content-type": "application/json"}, content=body[: len(body) // 2] if orders.cut else body)


@dataclass(frozen=True, slots=True)
class _Events(httpx.SyncByteStream):
    """The events of a streamed answer, with what was ordered to happen half-way."""

    heard: Heard
    said: Said
    orders: _Orders
    patience: float | None

    def __iter__(self) -> Iterator[bytes]:
        events = list(dialects.stream(self.heard, self.said, MODEL))
        half = len(events) // 2
        yield from events[:half]
        _wait(self.orders.stall, self.patience)
        if self.orders.error:
            yield dialects.failure_event(self.heard.dialect, "mirror_error", self.orders.error)
        elif not self.orders.cut:
            yield from events[half:]


def _wait(seconds: float, patience: float | None) -> None:
    """Be silent for `seconds`, or until the client's read timeout would have struck."""
    if not seconds:
        return
    if patience is not None and seconds > patience:
        time.sleep(patience)
        raise httpx.ReadTimeout(f"the mirror was asked to be silent for {seconds:g} s")
    time.sleep(seconds)
