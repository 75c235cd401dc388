"""What can stand at the cursor of a magic's line: (line, cursor, names) -> candidates. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Names:
    """What the candidates are drawn from. `values` gives the choices of a flag that takes one."""

    flags: Sequence[str] = ()
    personas: Sequence[str] = ()
    values: Mapping[str, Sequence[str]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Candidates:
    """The candidates, and the fragment before the cursor that they replace."""

    fragment: str
    words: tuple[str, ...]


def complete(line: str, cursor: int, names: Names) -> Candidates:
    """Return what can replace the word that ends at `cursor` in the arguments `line` of a magic."""
    before = line[:cursor].split(" ")
    fragment, previous = before[-1], before[-2] if len(before) > 1 else ""
    flag, equals, value = fragment.partition("=")
    if equals and flag in names.values:
        fragment, previous = value, flag
    if previous in names.values:
        words = names.values[previous]
    elif fragment.startswith("-"):
        words = names.flags
    else:
        words = names.personas
    return Candidates(fragment, tuple(word for word in words if word.startswith(fragment)))
