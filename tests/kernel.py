"""A real kernel to ask, as a front end asks one: what it sent for a cell, when, and how long Stop took.

    with Kernel(folder) as kernel:
        cell = kernel.run("1 + 1")
        assert cell.status == "ok"

`run` waits for the end; `start` does not, and `finish` does later. Stop is `kernel.stop(cell)`. MOMENTS are
those at which a run can be stopped; `stopped` does it.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from jupyter_client.manager import KernelManager
from wire_server import WireServer, hang, sse, status

#: No cell of a test takes longer.
MOST_SECONDS = 60.0


@dataclass
class Cell:
    """What the kernel sent for one cell: IOPub messages with the time each arrived, and the reply."""

    id: str
    messages: list[tuple[float, str, dict[str, Any]]] = field(default_factory=list)
    reply: dict[str, Any] = field(default_factory=dict)
    ended: float = 0.0

    @property
    def status(self) -> str:
        return self.reply["status"]

    @property
    def displays(self) -> list[tuple[float, str, dict[str, Any]]]:
        """The messages that show something or show it anew."""
        return [message for message in self.messages if message[1] in ("display_data", "update_display_data", "execute_result")]

    @property
    def page(self) -> list[dict[str, Any]]:
        """What stands on the page in the end: each display in its last state, in order."""
        shown: dict[str, dict[str, Any]] = {}
        for count, (_, _, content) in enumerate(self.displays):
            shown[content.get("transient", {}).get("display_id") or f"unnamed {count}"] = content
        return list(shown.values())

    @property
    def text(self) -> str:
        """What stream and plain text outputs say in the end."""
        streams = [content["text"] for _, kind, content in self.messages if kind == "stream"]
        return "\n".join([*streams, *(content["data"].get("text/plain", "") for content in self.page)])


class Kernel:
    """A kernel in a process of its own, its working directory `folder`; a context manager."""

    def __init__(self, folder: Path) -> None:
        # Over TCP a kernel warns that nothing is encrypted.
        self._manager = KernelManager(kernel_name="python3", transport="ipc", ip=str(folder / "socket"))
        self._folder = folder

    def __enter__(self) -> Kernel:
        self._manager.start_kernel(cwd=str(self._folder))
        self._client = self._manager.blocking_client()
        self._client.start_channels()
        self._client.wait_for_ready(timeout=MOST_SECONDS)
        return self

    def __exit__(self, *_: object) -> None:
        self._client.stop_channels()
        self._manager.shutdown_kernel(now=True)
        self._manager.cleanup_resources()

    def run(self, code: str, *, answer: str | None = None) -> Cell:
        """Run a cell to its end; `answer` is what the person types where the cell asks, None where there is nobody."""
        return self.finish(self.start(code, allow_stdin=answer is not None), answer=answer)

    def start(self, code: str, *, allow_stdin: bool = False) -> Cell:
        return Cell(self._client.execute(code, allow_stdin=allow_stdin, store_history=True))

    def finish(self, cell: Cell, *, answer: str | None = None) -> Cell:
        self.follow(cell, lambda: bool(cell.ended), answer=answer)
        while not cell.reply:
            message = self._client.get_shell_msg(timeout=MOST_SECONDS)
            if message["parent_header"].get("msg_id") == cell.id:
                cell.reply = message["content"]
        return cell

    def follow(self, cell: Cell, until: Callable[[], bool], *, answer: str | None = None) -> None:
        """Collect what the cell sends until something is so."""
        end = time.monotonic() + MOST_SECONDS
        while not until():
            assert time.monotonic() < end, f"nothing came of it: {cell.text}"
            if answer is not None and self._client.stdin_channel.msg_ready():
                self._client.get_stdin_msg(timeout=1)
                self._client.input(answer)
            if self._client.iopub_channel.msg_ready():
                self._keep(cell, self._client.get_iopub_msg(timeout=1))
            else:
                time.sleep(0.002)

    def _keep(self, cell: Cell, message: dict[str, Any]) -> None:
        if message["parent_header"].get("msg_id") != cell.id:
            return
        now, kind, content = time.monotonic(), message["msg_type"], message["content"]
        cell.messages.append((now, kind, content))
        if kind == "status" and content["execution_state"] == "idle":
            cell.ended = now

    def stop(self, cell: Cell) -> float:
        """Press Stop, wait for the end, and return the seconds it took."""
        pressed = time.monotonic()
        self._manager.interrupt_kernel()
        self.finish(cell)
        return cell.ended - pressed


@contextmanager
def deaf_address() -> Iterator[str]:
    """Yield a base URL at which no connection is ever made: the port listens and its queue is full."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen(0)
        waiting = [socket.socket() for _ in range(4)]
        for one in waiting:
            one.setblocking(False)
            one.connect_ex(listening.getsockname())
        yield f"http://127.0.0.1:{listening.getsockname()[1]}/v1"
        for one in waiting:
            one.close()


