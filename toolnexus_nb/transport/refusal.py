"""What an HTTP error status says: the server's words in one line, and what the person can do.

Border: none. Status, headers and body come in as plain values; the body may be anything.
"""

from __future__ import annotations

import html
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Final

from ..errors import Refused
from ..providers import Ask, Endpoint
from .secrecy import scrub

#: Statuses after which the same request may succeed.
RETRY_STATUSES: Final = frozenset({429, 500, 502, 503, 504, 529})
MAX_WORDS_CHARACTERS: Final = 300

_NO: Final = rb"(?:no|not|n't|cannot|never|un)"
_ROLE: Final = re.compile(
    rb"(?i)\bsystem\b.{0,60}\brole|\brole\b.{0,60}\bsystem\b|\bdeveloper instructions?\b|\bsupported values are:? {0,2}.?developer"
    rb"|\bsystem[ _](?:prompt|message|instruction)s?\b.{0,40}\b" + _NO + rb" ?(?:supported|enabled|allowed|accepted)"
    rb"|" + _NO + rb" support.{0,20}\bsystem[ _](?:prompt|message|instruction)"
    rb"|\bonly user and assistant roles\b|\broles must alternate\b"
)
#: Ollama, OpenRouter, vLLM (two start flags), llama-server, Groq, gateways.
_TOOLS: Final = re.compile(
    rb"(?i)\b(?:tools?|tool (?:use|calling|calls?|choice)|function calling)\b[\"'`]{0,2}.{0,40}\b"
    rb"(?:not supported|unsupported|not available|not permitted|not enabled|not allowed|requires? --jinja)"
    rb"|\b(?:not|n't|no)\b.{0,30}\bsupport.{0,30}\b(?:tools?|function calling|functions)\b"
    rb"|\bsupport tool use\b|--enable-auto-tool-choice|--tool-call-parser|\btools? param\b.{0,40}--jinja"
)
_LOADING: Final = re.compile(
    rb"(?i)\bloading (?:the )?model\b|\bmodel\b.{0,80}\b(?:is|still) (?:still |currently )?(?:being )?load(?:ing|ed)\b"
)
#: Request parameters that have an option of their own.
_FLAGS: Final = ("temperature", "max_tokens", "seed")


