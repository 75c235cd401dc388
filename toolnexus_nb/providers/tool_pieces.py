"""Which pieces of a chat-completions stream make up which tool call.

Border: none. The documented stream gives every call an index, and an id in its first piece;
servers leave out either, give every call the index 0, or every piece a fresh id.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from ..conversation import ToolCallDelta
from .reading import as_json, identifier, mapping, number, objects, string

#: The place of the one call that the old `function_call` field holds.
_LEGACY_PLACE: Final = -1


@dataclass(frozen=True, slots=True)
class _Piece:
    """What one piece says. `index` is None where the server gave none."""

    index: int | None
    id: str
    name: str
    arguments: str


@dataclass(slots=True)
class _Call:
    """A call so far. `place` is the server's index, or where it stood in its list."""

    key: int
    place: int
    id: str = ""
    name: str = ""
    arguments: list[str] = field(default_factory=list)

    def is_followed_by(self, piece: _Piece) -> bool:
        """Say whether a piece at the same place begins another call instead of going on with this one."""
        if not piece.name or not self.name:
            return False
        if piece.name != self.name:
            return True
        if piece.id:
            return piece.id != self.id
        return bool(piece.arguments) and self._is_complete()

    def _is_complete(self) -> bool:
        # Looked at before it is parsed: a server may repeat the name with each of thousands of pieces.
        return self.arguments[-1].rstrip().endswith("}") and self._parses()

    def is_whole(self) -> bool:
        """Say whether nothing is missing: all of an object, or no arguments at all."""
        return not "".join(self.arguments).strip() or self._parses()

    def _parses(self) -> bool:
        try:
            json.loads("".join(self.arguments))
        except (ValueError, RecursionError):
            return False
        return True


class ToolPieces:
    """The calls of one reply, numbered in the order in which they began. True once there is one.

    `keep` is told the key of each entry's call, and the entry as it came.
    """

    def __init__(self, keep: Callable[[int, Mapping[str, Any]], None]) -> None:
        self._keep = keep
        self._calls: list[_Call] = []
        self._latest: dict[int, _Call] = {}
        self._by_id: dict[str, _Call] = {}

    def __bool__(self) -> bool:
        return bool(self._calls)

    @property
    def whole(self) -> bool:
        """Whether the arguments of every call are complete."""
        return all(call.is_whole() for call in self._calls)

    def read(self, delta: Mapping[str, Any]) -> Iterator[ToolCallDelta]:
        """Yield the pieces in a delta, or in a whole message, each under its call's key."""
        entries = objects(delta.get("tool_calls"))
        for place, entry in enumerate(entries):
            # Some servers leave the `function` envelope out: name and arguments stand beside the id.
            function = mapping(entry.get("function", entry))
            yield from self._piece(place, _piece(number(entry.get("index")), identifier(entry.get("id")), function), entry)
        if not entries:
            yield from self._piece(_LEGACY_PLACE, _piece(None, "", mapping(delta.get("function_call"))), {})

    def _piece(self, place: int, piece: _Piece, entry: Mapping[str, Any]) -> Iterator[ToolCallDelta]:
        place = place if piece.index is None else piece.index
        if not (piece.id or piece.name or piece.arguments):
            # It may hold what the dialect does not know, for a call that has begun.
            if place in self._latest:
                self._keep(self._latest[place].key, entry)
            return
        call = self._call(place, piece)
        call.id = call.id or piece.id
        call.name = call.name or piece.name
        call.arguments.append(piece.arguments)
        self._by_id.setdefault(call.id, call)
        self._keep(call.key, entry)
        yield ToolCallDelta(call.key, piece.id, piece.name, piece.arguments)

    def _call(self, place: int, piece: _Piece) -> _Call:
        """Return the call a piece belongs to, a new one where it begins one."""
        call = self._by_id.get(piece.id) if piece.id else None
        # An id is believed unless the index says otherwise: there are servers with one id for all.
        if call is None or piece.index not in (None, call.place):
            call = self._latest.get(place)
        if call is None or call.is_followed_by(piece):
            call = self._latest[place] = _Call(len(self._calls), place)
            self._calls.append(call)
        return call


def _piece(index: int | None, id_: str, function: Mapping[str, Any]) -> _Piece:
    return _Piece(index, id_, string(function.get("name")), _arguments(function.get("arguments")))


def _arguments(value: object) -> str:
    """Return arguments as JSON text; some servers send the object itself."""
    if value is None:
        return ""
    return value if isinstance(value, str) else as_json(value)
