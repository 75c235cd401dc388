"""A real kernel to ask, as a front end asks one: what it sent for a cell, when, and how long Stop took.

    with Kernel(folder) as kernel:
        cell = kernel.run("1 + 1")
        assert cell.status == "ok"

`run` waits for the end; `start` does not, and `finish` does later. Stop is `kernel.stop()`.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from jupyter_client.manager import KernelManager

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
