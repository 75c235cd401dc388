"""A tool call that a model wrote as text."""

from __future__ import annotations

import json
from collections.abc import Collection


def written_call(text: str, names: Collection[str]) -> str:
    """Return the name of the tool that `text`, a JSON object alone, would call; "" where it is none."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return ""
    name = value.get("name", "") if isinstance(value, dict) else ""
    return name if name in names else ""
