"""Interchangeable wire dialects: pure functions from an Ask to a request and from answers to events.

Border: none; no I/O happens here. `endpoint()` leads from a model's name to the dialect,
address and key to use, `provider()` from a dialect's name to its module.
"""

from __future__ import annotations

from .endpoints import NAMES, endpoint, provider
from .wire import Ask, Endpoint, Provider, Style, WireRequest

__all__ = ["NAMES", "Ask", "Endpoint", "Provider", "Style", "WireRequest", "endpoint", "provider"]
