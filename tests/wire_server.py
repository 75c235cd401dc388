"""A real HTTP server on loopback that misbehaves as its script says.

    with WireServer([status(429, headers={"Retry-After": "0"}), sse("data: hi\\n\\n")]) as server:
        ask(server.base_url)
    assert [request.path for request in server.requests] == ["/v1/chat/completions"] * 2

Each request takes the next Answer of the script; when the script is over the answer is a plain 501.
`Answer` says all there is; the functions below are its usual forms:

    sse(*events)       an event stream, chunked; an event is bytes or str (sent as it is), a dict (one
                       `data:` event) or a (name, dict) pair (with an `event:` line)
    json_reply(value)  a JSON answer        status(code, body)  an error status
    drop()             close without a word; as a second answer this is a dropped keep-alive
    hang()             read the request, never answer

`pieces` mixes bytes (one write each) and floats (seconds of silence in between). `ending` is what follows
them: "whole" ends the body and keeps the connection, "close" ends the body and the connection, "cut" closes in
the middle, "reset" does so with a TCP reset, "hang" leaves it open until the client goes.

`server.requests` are the Requests in order; `server.hung_up` is set as soon as a client
closed a connection on which the server was still busy.
"""

from __future__ import annotations

import gzip
import json
import select
import socket
import struct
import threading
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Literal

#: No wait of the server is longer, whatever a script says.
MAX_SILENCE_SECONDS = 30.0


@dataclass(frozen=True)
class Answer:
    """What the server does with one request."""

    pieces: tuple[bytes | float, ...] = ()
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    framing: Literal["chunked", "length", "close"] = "chunked"
    ending: Literal["whole", "close", "cut", "reset", "hang"] = "whole"
    #: Answer at all; False goes to the ending at once.
    speaks: bool = True

    @property
    def body(self) -> bytes:
        return b"".join(piece for piece in self.pieces if isinstance(piece, bytes))

    def gzipped(self) -> Answer:
        return replace(self, pieces=(gzip.compress(self.body),), headers={**self.headers, "Content-Encoding": "gzip"})

    def in_pieces(self, size: int) -> Answer:
        body = self.body
        return replace(self, pieces=tuple(body[at : at + size] for at in range(0, len(body), size)))

    def cut_at(self, at: int, ending: Literal["close", "cut", "reset", "hang"] = "cut") -> Answer:
        return replace(self, pieces=(self.body[:at],), ending=ending)


def event(what: bytes | str | dict[str, Any] | tuple[str, dict[str, Any]]) -> bytes:
    match what:
        case bytes():
            return what
        case str():
            return what.encode()
        case (name, data):
            return f"event: {name}\ndata: {json.dumps(data)}\n\n".encode()
    return f"data: {json.dumps(what)}\n\n".encode()


def sse(*events: bytes | str | dict[str, Any] | tuple[str, dict[str, Any]] | float, **options: Any) -> Answer:
    pieces = tuple(item if isinstance(item, float) else event(item) for item in events)
    return Answer(pieces, headers={"Content-Type": "text/event-stream", **options.pop("headers", {})}, **options)


def json_reply(value: Any, code: int = 200, **options: Any) -> Answer:
    headers = {"Content-Type": "application/json", **options.pop("headers", {})}
    return Answer((json.dumps(value).encode(),), code, headers, framing=options.pop("framing", "length"), **options)


def status(code: int, body: str | bytes | dict[str, Any] = b"", headers: Mapping[str, str] | None = None, **options: Any) -> Answer:
    if isinstance(body, dict):
        return json_reply(body, code, headers=dict(headers or {}), **options)
    raw = body.encode() if isinstance(body, str) else body
    return Answer((raw,), code, {"Content-Type": "text/html", **(headers or {})}, framing="length", **options)


def drop() -> Answer:
    return Answer(speaks=False, ending="cut")


def reset() -> Answer:
    return Answer(speaks=False, ending="reset")


def hang() -> Answer:
    return Answer(speaks=False, ending="hang")


@dataclass(frozen=True)
class Request:
    """What came in: `headers` have lower-case names, `connection` counts from 1."""

    path: str
    headers: Mapping[str, str]
    body: bytes
    connection: int
    at: float

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class WireServer:
    """The server; a context manager. `base_url` ends in /v1, `root_url` does not."""

    def __init__(self, script: Iterable[Answer]) -> None:
        self.script = list(script)
        self.requests: list[Request] = []
        self.connections = 0
        self.hung_up = threading.Event()
        self.over = threading.Event()
        self._lock = threading.Lock()
        self._server = _Server(("127.0.0.1", 0), _Handler)
        self._server.owner = self
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)

    @property
    def root_url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    @property
    def base_url(self) -> str:
        return f"{self.root_url}/v1"

    def __enter__(self) -> WireServer:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.over.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(5)

    def connected(self) -> int:
        with self._lock:
            self.connections += 1
            return self.connections

    def next_answer(self, request: Request) -> Answer:
        with self._lock:
            self.requests.append(request)
            at = len(self.requests) - 1
            return self.script[at] if at < len(self.script) else status(501, "the script is over")


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 64
    owner: WireServer

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that went away is part of the game."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = 0
    server: _Server

    def setup(self) -> None:
        super().setup()
        self.connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.number = self.server.owner.connected()

    def log_message(self, *_: object) -> None:
        """Tests are quiet."""

    def do_POST(self) -> None:
        headers = {name.lower(): value for name, value in self.headers.items()}
        body = self.rfile.read(int(headers.get("content-length", 0)))
        request = Request(self.path, headers, body, self.number, time.monotonic())
        answer = self.server.owner.next_answer(request)
        try:
            if answer.speaks:
                self._speak(answer)
            self._end(answer)
        except OSError:
            self.server.owner.hung_up.set()
            self.close_connection = True

    def _speak(self, answer: Answer) -> None:
        self.send_response(answer.status)
        for name, value in answer.headers.items():
            self.send_header(name, value)
        match answer.framing:
            case "chunked":
                self.send_header("Transfer-Encoding", "chunked")
            case "length":
                # A cut answer promises more than it sends.
                more = 0 if answer.ending in ("whole", "close") else 1000
                self.send_header("Content-Length", str(len(answer.body) + more))
            case "close":
                self.send_header("Connection", "close")
                self.close_connection = True
        self.end_headers()
        for piece in answer.pieces:
            if isinstance(piece, float):
                self._wait(piece)
            elif piece:
                self.wfile.write(b"%x\r\n%s\r\n" % (len(piece), piece) if answer.framing == "chunked" else piece)
        if answer.framing == "chunked" and answer.ending in ("whole", "close"):
            self.wfile.write(b"0\r\n\r\n")

    def _end(self, answer: Answer) -> None:
        if answer.ending == "whole":
            return
        self.close_connection = True
        if answer.ending == "hang":
            self._wait(MAX_SILENCE_SECONDS)
        if answer.ending == "reset":
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            # shutdown() would send a FIN first; detaching leaves only the reset.
            socket.socket(fileno=self.connection.detach()).close()

    def _wait(self, seconds: float) -> None:
        """Be silent, but notice at once when the client goes or the test is over."""
        end = time.monotonic() + min(seconds, MAX_SILENCE_SECONDS)
        while time.monotonic() < end and not self.server.owner.over.is_set():
            readable, _, _ = select.select([self.connection], [], [], min(0.02, max(0.0, end - time.monotonic())))
            if readable and not self.connection.recv(1, socket.MSG_PEEK):
                raise ConnectionAbortedError
