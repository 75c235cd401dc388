"""What a history needs before a server accepts it back: arguments that parse, ids that occur once, calls that are answered.

Border: none. Models and servers wrote all of it, so all of it may be anything.
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
_MAX_ID_CHARACTERS: Final = 64
_NO_RESULT: Final = "no result: the conversation went on before this call was answered"


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


def sound(messages: Iterable[Message], origin: str, *, tools: bool) -> Iterator[Message]:
    """Pass a history on as the server named `origin` accepts it.

    Every call has an id that is plain and occurs once, and one result right behind it; a result
    without a call is told as a user's message. Without `tools` all calls are told as text.
    """
    ids = _Ids(origin)
    #: The calls not answered yet: the id in the history, the id that is sent.
    waiting: list[tuple[str, str]] = []
    #: Results without a call, told once the calls before them are answered.
    strays: list[Message] = []
    for message in messages:
        if message.role == "tool":
            sent = next((pair for pair in waiting if pair[0] == message.tool_call_id), None)
            if sent is None:
                strays.append(Message("user", f"[the result of a tool call]\n{message.text}"))
            else:
                waiting.remove(sent)
                yield replace(message, tool_call_id=sent[1])
            continue
        yield from _settled(waiting, strays)
        waiting, strays = [], []
        if not tools and message.tool_calls:
            yield replace(message, text=_told(message), tool_calls=())
            continue
        calls = tuple(replace(call, id=ids.free(call.id, message.origin)) for call in message.tool_calls)
        waiting = [(before.id, after.id) for before, after in zip(message.tool_calls, calls, strict=True)]
        yield replace(message, tool_calls=calls)
    yield from _settled(waiting, strays)


def _settled(waiting: Iterable[tuple[str, str]], strays: Iterable[Message]) -> Iterator[Message]:
    for _, id_ in waiting:
        yield Message("tool", _NO_RESULT, tool_call_id=id_, is_error=True)
    yield from strays


def _told(message: Message) -> str:
    calls = (f"[a call of the tool {call.name}: {call.arguments_json}]" for call in message.tool_calls)
    return "\n".join(filter(None, (message.text, *calls)))


class _Ids:
    """The ids of one request. A server's own id goes back to it; all others are made up by their place."""

    def __init__(self, origin: str) -> None:
        self._origin = origin
        self._taken: set[str] = set()
        self._count = 0

    def free(self, wanted: str, origin: str) -> str:
        known = origin in ("", self._origin) and 0 < len(wanted) <= _MAX_ID_CHARACTERS and not _NOT_PLAIN.search(wanted)
        while not known or wanted in self._taken:
            # Nine letters and digits: Mistral takes no other ids.
            wanted, known = f"call{self._count:05d}", True
            self._count += 1
        self._taken.add(wanted)
        return wanted
