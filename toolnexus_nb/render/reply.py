"""A run as it appears in a cell: pieces of text, tool rows, notices, and an honest last line.

Border: values only. `Transcript` folds the events of a run into segments. A segment is
sent again while it grows and never after it is closed, so that a long reply costs what
is new, not what is there. The cuts depend on the text alone, not on when it arrived.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from html import escape
from typing import Any, Final

from ..conversation import (
    Event,
    Notice,
    ReasoningDelta,
    Run,
    TextDelta,
    ToolCall,
    ToolFinished,
    ToolStarted,
    TurnStarted,
    Usage,
    Waiting,
)
from ..masked_stream import MaskedStream
from ..masking import mask, masked_strings
from .html import diff_block, inline, style
from .markdown import markdown_html
from .view import number, plural, visible, visible_lines

#: A segment is closed at the first blank line after this many characters …
SEGMENT_CHARACTERS: Final = 1_000
#: … and by force, at a line's end or anywhere, after this many.
SEGMENT_MOST: Final = 4_000
ARGUMENT_CHARACTERS: Final = 2_000

_FENCE: Final = re.compile(r"^ {0,3}(`{3,}|~{3,})(.*)$", re.MULTILINE)
_MARKS: Final = {
    "done": ("✓", "ok"),
    "incomplete": ("◐", "warn"),
    "interrupted": ("■", "warn"),
    "timeout": ("⏱", "bad"),
    "error": ("✕", "bad"),
}
_LIMITS: Final = {
    "max_turns": "the limit on turns was reached",
    "seconds": "the time given with --deadline is over",
    "tool_calls": "the reply asked for more tool calls than one reply may",
    "max_tokens": "the token budget is used up",
    "length": "the reply was cut at the token limit: raise --max-tokens",
    "loop": "the model repeated the same call with the same result",
    "refused": "the provider stopped the reply (content filter or refusal)",
}


@dataclass(slots=True)
class Segment:
    """A part of the transcript with a place of its own on the page."""

    items: list[str | ToolCall | Notice] = field(default_factory=list)
    #: The fence a code block was cut in, opened again at the top of this segment.
    reopened: str = ""

    @property
    def text(self) -> str:
        return "".join(item for item in self.items if isinstance(item, str))

    def add_text(self, text: str) -> None:
        if self.items and isinstance(self.items[-1], str):
            self.items[-1] += text
        elif text:
            self.items.append(text)


@dataclass(slots=True)
class Transcript:
    """The fold of a run's events into segments; `status` is the line shown while it runs."""

    segments: list[Segment] = field(default_factory=lambda: [Segment()])
    status: str = ""
    #: True while nothing arrives and the page's own clock should show the time.
    waiting: bool = True
    reasoning_characters: int = 0
    _text: MaskedStream = field(default_factory=MaskedStream)

    def add(self, event: Event) -> None:
        if not isinstance(event, TextDelta | ReasoningDelta):
            self.end()
        match event:
            case TextDelta(text):
                self.status, self.waiting = "", False
                self._add_text(self._text.add(text))
            case ReasoningDelta(text):
                self.reasoning_characters += len(text)
                self.status, self.waiting = f"reasoning … {number(self.reasoning_characters)} characters", False
            case TurnStarted(turn, estimate, model):
                what = "reading the soul" if turn == 1 else f"turn {turn}"
                self.status, self.waiting = f"{what} (≈ {plural(estimate, 'token')}) · {visible(model)}", True
            case Waiting(seconds, attempt, reason):
                self.status, self.waiting = f"{visible(reason)}: attempt {attempt + 1} in {seconds:.0f} s", False
            case Notice():
                self._last.items.append(event)
            case ToolStarted(call):
                self.status, self.waiting = f"running {visible(call.name)}", True
            case ToolFinished(call):
                self._last.items.append(call)
                self.status = ""
                if len(_arguments(call)) + len(call.result.diff if call.result else "") > SEGMENT_CHARACTERS:
                    self.segments.append(Segment())

    def end(self) -> None:
        """Let out the text that was held back."""
        self._add_text(self._text.end())

    @property
    def _last(self) -> Segment:
        return self.segments[-1]

    def _add_text(self, text: str) -> None:
        # Slices keep one huge delta from making one huge segment.
        for start in range(0, len(text), SEGMENT_CHARACTERS):
            self._last.add_text(text[start : start + SEGMENT_CHARACTERS])
            self._split()

    def _split(self) -> None:
        """Close segments for as long as the last one has a place to be cut."""
        while True:
            segment = self._last
            text = segment.items[-1] if segment.items and isinstance(segment.items[-1], str) else ""
            if len(text) <= SEGMENT_CHARACTERS or not (cut := _cut(text, segment.reopened)):
                return
            at, fence = cut
            segment.items[-1] = text[:at]
            self.segments.append(Segment([text[at:]] if text[at:] else [], fence))


