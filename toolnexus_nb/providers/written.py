"""A tool call that a model wrote as text: a model, or its server, that has no calls of its own.

Border: none. Prose that speaks of a tool, and code about something else, is no call.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator
from typing import Any, Final

#: Longer texts hold a call only at their ends.
_LOOKED_AT: Final = 20_000

#: What announces a call, and the call behind it: Hermes and Qwen, Mistral, Llama 3, Llama 4 and DeepSeek, Granite, Functionary.
_MARKED: Final = re.compile(
    r"(?:<tool_calls?>|</?tool_code>|\[TOOL_CALLS\]|<\|python_tag\|>|<\|tool_call\|>|<｜tool▁call▁begin｜>|<function_calls?>|"
    r"<\|tool▁call▁begin\|>|<\|tool_call_begin\|>)\s*(?:function(?:<｜tool▁sep｜>|\s))?(.{0,400})",
    re.DOTALL,
)
_TAGGED: Final = re.compile(r"<(?:function|invoke|tool)(?:=|\s+name=)[\"']?([A-Za-z0-9_.-]+)")
_FENCE: Final = re.compile(r"^```(?:json|tool_call|tool_code|tool)?[ \t]*\n(.*?)\n```", re.DOTALL | re.MULTILINE)
_PYTHONIC: Final = re.compile(r"^\[?\s*([A-Za-z_][A-Za-z0-9_.]*)\(")
_WORD: Final = re.compile(r"[A-Za-z0-9_.-]+")
_ARGUMENTS: Final = ("arguments", "parameters", "args", "input", "tool_input")
_NAMES: Final = ("name", "tool", "tool_name", "function", "action")


def written_call(text: str, names: Collection[str]) -> str:
    """Return the name of the tool that a reply's text calls in writing; "" where it calls none of `names`."""
    text = text.strip()
    if len(text) > _LOOKED_AT:
        text = f"{text[: _LOOKED_AT // 2]}\n{text[-_LOOKED_AT // 2 :]}"
    return next((name for name in _called(text) if name in names), "")


def _called(text: str) -> Iterator[str]:
    for match in _MARKED.finditer(text):
        yield from _announced(match[1].lstrip())
    yield from (match[1] for match in _TAGGED.finditer(text))
    if text.startswith(("{", "[")):
        yield from _in_json(text)
        if (call := _PYTHONIC.match(text)) and text.endswith("]"):
            yield call[1]
    for match in _FENCE.finditer(text):
        yield from _in_json(match[1].strip())


def _announced(text: str) -> Iterator[str]:
    """Yield the name in what follows an announcement: JSON, name and JSON, or a call in Python."""
    yield from _in_json(text)
    if (match := _WORD.match(text.lstrip("["))) is not None:
        yield match[0]


def _in_json(text: str) -> Iterator[str]:
    """Yield the names of calls in JSON that begins a text."""
    try:
        value, _ = json.JSONDecoder().raw_decode(text)
    except (ValueError, RecursionError):
        return
    for entry in value if isinstance(value, list) else [value]:
        if isinstance(entry, dict):
            yield from _named(entry)


def _named(entry: dict[str, Any]) -> Iterator[str]:
    inner = entry.get("function")
    if isinstance(inner, dict):
        entry = inner
    if not any(name in entry for name in _ARGUMENTS):
        return
    yield from (value for name in _NAMES if isinstance(value := entry.get(name), str))
