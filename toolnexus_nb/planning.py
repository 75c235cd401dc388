"""Where a run goes: a model's name leads to a place, and the place is opened when something is sent.

Border: `embedded`, which starts the local model. Naming a place starts nothing, so that a
request can be shown without a model.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from .embedded import Embedded, default_name, describe_embedded, open_embedded
from .errors import ModelError
from .providers import Endpoint, Style
from .providers.endpoints import TRANSPORT_URL, endpoint
from .spec import Options, Spec

if TYPE_CHECKING:
    import httpx


@dataclass(frozen=True, slots=True)
class Plan:
    """The place of a run: its endpoint, and the embedded model behind it where there is one.

    `transport` is None where httpx's own is used. `file` is the .gguf that was named.
    """

    endpoint: Endpoint
    transport: httpx.BaseTransport | None
    embedded: Embedded | None
    params: Mapping[str, Any]
    file: str = ""


def plan(spec: Spec, options: Options, *, needs_key: bool = True) -> Plan:
    """Return where the run of a Spec goes; nothing is opened, started or sent.

    Raises ModelError for a name that leads nowhere, MissingKeyError with `needs_key` where a
    key is missing, LocalModelError where the local model is not installed.
    """
    name = options.model or (spec.model if spec.model != "inherit" else "") or _default_model(options)
    there = endpoint(
        name,
        base_url=options.base_url,
        style=options.style,
        api_key=options.api_key,
        headers=options.headers,
        needs_key=needs_key and options.transport is None,
    )
    if there.base_url == TRANSPORT_URL and options.transport is None:
        # A request that is only shown needs no key, but it needs a place: this says what is wrong with the name.
        endpoint(name)
    if there.embedded:
        return _inside(there, options)
    return Plan(there, options.transport, None, options.params)


def _inside(there: Endpoint, options: Options) -> Plan:
    inside = describe_embedded(there.embedded, there.model)
    # An embedded model speaks both dialects, so the style is free.
    style: Style = "anthropic" if options.style == "anthropic" else "openai"
    reached = Endpoint(style, inside.base_url, inside.model, embedded=there.embedded)
    params = {**inside.default_params, **options.params}
    if there.embedded == "local" and "seed" in params:
        # A seed asks for the same reply again. What llama.cpp has cached of a prompt was
        # computed in other batches and rounds differently, so the prompt must be read anew.
        params.setdefault("cache_prompt", False)
    return Plan(reached, options.transport, inside, params, there.model)


def opened(named: Plan) -> Plan:
    """Return the plan ready to be asked; an embedded model is started on first use."""
    if named.embedded is None or named.transport is not None:
        return named
    inside = open_embedded(named.endpoint.embedded, named.file)
    reached = replace(named.endpoint, base_url=inside.base_url, model=inside.model)
    return replace(named, endpoint=reached, transport=inside.transport, embedded=inside)


def _default_model(options: Options) -> str:
    if options.base_url or options.transport is not None:
        raise ModelError("no model is named: say which one the server should run: -m NAME, or Options(model=…)")
    return default_name()
