"""Why nothing answered: the operating system's and TLS's reasons, in words with a cure.

Border: none. HTTP libraries wrap the reason; it is found along the chain of causes.
"""

from __future__ import annotations

import socket
import ssl


def fact_and_cure(error: BaseException) -> str:
    """Return why a connection failed, as "fact: cure"."""
    causes = _causes(error)
    for kind, words in _REASONS:
        if any(isinstance(cause, kind) for cause in causes):
            return words
    return "the connection broke before an answer came: try again"


def is_lasting(error: BaseException) -> bool:
    """Say whether another attempt would fail in the same way: TLS does not mend itself."""
    return any(isinstance(cause, ssl.SSLError) for cause in _causes(error))


#: The first that fits; a certificate error is a TLS error too.
_REASONS: tuple[tuple[type[BaseException], str], ...] = (
    (ConnectionRefusedError, "connection refused: is the server running?"),
    (socket.gaierror, "unknown host: check the base URL and the network"),
    (ssl.SSLCertVerificationError, "its certificate is not trusted: check the address, or set SSL_CERT_FILE"),
    (ssl.SSLError, "no TLS there: does the server speak https, or only http?"),
)


def _causes(error: BaseException | None) -> list[BaseException]:
    causes: list[BaseException] = []
    while error is not None and error not in causes:
        causes.append(error)
        error = error.__cause__ or error.__context__
    return causes
