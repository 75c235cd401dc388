"""What a history needs before a server accepts it back: arguments that parse, names and ids of plain characters.

Border: none. The model wrote all three, so all three may be anything.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any, Final

from ..conversation import Message, ToolCall

_NOT_PLAIN: Final = re.compile(r"[^A-Za-z0-9_-]")
MAX_NAME_CHARACTERS: Final = 64


def sent_arguments(call: ToolCall) -> dict[str, Any]:
    """Return the arguments as the object servers insist on; empty when the model wrote none that JSON can say."""
    try:
        value = json.loads(call.arguments_json)
        json.dumps(value, allow_nan=False)  # Python reads NaN and 1e999, servers do not
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def sent_name(call: ToolCall) -> str:
    """Return the tool's name as servers accept it, also when the model made one up."""
    return _NOT_PLAIN.sub("_", call.name)[:MAX_NAME_CHARACTERS] or "unnamed"


def with_plain_ids(messages: Iterable[Message]) -> Iterator[Message]:
    """Pass messages on with call ids that are plain and occur once; each result follows its call.

    Ids repeat where a server sent none and they were made up, once for each reply.
    """
    taken: set[str] = set()
    open_calls: dict[str, list[str]] = {}
    for message in messages:
        if message.role == "assistant":
            calls = tuple(replace(call, id=_free(call.id, taken)) for call in message.tool_calls)
            for before in message.tool_calls:
                open_calls[before.id] = []
            for before, after in zip(message.tool_calls, calls, strict=True):
                open_calls[before.id].append(after.id)
            yield replace(message, tool_calls=calls)
        elif message.role == "tool" and open_calls.get(message.tool_call_id):
            yield replace(message, tool_call_id=open_calls[message.tool_call_id].pop(0))
        else:
            yield message


def _free(wanted: str, taken: set[str]) -> str:
    plain = _NOT_PLAIN.sub("_", wanted) or "call"
    free, count = plain, 1
    while free in taken:
        count += 1
        free = f"{plain}_{count}"
    taken.add(free)
    return free