@dataclass(frozen=True, slots=True)
class Refusal:
    """An answer with an error status. `headers` have lower-case names; `body` may be cut."""

    status: int
    # The words of a server may hold the key, and a traceback with locals shows a repr.
    reason: str = field(repr=False)
    headers: Mapping[str, str] = field(repr=False)
    body: bytes = field(repr=False)
    #: Scheme, host and port that were asked; the path of the request; where a 3xx points.
    place: str = field(repr=False)
    path: str = field(repr=False)
    target: str = field(default="", repr=False)

    def error(self, ask: Ask) -> Refused:
        """Return the error to raise: who, what, the server's words, the cure; never the key."""
        secrets = ask.endpoint.secrets
        said = server_words(self.body, *secrets) or server_words(self.reason.encode(errors="replace"), *secrets)
        text = ": ".join(filter(None, (self.place, f"HTTP {self.status}", said, self._cure(ask))))
        return Refused(text, status=self.status, retry_after=self.retry_after)

    @property
    def retry_after(self) -> float | None:
        """Seconds the server asks to wait, given as seconds or as a date; None when it does not."""
        value = self.headers.get("retry-after", "").strip()
        if re.fullmatch(r"\d{1,9}(\.\d{1,9})?", value):
            return float(value)
        then = _date(value)
        # The server's own clock, where it tells it, keeps a wrong clock here out of it.
        now = _date(self.headers.get("date", "")) or datetime.now(UTC)
        return max(0.0, (then - now).total_seconds()) if then else None

    def may_pass(self, ask: Ask) -> bool:
        """Say whether the same request may succeed later."""
        return self.status in RETRY_STATUSES and not self.is_about_role(ask)

    def is_loading(self) -> bool:
        """Say whether the server is there and has yet to load its model."""
        return self.status == 503 and bool(_LOADING.search(self.body))

    def is_about_tools(self, ask: Ask) -> bool:
        """Say whether the model, or its server as it was started, takes no tools."""
        sent = bool(ask.tools) and ask.takes_tools
        return sent and self.status in (400, 404, 422, 500, 501) and bool(_TOOLS.search(self.body))

    def is_about_max_tokens(self, ask: Ask) -> bool:
        """Say whether the server wants max_tokens under its newer name."""
        sent = ask.endpoint.style == "openai" and "max_tokens" in ask.params
        return sent and self.status in (400, 422) and b"max_completion_tokens" in self.body

    def is_about_usage(self, ask: Ask) -> bool:
        """Say whether the server does not know `stream_options`."""
        named = b"stream_options" in self.body or b"include_usage" in self.body
        return named and self.status in (400, 422, 500) and ask.include_usage and ask.endpoint.style == "openai"

    def is_about_role(self, ask: Ask) -> bool:
        """Say whether the model takes no system role; chat templates complain with a 500."""
        sent = ask.endpoint.style == "openai" and ask.role == "system" and bool(ask.system)
        return sent and self.status in (400, 422, 500) and bool(_ROLE.search(self.body))

    def _cure(self, ask: Ask) -> str:
        if self.is_about_role(ask):
            return "this model takes no system role: use --role user"
        if self.status in (400, 422) and (name := self._refused_parameter(ask)):
            flag = f"--{name.replace('_', '-')}" if name in _FLAGS else f"--param {name}"
            return f"leave {flag} out"
        match self.status:
            case 401 | 403:
                return f"check the API key ({_key_variable(ask.endpoint)})"
            case 404:
                path = scrub(self.path, *ask.endpoint.secrets)
                return f"check the model's name ({ask.endpoint.model}) and the base URL (asked for {path})"
            case 413:
                return "shorten the soul or the conversation"
            case 429 | 529 if self.retry_after:
                return f"try again in {self.retry_after:.0f} s"
            case status if 300 <= status < 400:
                target = scrub(self.target, *ask.endpoint.secrets) or "elsewhere"
                return f"it redirects to {target}; not followed, the key would travel: correct the base URL"
        return "try again later" if self.status in RETRY_STATUSES else ""

    def _refused_parameter(self, ask: Ask) -> str:
        """Return the first of the parameters that were sent and that the server names."""
        return next((name for name in ask.params if re.search(rb"\b" + re.escape(name.encode()) + rb"\b", self.body)), "")


def _key_variable(there: Endpoint) -> str:
    if there.base_url.startswith("https://openrouter.ai/"):
        return "OPENROUTER_API_KEY"
    return "ANTHROPIC_API_KEY" if there.style == "anthropic" else "OPENAI_API_KEY"


def _date(value: str) -> datetime | None:
    try:
        date = parsedate_to_datetime(value)
    except (ValueError, TypeError, IndexError, OverflowError):
        return None
    return date.replace(tzinfo=UTC) if date.tzinfo is None else date


def server_words(body: bytes, *secrets: str) -> str:
    """Return a body's message in one line of at most 300 characters, without the key."""
    text = body.decode(errors="replace")
    words = "".join(c for c in " ".join(scrub(_message(text), *secrets).split()) if c.isprintable())
    return words if len(words) <= MAX_WORDS_CHARACTERS else f"{words[: MAX_WORDS_CHARACTERS - 1]}…"


def plain_words(words: str, ask: Ask) -> str:
    """Return words of a server without the secrets of the Ask and without control characters."""
    return "".join(c for c in scrub(words, *ask.endpoint.secrets) if c.isprintable())


def _message(text: str) -> str:
    if text.lstrip().startswith("<"):
        return _page_words(text)
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return text
    return _inner_message(value) or text


def _inner_message(value: object) -> str:
    """Find the words in {"error": {"message": …}} and its relatives."""
    while isinstance(value, dict | list):
        if isinstance(value, dict):
            value = [value[key] for key in ("error", "message", "detail", "msg") if value.get(key)]
        if not value:
            return ""
        value = value[0]
    return value if isinstance(value, str) else ""


def _page_words(page: str) -> str:
    """Return a web page's title, or the words of its body."""
    title = re.search(r"(?i)<title[^<>]*>([^<]*)", page)
    return html.unescape(title[1] if title and title[1].strip() else re.sub(r"<[^<>]*>", " ", page))
