"""From a model's name to its endpoint: dialect, address and key; from a dialect's name to its module.

Border: the environment, read for keys when `endpoint` is called.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple
from urllib.parse import urlsplit

from ..errors import MissingKeyError, ModelError
from . import anthropic, openai
from .wire import Endpoint, Provider, Style


class _Place(NamedTuple):
    """A place models are served at; `key_variable` is "" where no key is needed."""

    style: Style
    base_url: str
    key_variable: str = ""
    #: The server runs one model, which needs no name.
    nameless: bool = False


_PLACES: Final[Mapping[str, _Place]] = {
    "openai": _Place("openai", "https://api.openai.com/v1", "OPENAI_API_KEY"),
    "anthropic": _Place("anthropic", "https://api.anthropic.com", "ANTHROPIC_API_KEY"),
    "openrouter": _Place("openai", "https://openrouter.ai/api/v1", "OPENROUTER_API_KEY"),
    "ollama": _Place("openai", "http://127.0.0.1:11434/v1"),
    "lmstudio": _Place("openai", "http://127.0.0.1:1234/v1"),
    "llamacpp": _Place("openai", "http://127.0.0.1:8080/v1", nameless=True),
}
_EMBEDDED: Final = ("local", "mirror")
_STYLES: Final[Mapping[str, Style]] = {"openai": "openai", "anthropic": "anthropic"}
_PROVIDERS: Final[Mapping[str, Provider]] = {"openai": openai, "anthropic": anthropic}

#: What may stand before the colon of a model's name, or alone where it is embedded.
NAMES: Final = (*_EMBEDDED, *_PLACES)
#: Where requests go that the caller's own transport answers; the name can never be resolved.
TRANSPORT_URL: Final = "http://transport.invalid/v1"


def provider(style: str) -> Provider:
    """Return the dialect of that name. Raises ModelError for a name that is none."""
    return _PROVIDERS[_style(style, "openai")]


def endpoint(
    model: str,
    *,
    base_url: str = "",
    style: str = "",
    api_key: str = "",
    headers: Mapping[str, str] | None = None,
    needs_key: bool = True,
    environ: Mapping[str, str] | None = None,
) -> Endpoint:
    """Return where a model of that name is reached.

    `model` is PLACE:NAME (`ollama:llama3.2:1b`), `local`, `local:FILE.gguf` or `mirror`; with a
    `base_url` any name will do, and a PLACE before it picks dialect and key. `style` overrides
    the dialect. The key is `api_key`, else the place's variable in `environ` (None: os.environ, as
    it is now). With `needs_key` False the caller answers the requests itself: no key and no
    place are needed.

    Raises ModelError for a name that leads nowhere, a bad address, dialect or key;
    MissingKeyError where a key is needed and there is none.
    """
    environ = os.environ if environ is None else environ
    model = model.strip()
    prefix, colon, name = model.partition(":")
    prefix = prefix.strip().lower()
    if base_url.strip():
        there = _PLACES.get(prefix) if colon else None
        dialect = _style(style, there.style if there else "openai")
        variable = there.key_variable if there else _PLACES[dialect].key_variable
        return Endpoint(dialect, _checked_url(base_url), name if there else model, _key(api_key, variable, environ), headers=headers or {})
    if prefix in _EMBEDDED:
        return Endpoint(_style(style, "openai"), "", _embedded_file(prefix, name), embedded=prefix)
    if prefix in _PLACES and (colon or _PLACES[prefix].nameless):
        return _at_place(prefix, name.strip(), style, _key(api_key, _PLACES[prefix].key_variable, environ), headers or {}, needs_key)
    if needs_key:
        raise ModelError(_no_endpoint(model, prefix if colon else "", name))
    return Endpoint(_style(style, "openai"), TRANSPORT_URL, model, _key(api_key, "", environ), headers=headers or {})


def _at_place(prefix: str, name: str, style: str, key: str, headers: Mapping[str, str], needs_key: bool) -> Endpoint:
    there = _PLACES[prefix]
    if not name and not there.nameless:
        raise ModelError(f"model '{prefix}:': no model is named: use {prefix}:NAME")
    if there.key_variable and not key and not headers and needs_key:
        raise MissingKeyError(f"no API key for {prefix}: set {there.key_variable}, or use -m local")
    return Endpoint(_style(style, there.style), there.base_url, name, key, headers=headers)


def _embedded_file(prefix: str, name: str) -> str:
    if prefix == "mirror" and name:
        raise ModelError(f"model 'mirror:{name}': the mirror has no models: use mirror")
    return name.strip()


def _style(style: str, default: Style) -> Style:
    wanted = style.strip().lower() or default
    if wanted not in _STYLES:
        raise ModelError(f"style {style!r}: there is no such dialect: use openai or anthropic")
    return _STYLES[wanted]


# --- the key ----------------------------------------------------------------------------------


def _key(given: str, variable: str, environ: Mapping[str, str]) -> str:
    """Return the key to send, "" when there is none. The key is never part of an error."""
    source = "api_key" if given.strip() else variable
    key = given.strip() or (environ.get(variable, "").strip() if variable else "")
    if not (key.isascii() and key.isprintable()):
        raise ModelError(f"the API key in {source}: it holds a line break or another character that no key has: copy it anew")
    return key


# --- the address ------------------------------------------------------------------------------


def _checked_url(base_url: str) -> str:
    """Return the address without blanks around it and slashes behind it. Raises ModelError."""
    url = base_url.strip()
    try:
        parts = urlsplit(url)
        host, _port = parts.hostname, parts.port
    except ValueError:
        raise ModelError(f"base URL {_shown(url)}: not a valid address: write it like http://127.0.0.1:8080/v1") from None
    if "@" in parts.netloc:
        # An address is shown in many places; a password in it would be too.
        raise ModelError(f"base URL {_shown(url)}: it holds a user name or password: give a key as api_key or in the environment")
    if parts.scheme not in ("http", "https") or not host or re.search(r"[\s\x00-\x1f\x7f]", base_url.strip()):
        raise ModelError(f"base URL {_shown(url)}: not an http:// or https:// address: write it like http://127.0.0.1:8080/v1")
    return url.rstrip("/")


def _shown(url: str) -> str:
    """Return the address in quotes, without user, password and query, in one line."""
    return repr(re.sub(r"[?#].*", "", re.sub(r"^([^/]*//)?[^/]*@", r"\1", url), flags=re.DOTALL)[:100])


# --- a name that leads nowhere ----------------------------------------------------------------


def _no_endpoint(model: str, prefix: str, name: str) -> str:
    if not model:
        return "no model is named: use -m openai:NAME, -m local, or another of " + ", ".join(NAMES)
    model = " ".join(model.split())[:100]
    subject = f"model {model!r}: no endpoint is named"
    if model.lower() in _PLACES:
        return f"{subject}: use {model.lower()}:NAME"
    meant = _nearest(prefix or model, NAMES)
    if meant:
        return f"{subject} {prefix or model}: did you mean {meant}{':' + name if prefix and meant != 'mirror' else ''}?"
    return f"{subject}: use {_likely_place(model)}:{model}, or --base-url URL"


def _nearest(word: str, words: Iterable[str]) -> str:
    import difflib  # only a mistake needs it

    return next(iter(difflib.get_close_matches(word[:40].lower(), words, n=1, cutoff=0.75)), "")


def _likely_place(model: str) -> str:
    if model.lower().startswith("claude"):
        return "anthropic"
    if "/" in model:
        return "openrouter"
    return "ollama" if ":" in model else "openai"