def _cut(text: str, reopened: str) -> tuple[int, str] | None:
    """Return where to cut a text, and the fence that is open there; None to wait for more."""
    fences = [(match.start(), match[1], match[0]) for match in _FENCE.finditer(text)]
    for match in re.finditer(r"\n[ \t]*\n", text[SEGMENT_CHARACTERS:]):
        at = SEGMENT_CHARACTERS + match.end()
        if not _open_fence(fences, at, reopened):
            return at, ""
    if len(text) <= SEGMENT_MOST:
        return None
    newline = text.rfind("\n", SEGMENT_CHARACTERS, SEGMENT_MOST)
    at = newline + 1 if newline > 0 else SEGMENT_MOST
    return at, _open_fence(fences, at, reopened)


def _open_fence(fences: list[tuple[int, str, str]], at: int, reopened: str) -> str:
    """Return the line that opened the code block around offset `at`, "" outside of one."""
    line = reopened
    for start, mark, whole in fences:
        if start >= at:
            break
        if not line:
            line = whole.strip()
        elif mark.startswith(line[: len(line) - len(line.lstrip(line[0]))]):
            line = ""
    return line


def segment_html(transcript: Transcript, index: int, run: Run | None = None) -> str:
    """Return the HTML of one segment; the last one carries the status line, or the end of the run."""
    segment = transcript.segments[index]
    last = index == len(transcript.segments) - 1
    body = "".join(_item_html(segment, item) for item in segment.items)
    tail = ""
    if last:
        tail = _status_html(transcript) if run is None else ending_html(run)
    kind = f" tnx-{_MARKS[run.status][1]}" if run and last else ""
    return f'<div class="tnx tnx-run tex2jax_ignore mathjax_ignore{kind}">{body}{tail}</div>'


def segment_text(transcript: Transcript, index: int, run: Run | None = None) -> str:
    """Return the plain text of one segment, without control characters."""
    segment = transcript.segments[index]
    parts = [item if isinstance(item, str) else _item_text(item) for item in segment.items]
    if run is not None and index == len(transcript.segments) - 1:
        parts.append(ending_text(run))
    return visible_lines("\n".join(part.rstrip("\n") for part in parts))


def heading_html(name: str, soul_words: str, model: str) -> str:
    """Return the line above a reply: who answers, with which soul, on which model. It carries the sheet."""
    words = f"<strong>{escape(visible(name))}</strong> · {escape(visible(model))} · {escape(soul_words)}"
    return f'{style()}<div class="tnx tnx-line">{words}</div>'


def _item_html(segment: Segment, item: str | ToolCall | Notice) -> str:
    if isinstance(item, str):
        text = f"{segment.reopened}\n{item}" if segment.reopened and item is segment.items[0] else item
        return f'<div class="tnx-reply">{markdown_html(text)}</div>'
    if isinstance(item, Notice):
        return f'<div class="tnx-line">ℹ {escape(visible(item.text))}</div>'
    return tool_html(item)


def tool_html(call: ToolCall) -> str:
    """Return a call as a folded row: name, outcome and time; inside, arguments, result and diff."""
    result = call.result
    outcome = "failed" if result and result.is_error else "ok"
    # A write to the persona's memory must be seen, not found: its row stands open.
    opened = " open" if result and result.diff else ""
    answer = f'<pre class="tnx-text">{inline(mask(result.text)[:ARGUMENT_CHARACTERS])}</pre>' if result else ""
    diff = diff_block(result.diff) if result and result.diff else ""
    return (
        f'<details class="tnx-tool"{opened}><summary>{"✕" if outcome == "failed" else "⚙"} {escape(visible(_call_words(call)))}</summary>'
        f'<div class="tnx-in"><pre class="tnx-text">{inline(_arguments(call))}</pre>{answer}{diff}</div></details>'
    )


def _call_words(call: ToolCall) -> str:
    outcome = mask(call.result.text if call.result else "").partition("\n")[0]
    words = outcome if len(outcome) <= 80 else outcome[:79] + "…"
    seconds = f" · {call.seconds:.1f} s" if call.seconds is not None else ""
    return f"{call.name}: {words}{seconds}"


def arguments_text(call: ToolCall, indent: int | None = None) -> str:
    """Return the arguments of a call as JSON, secrets masked; where they are none, the model's own text."""
    if call.problem:
        return mask(call.arguments_json)
    # Once a string, for key blocks; once the whole, for a value whose name says what it is.
    return mask(json.dumps(masked_strings(call.arguments), indent=indent, ensure_ascii=False))


