"""The bodies of requests and answers: JSON out; in, which kind it is and what it holds.

Border: none. Bytes come in as an iterator of chunks, cut anywhere.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final, Literal

from ..errors import BadReply, ModelError

#: A longer JSON answer is refused; it would be held in memory whole.
MAX_ANSWER_BYTES: Final = 64 * 1024 * 1024

Kind = Literal["sse", "json", "page", "empty", "other"]

_BOM: Final = b"\xef\xbb\xbf"
_SSE_START: Final = re.compile(rb":|(?:data|event|id|retry)[:\r\n]")
#: From this many bytes on it is certain whether a body starts as an event stream does.
_CERTAIN_BYTES: Final = 6


def encoded(body: Mapping[str, Any]) -> bytes:
    """Return the bytes of a JSON request: the same value, the same bytes.

    A lone surrogate, which no encoding can hold, becomes U+FFFD. Raises ModelError for
    what JSON cannot say.
    """
    try:
        text = json.dumps(dict(body), ensure_ascii=False, separators=(",", ":"), allow_nan=False, default=_plain)
    except (TypeError, ValueError, RecursionError) as error:
        raise ModelError(f"the request cannot be written as JSON: {error}: check the parameters and the tools' schemas") from None
    try:
        return text.encode()
    except UnicodeEncodeError:
        # By way of UTF-16 two halves of one character become that character again.
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace").encode()


def _plain(value: object) -> object:
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"{type(value).__name__} is no JSON value")


def first_bytes(chunks: Iterator[bytes]) -> bytes:
    """Read until it is certain what the body is; the BOM and white space before it are dropped."""
    head, at_start = b"", True
    for chunk in chunks:
        head += chunk
        if at_start and len(head) < len(_BOM) and _BOM.startswith(head):
            continue
        if at_start:
            head, at_start = head.removeprefix(_BOM), False
        # Some servers send blank lines while they think; JSON and SSE both ignore them.
        head = head.lstrip()
        if head[:1] in (b"{", b"[", b":") or len(head) >= _CERTAIN_BYTES or b"\n" in head or b"\r" in head:
            break
    return head


def kind_of(head: bytes, content_type: str) -> Kind:
    """Say what a body is. Its first byte is believed before the label: servers mislabel both ways."""
    if not head:
        return "empty"
    match head[:1]:
        case b"{" | b"[":
            return "json"
        case b"<":
            return "page"
    return "sse" if "text/event-stream" in content_type.lower() or _SSE_START.match(head) else "other"


def json_value(chunks: Iterator[bytes]) -> object:
    """Read a JSON answer to its end. Raises BadReply when it is too long or does not parse."""
    parts, size = [], 0
    for chunk in chunks:
        size += len(chunk)
        if size > MAX_ANSWER_BYTES:
            raise BadReply(f"the JSON answer is longer than {MAX_ANSWER_BYTES // 2**20} MB: lower max_tokens, or check the base URL")
        parts.append(chunk)
    value, parsed = parse(b"".join(parts).decode(errors="replace"))
    if not parsed:
        raise BadReply("the JSON answer cannot be parsed: it may have been cut: try again")
    return value


def is_whole_event(data: str) -> bool:
    """Say whether an event's data is whole: JSON, or the openai dialect's last word."""
    return data.strip() == "[DONE]" or parse(data)[1]


def parse(text: str) -> tuple[object, bool]:
    """Return (value, True), or (None, False) for what is not JSON."""
    try:
        return json.loads(text), True
    except (ValueError, RecursionError):
        return None, False
