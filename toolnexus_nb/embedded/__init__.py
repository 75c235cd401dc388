"""Models that need no network and no key: `local`, a real small language model, and `mirror`, none at all.

Border: each answers HTTP behind an httpx transport. Importing this package loads neither
httpx nor the local model's library; opening a model does.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from ..errors import ModelError

if TYPE_CHECKING:
    import httpx

NAMES: Final = ("local", "mirror")


@dataclass(frozen=True, slots=True)
class Embedded:
    """An embedded model, ready to be asked in either dialect.

    `base_url` ends in /v1. `model` is the name to show and to send. Requests go through
    `transport`, which knows the address and the key. `context_tokens` and `count_tokens`
    (text -> tokens, by the model's own tokenizer) are None where there is no limit to
    count against. `default_params` belong below the user's own in the request body.
    """

    base_url: str
    model: str
    transport: httpx.BaseTransport | None = field(default=None, repr=False)
    context_tokens: int | None = None
    count_tokens: Callable[[str], int] | None = field(default=None, repr=False)
    default_params: Mapping[str, Any] = field(default_factory=dict)
    notices: tuple[str, ...] = ()


def default_name() -> str:
    """Return "local" where the local model is installed, else "mirror"; nothing is loaded or started."""
    from . import local

    return "local" if local.is_installed() else "mirror"


def open_embedded(name: str, file: str = "") -> Embedded:
    """Return the embedded model of that name, starting it on first use.

    `file` is the .gguf of `local:FILE.gguf`, "" for the model that comes with the package.
    Raises LocalModelError where that model is not installed or not a model, ModelError
    for a name that is not embedded.
    """
    if name == "local":
        from . import local

        return local.open_local(file)
    if name == "mirror":
        from .mirror import MirrorTransport

        return Embedded("http://mirror.invalid/v1", "mirror", MirrorTransport())
    raise ModelError(f"{name} is not an embedded model: use {' or '.join(NAMES)}")


def describe_embedded(name: str, file: str = "") -> Embedded:
    """Return the embedded model of that name as it will be called, without starting it.

    Raises ModelError for a file that is not there, LocalModelError where the model is not installed.
    """
    if name == "local":
        from . import local

        return local.describe(file)
    return Embedded("http://mirror.invalid/v1", "mirror")
