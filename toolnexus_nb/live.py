"""A run drawn while it happens: in a notebook cell, or printed in a terminal.

Border: `publish` is handed in, so nothing here imports IPython. Everything is drawn in the
caller's thread.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Generator
from typing import TYPE_CHECKING, Any, Final, Protocol, TextIO

from .conversation import Event, Notice, ReasoningDelta, Run, TextDelta, ToolFinished, ToolStarted, TurnStarted, Waiting
from .masked_stream import MaskedStream
from .render import reply
from .render.text import for_terminal
from .render.view import visible, visible_lines

if TYPE_CHECKING:
    from .memory import MemoryEdit

#: Twelve draws a second: a front end drops messages when they come by the thousand.
REFRESH_SECONDS: Final = 0.08
#: Events that come one at a time; all others may come by the thousand and must not be slowed down.
_STEPS: Final = (TurnStarted, Waiting, Notice, ToolStarted, ToolFinished)


class Publish(Protocol):
    """Show a mimebundle, or show it anew in the place of `display_id`."""

    def __call__(self, data: dict[str, str], *, metadata: dict[str, Any], display_id: str, update: bool) -> None: ...


class Live(Protocol):
    """Something that draws a run: every event, then the end."""

    def show(self, event: Event) -> None: ...

    def question(self, edit: MemoryEdit) -> None: ...

    def finish(self, run: Run) -> None: ...


def drain(stream: Generator[Event, None, Run], live: Live) -> Run:
    """Draw every event and return the Run. An interrupt that falls into the drawing ends the run too."""
    try:
        event = next(stream)
        while True:
            try:
                live.show(event)
            except KeyboardInterrupt as stop:
                event = stream.throw(stop)
            else:
                event = next(stream)
    except StopIteration as end:
        run: Run = end.value
        return run


class CellLive:
    """Draws into the outputs of a notebook cell.

    One output is the heading, which carries the sheet; each segment of the transcript is
    another, sent again only while it grows. Nothing is cleared: what other code of the
    cell has shown stays, and a kernel that dies leaves what was drawn.
    """

    def __init__(self, publish: Publish, name: str, soul_words: str) -> None:
        self._publish, self._name, self._soul_words = publish, name, soul_words
        self._transcript = reply.Transcript()
        self._ids: list[str] = []
        self._open = 0
        self._drawn = 0.0
        self._after_step = False

    def show(self, event: Event) -> None:
        if isinstance(event, TurnStarted) and not self._ids:
            self._heading(event.model)
        self._transcript.add(event)
        step, piece = isinstance(event, _STEPS), isinstance(event, TextDelta | ReasoningDelta)
        if step or (piece and self._after_step):
            # Nothing may follow for long: a tool runs, a server thinks. So this is drawn now, at
            # the pace of the rest.
            time.sleep(max(0.0, REFRESH_SECONDS - (time.monotonic() - self._drawn)))
            self._draw()
            self._after_step = step
        elif piece and time.monotonic() - self._drawn >= REFRESH_SECONDS:
            self._draw()

    def question(self, edit: MemoryEdit) -> None:
        """Show what is about to be written, where the call stands."""
        print(edit.diff)

    def finish(self, run: Run) -> None:
        if not self._ids:
            self._heading(run.model)
        self._transcript.end()
        self._draw(run)

    def _heading(self, model: str) -> None:
        html = reply.heading_html(self._name, self._soul_words, model)
        text = f"{visible(self._name)} · {visible(model)} · {self._soul_words}"
        self._publish({"text/html": html, "text/plain": text}, metadata={}, display_id=f"tnx-{secrets.token_hex(8)}", update=False)

    def _draw(self, run: Run | None = None) -> None:
        segments = self._transcript.segments
        for index in range(self._open, len(segments)):
            self._segment(index, run)
        self._open = len(segments) - 1
        self._drawn = time.monotonic()

    def _segment(self, index: int, run: Run | None) -> None:
        new = index == len(self._ids)
        if new:
            self._ids.append(f"tnx-{secrets.token_hex(8)}")
        last = index == len(self._transcript.segments) - 1
        data = {"text/html": reply.segment_html(self._transcript, index, run)}
        # Text is for what stays; while a segment grows it would double every message.
        data["text/plain"] = reply.segment_text(self._transcript, index, run) if run or not last else "…"
        metadata = {"toolnexus_nb": reply.run_metadata(run)} if run and last else {}
        self._publish(data, metadata=metadata, display_id=self._ids[index], update=not new)


class TerminalLive:
    """Prints a run as it arrives, each character once."""

    def __init__(self, out: TextIO, name: str, soul_words: str) -> None:
        self._out, self._name, self._soul_words = out, name, soul_words
        self._at_start = True
        self._said = ""
        self._text = MaskedStream()

    def show(self, event: Event) -> None:
        if not isinstance(event, TextDelta | ReasoningDelta):
            self._write(visible_lines(self._text.end()))
        match event:
            case TextDelta(text):
                self._write(visible_lines(self._text.add(text)))
            case TurnStarted(1, estimate, model):
                self._line(f"{visible(self._name)} · {visible(model)} · {self._soul_words} · reading ≈ {estimate} tokens")
            case Waiting(_, attempt, reason) if reason != self._said:
                # One line a wait, not one a tick.
                self._said = reason
                self._line(f"{visible(reason)}: waiting before attempt {attempt + 1}")
            case ToolFinished(call):
                self._line(reply.tool_text(call))
            case Notice(text):
                self._line(f"ℹ {visible(text)}")

    def question(self, edit: MemoryEdit) -> None:
        """Show what is about to be written, where the call stands."""
        self._line(edit.diff)

    def finish(self, run: Run) -> None:
        self._write(visible_lines(self._text.end()))
        self._line(reply.ending_text(run))

    def _line(self, text: str) -> None:
        self._write(("" if self._at_start else "\n") + text + "\n")

    def _write(self, text: str) -> None:
        if text:
            self._out.write(for_terminal(text, getattr(self._out, "encoding", None) or "utf-8"))
            self._out.flush()
            self._at_start = text.endswith("\n")
