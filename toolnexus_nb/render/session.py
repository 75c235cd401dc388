"""A session and a request in words, for %agent and --dry-run.

Border: values only.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final
from urllib.parse import parse_qsl

from ..masking import mask, masked_strings
from .reply import arguments_text, usage_words
from .view import plural, shown_path, visible, visible_lines

if TYPE_CHECKING:
    from ..providers import WireRequest
    from ..session import Session

#: Headers whose value may be shown; any other may be a gateway's key.
_OPEN_HEADERS: Final = ("accept", "anthropic-version", "content-type")
_REDACTED: Final = "[redacted]"


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
        yield f"{message.role}{' (error)' if message.is_error else ''}: {mask(message.text)}"
        yield from (f"  calls {call.name} {arguments_text(call)}" for call in message.tool_calls)


def request_text(request: WireRequest) -> str:
    """Return a request as it would be sent, all that may be secret masked: headers, query, soul, messages."""
    headers = "\n".join(f"{name}: {value if name in _OPEN_HEADERS else _REDACTED}" for name, value in sorted(request.headers.items()))
    body = json.dumps(masked_strings(request.body), indent=2, ensure_ascii=False)
    return visible_lines(f"POST {_open_url(request.url)}\n{headers}\n\n{body}")


def _open_url(url: str) -> str:
    """Return an address whose query shows its names, and of its values only the version."""
    place, mark, query = url.partition("?")
    pairs = [f"{name}={value if name == 'api-version' else _REDACTED}" for name, value in parse_qsl(query, keep_blank_values=True)]
    return f"{place}{mark}{'&'.join(pairs)}"
