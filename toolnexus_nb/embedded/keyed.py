"""The transport to the local server: plain HTTP on loopback, with the key that nobody else has.

Border: httpx.
"""

from __future__ import annotations

import httpx


class KeyedTransport(httpx.BaseTransport):
    """Sends each request with the server's key in place of whatever key it carries.

    May be used again after `close`, because a run opens one client a turn.
    """

    def __init__(self, key: str) -> None:
        self._key = key
        # Loopback has no TLS: without `verify=False`, httpx reads the list of authorities each
        # time. A connection costs nothing here, and one kept open is dropped by the server
        # just when it is used again.
        self._inner = httpx.HTTPTransport(verify=False, trust_env=False, limits=httpx.Limits(max_keepalive_connections=0))

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        request.headers["authorization"] = f"Bearer {self._key}"
        if "x-api-key" in request.headers:
            del request.headers["x-api-key"]
        return self._inner.handle_request(request)

    def close(self) -> None:
        # Closes the connections; the pool opens new ones when it is used again.
        self._inner.close()
