"""A conversation as a file: written for its owner alone, read whole and checked before anything is believed.

Border: `disk`. A file may come from anybody, so nothing in it decides where something is written.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final

from . import disk
from .conversation import Message, Reasoning, ToolCall, Usage
from .errors import SessionError

FORMAT: Final = "toolnexus_nb session"
VERSION: Final = 2
#: A longer file is no session of anybody's.
MAX_BYTES: Final = 64 * 1024 * 1024
#: The owner alone may read what was said, and the soul with its secrets.
MODE: Final = 0o600

_ROLES: Final = ("user", "assistant", "tool")
_COUNTS: Final = ("prompt", "completion", "total", "cached", "reasoning")


@dataclass(frozen=True, slots=True)
class Saved:
    """What a session file holds. `soul` is the system prompt as it was sent."""

    name: str
    model: str
    soul: str
    messages: tuple[Message, ...]
    usage: Usage
    turns: int
    runs: int


class _Wrong(Exception):
    """What is wrong with a file, in words."""


def write(path: str | os.PathLike[str], saved: Saved, *, force: bool = False) -> None:
    """Write a session file, readable by its owner alone.

    Raises SessionError where it cannot be written, and, unless `force`, where something
    stands that is no session file.
    """
    shown = os.fsdecode(path)
    if not force and os.path.lexists(path) and not _is_session(path):
        raise SessionError(f"{shown}: exists and is not a saved session: name another file, or add --force to replace it")
    state = {"format": FORMAT, "version": VERSION, **asdict(saved)}
    try:
        disk.write_atomic(path, json.dumps(state, indent=1).encode(), mode=MODE)
    except OSError as error:
        raise SessionError(f"{shown}: cannot be written: {error.strerror}: name another file") from None


def _is_session(path: str | os.PathLike[str]) -> bool:
    try:
        return bool(_state(path)["format"] == FORMAT)
    except (OSError, ValueError, KeyError, TypeError, RecursionError, _Wrong):
        return False


def read(path: str | os.PathLike[str]) -> Saved:
    """Read a session file. Raises SessionError, in one line, for anything that is not whole and right."""
    shown = os.fsdecode(path)
    try:
        return _checked(_state(path))
    except OSError as error:
        fact = f"cannot be read: {error.strerror or error}"
    except _Wrong as wrong:
        fact = f"not a saved session: {wrong}"
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, OverflowError):
        fact = "not a saved session"
    raise SessionError(f"{shown}: {fact}: name a file that %agent --save wrote")


def _state(path: str | os.PathLike[str]) -> Any:
    data, size, _ = disk.read_capped(os.fsdecode(path), MAX_BYTES)
    if size > MAX_BYTES:
        raise _Wrong(f"it has more than {MAX_BYTES // 2**20} MB")
    return json.loads(data, parse_constant=_finite, parse_float=_finite)


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"{text} is no number that JSON can say")
    return value


# --- each value checked ------------------------------------------------------------------------


def _checked(state: Any) -> Saved:
    if not isinstance(state, dict) or state.get("format") != FORMAT:
        raise _Wrong("it does not say that it is one")
    if state.get("version") not in (1, VERSION):
        raise _Wrong(f"its version is {state.get('version')!r}, this program reads {VERSION}")
    messages = tuple(_message(place, message) for place, message in enumerate(_list(state, "messages"), 1))
    _check_answers(messages)
    text = {name: _string(state, name) for name in ("name", "model", "soul")}
    return Saved(**text, messages=messages, usage=_usage(state), turns=_count(state, "turns"), runs=_count(state, "runs"))


def _message(place: int, state: Any) -> Message:
    if not isinstance(state, dict):
        raise _Wrong(f"message {place} is {_kind(state)}")
    role = state.get("role")
    if role not in _ROLES:
        raise _Wrong(f"message {place} has the role {str(role)[:40]!r}")
    calls = tuple(map(_call, _list(state, "tool_calls")))
    reasoning = tuple(map(_reasoning, _list(state, "reasoning")))
    if calls and role != "assistant":
        raise _Wrong(f"message {place} calls tools, and is of the {role}")
    return Message(
        role,
        _string(state, "text"),
        calls,
        _string(state, "tool_call_id"),
        state.get("is_error") is True,
        reasoning,
        _mapping(state, "extra"),
        _string(state, "origin", ""),
    )


def _call(state: Any) -> ToolCall:
    return ToolCall(_string(state, "id"), _string(state, "name"), _string(state, "arguments_json"), extra=_mapping(state, "extra"))


def _reasoning(state: Any) -> Reasoning:
    return Reasoning(_string(state, "text"), _string(state, "signature"), _string(state, "redacted"))


def _check_answers(messages: tuple[Message, ...]) -> None:
    """Both dialects refuse a result without its call, and a call without its result."""
    open_ids: list[str] = []
    for place, message in enumerate(messages, 1):
        if message.role == "tool":
            if message.tool_call_id not in open_ids:
                raise _Wrong(f"message {place} answers a call that nobody made")
            open_ids.remove(message.tool_call_id)
            continue
        if open_ids:
            raise _Wrong(f"message {place} comes before a call is answered")
        open_ids = [call.id for call in message.tool_calls]
    if open_ids:
        raise _Wrong("its last call is not answered")


def _usage(state: Mapping[str, Any]) -> Usage:
    usage = _mapping(state, "usage")
    return Usage(**{name: None if usage.get(name) is None else _count(usage, name) for name in _COUNTS})


def _string(state: Mapping[str, Any], name: str, absent: str | None = None) -> str:
    value = state.get(name, absent)
    if not isinstance(value, str):
        raise _Wrong(f"its {name} is {_kind(value)}, not text")
    return value


def _list(state: Mapping[str, Any], name: str) -> list[Any]:
    value = state[name]
    if not isinstance(value, list):
        raise _Wrong(f"its {name} is {_kind(value)}, not a list")
    return value


def _mapping(state: Mapping[str, Any], name: str) -> dict[str, Any]:
    value = state.get(name, {})
    if not isinstance(value, dict):
        raise _Wrong(f"its {name} is {_kind(value)}, not an object")
    return value


def _count(state: Mapping[str, Any], name: str) -> int:
    value = state[name]
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise _Wrong(f"its {name} is no count")
    return value


def _kind(value: object) -> str:
    names = {dict: "an object", list: "a list", str: "text", bool: "true or false", type(None): "missing"}
    return names.get(type(value), "a number")
