"""The HTTP client of a run: whose proxies and certificates it uses, and how long it waits.

Border: httpx and the environment.
"""

from __future__ import annotations

import atexit
import functools
import ipaddress
import os
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.cookiejar import CookieJar, DefaultCookiePolicy
from typing import Final

import httpx

from ..errors import ConnectionFailed

CONNECT_SECONDS: Final = 10.0


class _Borrowed(httpx.BaseTransport):
    """A transport that belongs to the caller: closing the client leaves it open for the next run."""

    def __init__(self, inner: httpx.BaseTransport) -> None:
        self._inner = inner

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        return self._inner.handle_request(request)


def open_client(transport: httpx.BaseTransport | None, *, timeout_seconds: float, base_url: str = "") -> httpx.Client:
    """Return a client for one address; a given `transport` is used as it is and never closed.

    `timeout_seconds` is the silence allowed between bytes. A loopback `base_url` is reached
    without the proxies of the environment: what stays on the machine is nobody else's to see.
    Redirects are not followed: the key would travel with them. Raises ConnectionFailed where
    the environment names a proxy or certificates that cannot be used.
    """
    timeout = timeout_of(timeout_seconds)
    if transport is not None:
        return httpx.Client(transport=_Borrowed(transport), timeout=timeout, trust_env=False)
    local = is_loopback(base_url)
    # Plain HTTP to this machine meets no TLS, not even a proxy's: no certificate is needed.
    verify = False if local and base_url.lower().startswith("http:") else _certificates()
    # No cookie is ever kept: what one run was told is no business of the next.
    jar = CookieJar(policy=DefaultCookiePolicy(allowed_domains=()))
    cause = ""
    try:
        return httpx.Client(timeout=timeout, trust_env=not local, verify=verify, cookies=jar)
    except (ImportError, ValueError, httpx.InvalidURL):
        cause = _wrong_proxy()
    raise ConnectionFailed(cause)


def _wrong_proxy() -> str:
    """Return which variable of the environment keeps a client from being made; its value may hold a password."""
    for name in (name for word in _PROXIES for name in (word, word.lower())):
        value = os.environ.get(name, "")
        try:
            if value:
                httpx.Client(proxy=value if "://" in value else f"http://{value}", trust_env=False, verify=_certificates()).close()
        except ImportError:
            return f"{name} names a SOCKS proxy: that needs the package socksio: pip install 'httpx[socks]', or unset {name}"
        except (ValueError, httpx.InvalidURL):
            return f"{name} is no address of a proxy: write it like http://127.0.0.1:3128, or unset {name}"
    return "NO_PROXY cannot be read: write host names and addresses with commas between them and no brackets, or unset NO_PROXY"


@dataclass(slots=True)
class _Lent:
    """A client that the runs of this process share, and how many of them use it now."""

    client: httpx.Client
    users: int = 0


#: By place and environment; the process counts too, for a forked one must not use its parent's sockets.
_lent: dict[tuple[object, ...], _Lent] = {}
_lock = threading.Lock()
_MOST_LENT: Final = 8


@contextmanager
def borrowed_client(transport: httpx.BaseTransport | None, *, timeout_seconds: float, base_url: str = "") -> Iterator[httpx.Client]:
    """Lend the client of an address; it stays open for the next run. See `open_client`."""
    if transport is not None:
        with open_client(transport, timeout_seconds=timeout_seconds) as own:
            yield own
        return
    key = (os.getpid(), _origin(base_url), *(os.environ.get(name) for name in _VARIABLES))
    with _lock:
        lent = _lent.pop(key, None) or _Lent(open_client(None, timeout_seconds=timeout_seconds, base_url=base_url))
        lent.users += 1
        _lent[key] = lent
        idle = [known for known, one in _lent.items() if not one.users][: max(0, len(_lent) - _MOST_LENT)]
        dropped = [_lent.pop(known) for known in idle]
    for one in dropped:
        one.client.close()
    try:
        yield lent.client
    finally:
        with _lock:
            lent.users -= 1


_PROXIES: Final = ("ALL_PROXY", "HTTPS_PROXY", "HTTP_PROXY")
_VARIABLES: Final = tuple(name for word in (*_PROXIES, "NO_PROXY", "SSL_CERT_FILE", "SSL_CERT_DIR") for name in (word, word.lower()))


def _origin(url: str) -> tuple[str, str, int | None]:
    try:
        there = httpx.URL(url)
    except httpx.InvalidURL:
        return url, "", None
    return there.scheme, there.host, there.port


def _close_lent() -> None:
    for (process, *_), lent in _lent.items():
        if process == os.getpid():
            lent.client.close()


atexit.register(_close_lent)


def is_loopback(url: str) -> bool:
    """Say whether an address is this machine's own."""
    try:
        host = httpx.URL(url).host
        return host == "localhost" or host.endswith(".localhost") or ipaddress.ip_address(host).is_loopback
    except (httpx.InvalidURL, ValueError):
        return False


def _certificates() -> ssl.SSLContext:
    """Return the certificates to trust. Raises ConnectionFailed where a variable names none."""
    names = [name for name in ("SSL_CERT_FILE", "SSL_CERT_DIR") if os.environ.get(name)]
    try:
        return _context(*(os.environ[name] for name in names))
    except (OSError, ssl.SSLError):
        pass
    raise ConnectionFailed(f"{' or '.join(names) or 'the package certifi'} names no certificates that can be read: correct it, or unset it")


@functools.cache
def _context(*_places: str) -> ssl.SSLContext:
    """Load the certificates once, not with every turn: it takes some 70 ms."""
    return httpx.create_ssl_context()


def timeout_of(seconds: float) -> httpx.Timeout:
    return httpx.Timeout(seconds, connect=min(CONNECT_SECONDS, seconds))
