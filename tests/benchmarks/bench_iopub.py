"""What %soul and %%agent send to a front end: IOPub messages, bytes, kernel time, as a Markdown table.

    uv run python tests/benchmarks/bench_iopub.py

A real kernel is asked as JupyterLab asks it, and what comes back on the IOPub socket is counted frame by
frame. Replies come from a server on loopback, at once or at the pace of a model. Exits with 1 when a row
passes its limit.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from jupyter_client import BlockingKernelClient
from jupyter_client.manager import KernelManager

sys.path.insert(0, str(Path(__file__).parents[1]))

from golden.cases import CAP, ORDER
from wire_server import Answer, WireServer, sse

KB = 1024
WAIT_SECONDS = 180
#: Four characters, as a token has on average; a blank line now and then, as a reply has.
TOKENS = ("and ", "then", " it ", "was.")
TOKENS_A_PARAGRAPH = 60


@dataclass(frozen=True, slots=True)
class Traffic:
    """What one cell sent: messages and bytes, and the seconds the kernel was busy."""

    messages: int
    size_bytes: int
    seconds: float


@contextmanager
def kernel(folder: Path) -> Iterator[BlockingKernelClient]:
    """Run a kernel in `folder`, with the extension loaded."""
    # Over TCP a kernel warns that nothing is encrypted.
    manager = KernelManager(kernel_name="python3", transport="ipc", ip=str(folder / "socket"))
    manager.start_kernel(cwd=str(folder))
    client = manager.blocking_client()
    client.start_channels()
    try:
        client.wait_for_ready(timeout=60)
        run(client, "%load_ext toolnexus_nb\nimport toolnexus_nb.render.widget")
        yield client
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)


def run(client: BlockingKernelClient, code: str) -> Traffic:
    """Run a cell as JupyterLab does, cell id and all, and count what comes until the kernel is idle."""
    content = {"code": code, "silent": False, "store_history": True, "user_expressions": {}, "allow_stdin": False, "stop_on_error": True}
    request = client.session.msg("execute_request", content, metadata={"cellId": f"cell-{time.monotonic_ns()}"})
    client.shell_channel.send(request)
    messages = size = 0
    busy = None
    end = time.monotonic() + WAIT_SECONDS
    while time.monotonic() < end:
        if not client.iopub_channel.socket.poll(1_000):
            continue
        frames = client.iopub_channel.socket.recv_multipart()
        message = client.session.deserialize(client.session.feed_identities(frames)[1])
        if message["parent_header"].get("msg_id") != request["msg_id"]:
            continue
        messages, size = messages + 1, size + sum(map(len, frames))
        if message["msg_type"] == "error":
            raise RuntimeError(f"{code}: {message['content']['evalue']}")
        if message["msg_type"] == "status":
            if message["content"]["execution_state"] == "idle":
                return Traffic(messages, size, (message["header"]["date"] - busy).total_seconds())
            busy = message["header"]["date"]
    raise TimeoutError(f"{code}: not done in {WAIT_SECONDS} s")


def reply(tokens: int, per_second: int) -> Answer:
    """Return a streamed answer of `tokens` chunks; a pace of 0 sends all at once."""
    events: list[dict | float | str] = []
    for number in range(tokens):
        text = TOKENS[number % len(TOKENS)] + ("\n\n" if number % TOKENS_A_PARAGRAPH == TOKENS_A_PARAGRAPH - 1 else "")
        events.append({"choices": [{"index": 0, "delta": {"content": text}}]})
        if per_second:
            events.append(1 / per_second)
    events.append(
        {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}], "usage": {"prompt_tokens": 9, "completion_tokens": tokens}}
    )
    return sse(*events, "data: [DONE]\n\n")


def persona(folder: Path, name: str, file_bytes: int) -> str:
    home = folder / name
    home.mkdir()
    line = b"Answer in one line, and say where you have it from.\n"
    for file in ORDER:
        (home / file).write_bytes((line * (file_bytes // len(line) + 1))[:file_bytes])
    return name


def souls(folder: Path) -> Iterator[tuple[str, Traffic, int]]:
    small, large = persona(folder, "small", 12 * KB // 7), persona(folder, "large", CAP + 1)
    newlines = persona(folder, "newlines", 0)
    for file in ORDER:
        (folder / newlines / file).write_bytes(b"x\n" * (CAP // 2 + 1))
    for words, name in (("12 KB", small), ("14 MB", large), ("14 MB of short lines", newlines)):
        with kernel(folder) as client:
            yield f"`%soul`, {words}", run(client, f"%soul {name}"), 256 * KB


def replies(folder: Path) -> Iterator[tuple[str, Traffic, int]]:
    home = persona(folder, "talker", 200)
    for tokens, per_second, limit in ((2_000, 0, KB * KB), (2_000, 100, KB * KB), (2_000, 40, KB * KB), (20_000, 0, 10 * KB * KB)):
        pace = f"{per_second} a second" if per_second else "at once"
        with WireServer([reply(tokens, per_second)]) as server, kernel(folder) as client:
            yield f"`%%agent`, {tokens} chunks, {pace}", run(client, f"%%agent {home} -m any --base-url {server.base_url}\nGo on."), limit


def main() -> int:
    passed = 0
    print("| cell | messages | bytes | limit | kernel time |\n|---|---:|---:|---:|---:|")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for source in (souls, replies):
            for words, traffic, limit in source(folder):
                passed += traffic.size_bytes > limit
                print(f"| {words} | {traffic.messages} | {traffic.size_bytes:,} | {limit:,} | {traffic.seconds:.2f} s |", flush=True)
    return passed > 0


if __name__ == "__main__":
    sys.exit(main())