@contextmanager
def silent_address() -> Iterator[str]:
    """Yield a base URL that takes a connection and never reads from it."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen(8)
        yield f"http://127.0.0.1:{listening.getsockname()[1]}/v1"


# --- the moments of a run ------------------------------------------------------------------------


def said(text: str) -> dict[str, Any]:
    return {"model": "m-1", "choices": [{"index": 0, "delta": {"content": text}}]}


FINISH: dict[str, Any] = {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}


#: A moment is opened on a kernel and yields: the flags of a run that gets there, what tells that it is
#: there, and the server that can tell whether the client hung up, where there is one.
Moment = Callable[["Kernel"], AbstractContextManager[tuple[str, Callable[[Cell], bool], WireServer | None]]]
Opened = Iterator[tuple[str, Callable[[Cell], bool], WireServer | None]]


def shows(words: str) -> Callable[[Cell], bool]:
    return lambda cell: words in cell.page[-1]["data"]["text/html"]


@contextmanager
def connecting(kernel: Kernel) -> Opened:
    with deaf_address() as url:
        yield f"--base-url {url}", shows("reading the soul"), None


@contextmanager
def connected(kernel: Kernel) -> Opened:
    with silent_address() as url:
        yield f"--base-url {url}", shows("reading the soul"), None


@contextmanager
def waiting_for_headers(kernel: Kernel) -> Opened:
    with WireServer([hang()]) as server:
        yield f"--base-url {server.base_url}", lambda _: bool(server.requests), server


@contextmanager
def waiting_for_the_first_event(kernel: Kernel) -> Opened:
    with WireServer([sse(ending="hang")]) as server:
        yield f"--base-url {server.base_url}", lambda _: bool(server.requests), server


@contextmanager
def in_mid_stream(kernel: Kernel) -> Opened:
    with WireServer([sse(said("High "), said("water"), ending="hang")]) as server:
        yield f"--base-url {server.base_url}", shows("High"), server


@contextmanager
def in_a_retry_wait(kernel: Kernel) -> Opened:
    with WireServer([status(503, headers={"Retry-After": "30"})]) as server:
        yield f"--base-url {server.base_url}", shows("HTTP 503: attempt 2 in"), None


@contextmanager
def in_a_tool(kernel: Kernel) -> Opened:
    kernel.run("import time\ndef tide() -> str:\n    time.sleep(30)\n    return 'high'")
    call = {"index": 0, "id": "c1", "function": {"name": "tide", "arguments": "{}"}}
    delta = {"choices": [{"index": 0, "delta": {"content": "I look", "tool_calls": [call]}}]}
    with WireServer([sse(delta, FINISH)]) as server:
        yield f"--base-url {server.base_url} --tool tide", shows("running tide"), None


#: Each moment with the text that has arrived by then.
MOMENTS: dict[Moment, str] = {
    connecting: "",
    connected: "",
    waiting_for_headers: "",
    waiting_for_the_first_event: "",
    in_mid_stream: "High water",
    in_a_retry_wait: "",
    in_a_tool: "I look",
}


def stopped(kernel: Kernel, moment: Moment) -> tuple[Cell, float, bool | None]:
    """Stop a run at a moment; return the cell, the seconds it took, and whether the server was hung up on, None where none can tell."""
    with moment(kernel) as (flags, reached, server):
        cell = kernel.start(f"%%agent kip -m m-1 -o run {flags}\nhello")
        kernel.follow(cell, lambda: bool(cell.page) and reached(cell))
        # What is drawn is drawn just before the kernel gets there.
        time.sleep(0.1)
        seconds = kernel.stop(cell)
        return cell, seconds, server.hung_up.wait(1) if server else None