def _arguments(call: ToolCall) -> str:
    return arguments_text(call, 1)[:ARGUMENT_CHARACTERS]


def _item_text(item: ToolCall | Notice) -> str:
    if isinstance(item, Notice):
        return f"ℹ {visible(item.text)}"
    return tool_text(item)


def tool_text(call: ToolCall) -> str:
    """Return a call as plain lines: what was called with what, what came of it, the diff."""
    mark = "✕" if call.result and call.result.is_error else "⚙"
    lines = [
        f"{mark} {_call_words(call)}",
        f"  {arguments_text(call)}",
    ]
    if call.result and call.result.diff:
        lines += [f"  {line}" for line in call.result.diff.splitlines()]
    return visible_lines("\n".join(lines))


def _status_html(transcript: Transcript) -> str:
    if not transcript.status:
        return '<span class="tnx-cursor"></span>'
    clock = ' <span class="tnx-clock"></span>' if transcript.waiting else ""
    return f'<div class="tnx-line">{escape(transcript.status)}{clock}</div>'


def ending_html(run: Run) -> str:
    """Return the end of a run: its last line, the reasoning and the raw text folded."""
    folded = ""
    if run.reasoning:
        folded += _folded(f"reasoning, {number(len(run.reasoning))} characters", mask(run.reasoning))
    if run.text:
        folded += _folded("the reply as it came", mask(run.text))
    return f'<div class="tnx-line">{escape(visible(ending_words(run)))}</div>{folded}'


def _folded(title: str, text: str) -> str:
    return f'<details class="tnx-raw"><summary>{escape(title)}</summary><pre class="tnx-text">{inline(text)}</pre></details>'


def ending_text(run: Run) -> str:
    return visible(ending_words(run))


def ending_words(run: Run) -> str:
    """Return the last line: how the run ended, model, tokens in and out, time, soul."""
    words = [f"{_MARKS[run.status][0]} {_how(run)}", run.model, usage_words(run.usage), _time_words(run)]
    if run.turns > 1:
        words.insert(2, plural(run.turns, "turn"))
    if run.soul_digest:
        words.append(f"soul {run.soul_digest[:12]}")
    return " · ".join(filter(None, words))


def _how(run: Run) -> str:
    if run.status == "incomplete":
        return f"incomplete: {run.limit}: {_LIMITS.get(run.limit, 'the provider stopped for this reason')}"
    if run.status == "interrupted":
        return "interrupted: what had arrived is kept"
    return run.ending


def _time_words(run: Run) -> str:
    first = f" (first token {run.first_token_seconds:.1f} s)" if run.first_token_seconds is not None else ""
    return f"{run.seconds:.1f} s{first}"


def usage_words(usage: Usage) -> str:
    """Return tokens in and out; "tokens not reported" rather than 0."""
    if usage.prompt is None and usage.completion is None:
        return "tokens not reported"
    cached = f" ({number(usage.cached)} cached)" if usage.cached else ""
    reasoning = f" ({number(usage.reasoning)} reasoning)" if usage.reasoning else ""
    return f"{_count(usage.prompt)} tokens in{cached}, {_count(usage.completion)} out{reasoning}"


def _count(value: int | None) -> str:
    return "?" if value is None else number(value)


def run_metadata(run: Run) -> dict[str, Any]:
    """Return what a saved output says of its run: model, status, soul digest, usage, turns."""
    usage = run.usage
    return {
        "model": run.model,
        "status": run.status,
        "limit": run.limit,
        "soul_digest": run.soul_digest,
        "turns": run.turns,
        "usage": {name: getattr(usage, name) for name in ("prompt", "completion", "total", "cached", "reasoning")},
    }


def run_html(run: Run) -> str:
    """Return a finished Run on its own, for a Run that is a cell's last value."""
    return f"{style()}{''.join(_whole(run))}"


def _whole(run: Run) -> Iterator[str]:
    yield f'<div class="tnx tnx-run tex2jax_ignore mathjax_ignore tnx-{_MARKS[run.status][1]}">'
    yield from (tool_html(call) for call in run.tool_calls)
    if run.text:
        yield f'<div class="tnx-reply">{markdown_html(mask(run.text))}</div>'
    yield f"{ending_html(run)}</div>"


def run_text(run: Run) -> str:
    parts = [*(tool_text(call) for call in run.tool_calls), visible_lines(mask(run.text)), ending_text(run)]
    return "\n".join(part for part in parts if part)
