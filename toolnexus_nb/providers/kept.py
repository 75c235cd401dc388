"""Fields of a reply that only their server understands, kept to go back to it as they came.

Border: none. DeepSeek and Kimi want `reasoning_content` back with a tool call, Gemini the `extra_content` of
the call, OpenRouter its `reasoning_details`; what is not known by name is kept by its kind.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from ..conversation import Kept
from .reading import number, objects

#: What stands around a tool call in either dialect and is written anew.
_OF_A_CALL: Final = frozenset(("index", "id", "type", "function", "name", "arguments", "input"))
_OF_A_FUNCTION: Final = frozenset(("name", "arguments"))
#: Fields of a message that carry reasoning, by how their names begin.
_OF_REASONING: Final = ("reasoning", "thinking", "thought", "extra_content", "provider_specific_fields")
#: Refused by some servers, also by the one that sent them, where no call goes with them.
_WITH_CALLS_ONLY: Final = ("reasoning_content", "reasoning")
#: Words about an entry; all others of its strings are text that comes in pieces.
_LABELS: Final = ("type", "format", "id", "index")


class Keeping:
    """The fields of one reply so far."""

    def __init__(self) -> None:
        self._message: dict[str, Any] = {}
        self._calls: dict[int, dict[str, Any]] = {}

    def message(self, delta: Mapping[str, Any]) -> None:
        """Keep what a delta, or a whole message, holds of reasoning."""
        for name, value in delta.items():
            if value and name.startswith(_OF_REASONING):
                self._message[name] = _merged(self._message.get(name), value)

    def call(self, key: int, entry: Mapping[str, Any]) -> None:
        """Keep what a piece of a call holds beyond the dialect."""
        kept = {name: value for name, value in entry.items() if name not in _OF_A_CALL and value is not None}
        function = entry.get("function")
        if isinstance(function, dict) and (more := {n: v for n, v in function.items() if n not in _OF_A_FUNCTION and v is not None}):
            kept["function"] = more
        if kept:
            mine = self._calls.setdefault(key, {})
            for name, value in kept.items():
                mine[name] = _merged(mine[name], value) if name in mine and isinstance(value, dict) else value

    def events(self, *, with_calls: bool) -> Iterator[Kept]:
        """Yield what goes back; `with_calls` says that the reply holds calls."""
        if fields := {name: value for name, value in self._message.items() if with_calls or name not in _WITH_CALLS_ONLY}:
            yield Kept(fields)
        for key, fields in self._calls.items():
            yield Kept(fields, key)


def of_call(fields: Mapping[str, Any], written: Mapping[str, Any]) -> dict[str, Any]:
    """Return a call as it is written, with the fields that were kept; what is written wins."""
    function = {**fields.get("function", {}), **written["function"]}
    return {**fields, **written, "function": function}


def _merged(before: Any, piece: Any) -> Any:
    """Return a value with a later piece of it: text grows, lists by their entries' index, objects by their fields."""
    if isinstance(before, str) and isinstance(piece, str):
        return before + piece
    if isinstance(before, dict) and isinstance(piece, dict):
        return {**before, **{name: _merged(before[name], value) if _grows(before, name) else value for name, value in piece.items()}}
    if isinstance(before, list) and isinstance(piece, list):
        return _joined(before, piece)
    return piece


def _grows(before: Mapping[str, Any], name: str) -> bool:
    return isinstance(before.get(name), dict | list)


def _joined(before: list[Any], more: Iterable[Any]) -> list[Any]:
    joined = list(before)
    for entry in more:
        place = next((place for place, known in enumerate(joined) if _same(known, entry)), None)
        if place is None:
            joined.append(entry)
        else:
            joined[place] = _entry(joined[place], entry)
    return joined


def _same(known: Any, entry: Any) -> bool:
    pair = objects([known, entry])
    return len(pair) == 2 and number(entry.get("index")) is not None and all(pair[0].get(n) == pair[1].get(n) for n in ("index", "type"))


def _entry(known: Mapping[str, Any], piece: Mapping[str, Any]) -> dict[str, Any]:
    merged = dict(known)
    for name, value in piece.items():
        old = merged.get(name)
        grows = isinstance(old, str) and isinstance(value, str) and name not in _LABELS
        merged[name] = old + value if grows else value if value is not None else old
    return merged
