"""The HTTP client of a run: whose proxies and certificates it uses, and how long it waits.

Border: httpx and the environment.
"""

from __future__ import annotations

import functools
import ipaddress
import os
import ssl
from typing import Final

import httpx

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
    Redirects are not followed: the key would travel with them.
    """
    timeout = timeout_of(timeout_seconds)
    if transport is not None:
        return httpx.Client(transport=_Borrowed(transport), timeout=timeout, trust_env=False)
    local = is_loopback(base_url)
    # Plain HTTP to this machine meets no TLS, not even a proxy's: no certificate is needed.
    bare = local and base_url.lower().startswith("http:")
    verify = False if bare else _certificates(os.environ.get("SSL_CERT_FILE"), os.environ.get("SSL_CERT_DIR"))
    return httpx.Client(timeout=timeout, trust_env=not local, verify=verify)


def is_loopback(url: str) -> bool:
    """Say whether an address is this machine's own."""
    try:
        host = httpx.URL(url).host
        return host == "localhost" or host.endswith(".localhost") or ipaddress.ip_address(host).is_loopback
    except (httpx.InvalidURL, ValueError):
        return False


@functools.cache
def _certificates(_file: str | None, _directory: str | None) -> ssl.SSLContext:
    """Load the certificates once, not with every turn: it takes some 70 ms."""
    return httpx.create_ssl_context()


def timeout_of(seconds: float) -> httpx.Timeout:
    return httpx.Timeout(seconds, connect=min(CONNECT_SECONDS, seconds))
