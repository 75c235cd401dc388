"""Reading JSON that a foreign server wrote: each function gives the type it names, whatever came.

Border: none. A value of the wrong type reads as absent; only what makes the whole answer
unusable is a BadReply.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import urlsplit, urlunsplit

from ..errors import BadReply, ModelError
from .surrogates import joined

MAX_WORDS_CHARACTERS: Final = 300
#: Python writes no numbers of more than some thousand digits.
_LARGEST_ID: Final = 2**64


def parsed(data: str) -> dict[str, Any]:
    """Return the object in one event's data. Raises BadReply for what is none."""
    try:
        value = json.loads(data)
    except (ValueError, RecursionError):
        raise BadReply(f"the stream holds data that is not JSON: {one_line(data)}: check the base URL and the server") from None
    return as_object(value, "the stream holds data that is")


def as_object(value: object, found_in: str) -> dict[str, Any]:
    """Return `value` when it is a JSON object. Raises BadReply that begins with `found_in`."""
    if isinstance(value, dict):
        return value
    # Gemini reports an error as a list that holds it.
    for entry in objects(value):
        raise_for_error(entry)
    raise BadReply(f"{found_in} no JSON object: {one_line(as_json(value))}: check the base URL and the server")


def mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def objects(value: object) -> list[Mapping[str, Any]]:
    """Return the objects of a list, without whatever else is in it."""
    return [entry for entry in value if isinstance(entry, dict)] if isinstance(value, list) else []


def string(value: object) -> str:
    return value if isinstance(value, str) else ""


def number(value: object) -> int | None:
    """Return a count; None for what is none. Some servers count in floats."""
    if isinstance(value, bool) or not isinstance(value, int | float) or value < 0:
        return None
    return int(value) if isinstance(value, int) or value.is_integer() else None


def text(value: object) -> str:
    """Return the text of a content field: a string, or a list of parts that hold `text`."""
    if isinstance(value, list):
        return "".join(string(part if isinstance(part, str) else mapping(part).get("text")) for part in value)
    return string(value)


def identifier(value: object) -> str:
    """Return an id as text; some servers number their calls."""
    count = number(value)
    return string(value) if count is None or count > _LARGEST_ID else str(count)


def as_json(value: object) -> str:
    """Write a value that was read from JSON as JSON again. Raises BadReply when it is nested too deep."""
    try:
        return json.dumps(value, ensure_ascii=False)
    except (TypeError, ValueError, RecursionError):
        raise BadReply("the answer holds a value that cannot be written as JSON: check the server") from None


def one_line(words: str) -> str:
    """Return words of a server in one printable line of at most 300 characters."""
    line = "".join(c for c in " ".join(joined(words[: 4 * MAX_WORDS_CHARACTERS]).split()) if c.isprintable())
    return line if len(line) <= MAX_WORDS_CHARACTERS else f"{line[: MAX_WORDS_CHARACTERS - 1]}…"


def raise_for_error(value: Mapping[str, Any], event: str = "") -> None:
    """Raise BadReply when an answer reports an error, in any of the shapes servers use."""
    error = value.get("error")
    if not error and event != "error" and "error" not in (value.get("type"), value.get("object")):
        return
    raise BadReply(f"the server reports an error: {_words(error or value)}")


def _words(error: object) -> str:
    if not isinstance(error, dict):
        return one_line(error if isinstance(error, str) else as_json(error))
    message = next((words for key in ("message", "detail", "msg") if (words := string(error.get(key)).strip())), "")
    kind = string(error.get("type"))
    if not message:
        return one_line(as_json(error))
    return one_line(f"{kind}: {message}" if kind not in ("", "error") else message)


def address(base_url: str, version: str, path: str) -> str:
    """Return the URL of `version` + `path` below a base URL that may hold either already; its query stays at the end.

    Raises ModelError for what is no URL.
    """
    try:
        scheme, host, base, query, _ = urlsplit(base_url)
        base = base.rstrip("/").removesuffix(path).removesuffix(version).rstrip("/")
        return urlunsplit((scheme, host, f"{base}{version}{path}", query, ""))
    except ValueError:
        raise ModelError("the base URL is no address: it looks like http://127.0.0.1:8080/v1") from None
