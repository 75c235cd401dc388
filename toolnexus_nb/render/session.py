"""A session and a request in words, for %agent and --dry-run.

Border: values only.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from .reply import usage_words
from .view import plural, shown_path, visible, visible_lines

if TYPE_CHECKING:
    from ..providers import WireRequest
    from ..session import Session

#: Headers whose value is never shown.
_SECRET_HEADERS = ("authorization", "x-api-key")


def status_text(session: Session, branches: Sequence[str] = ()) -> str:
    """Return persona, model, soul digest, turns, tokens, branches, and whether the disk has moved on."""
    lines = [*_status(session)]
    if branches:
        lines.append("branches " + ", ".join(branches))
    if not session.agent.home:
        lines.append("memory   off: %agent --load FILE DIR lets it write there")
    return "\n".join(lines)


def _status(session: Session) -> Iterator[str]:
    agent, stale = session.agent, session.stale()
    yield f"persona  {visible(agent.name)}  {shown_path(agent.home) if agent.home else ''}".rstrip()
    yield f"model    {visible(session.model) or 'not run yet'}"
    yield f"soul     sha256 {agent.spec.digest[:12]}, {len(agent.spec.prompt)} characters, frozen"
    yield f"disk     {'changed since: ' + ', '.join(stale) + f'; %soul {agent.name} loads it' if stale else 'unchanged since'}"
    yield f"so far   {plural(session.runs, 'run')}, {plural(session.turns, 'turn')}, {usage_words(session.usage)}"
    if session.edits:
        last = session.edits[-1]
        yield f"memory   {plural(len(session.edits), 'write')}; the last: {last.action} → {last.file}; %agent --undo takes it back"


def history_text(session: Session) -> str:
    """Return the messages of the conversation, one after the other."""
    return visible_lines("\n".join(_history(session)) or "no messages yet")


def _history(session: Session) -> Iterator[str]:
    for message in session.messages:
        yield f"{message.role}{' (error)' if message.is_error else ''}: {message.text}"
        yield from (f"  calls {call.name} {call.arguments_json}" for call in message.tool_calls)


def request_text(request: WireRequest) -> str:
    """Return a request as it would be sent, the key redacted."""
    headers = "\n".join(
        f"{name}: {'[redacted]' if name.lower() in _SECRET_HEADERS else value}" for name, value in sorted(request.headers.items())
    )
    return visible_lines(f"POST {request.url}\n{headers}\n\n{json.dumps(request.body, indent=2, ensure_ascii=False)}")
