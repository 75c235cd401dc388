"""Kill writers of MEMORY.md at random moments, then let eight processes write at once.

    python tests/benchmarks/memory_kill.py [KILLS]

Prints one summary line for each; leaves with status 1 when a byte is wrong. POSIX only: it forks.
"""

from __future__ import annotations

import os
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from itertools import count
from pathlib import Path

import filelock  # noqa: F401  imported once here, so that no child spends its short life on it

from toolnexus_nb.memory import memory_tool

KILLS = 1_000
WRITERS, LINES = 8, 200
#: Enough bytes that a write in place would be seen half done.
FILLER = b"\xff\xfe not UTF-8, CRLF \r\n" + b"filler \xe2\x82\xac\r\n" * 4_000
#: A child makes a step in one to two milliseconds, so this falls anywhere in the first few.
LONGEST_LIFE_SECONDS = 0.006


def state(number: int, lines: int) -> bytes:
    """Return the file after `number` counter steps and `lines` added entries."""
    added = b"".join(b"- entry %d\r\n" % i for i in range(1, lines + 1))
    return b"counter=%d;\r\n" % number + FILLER + added


def steps(directory: str, at: int, started: int) -> None:
    """Write for ever: step 2n adds an entry, step 2n + 1 moves the counter; never returns."""
    tool = memory_tool(directory)
    for step in count(at):
        n = step // 2
        if step % 2 == 0:
            result = tool.call({"action": "add", "text": f"entry {n + 1}"})
        else:
            result = tool.call({"action": "replace", "text": f"counter={n};", "with": f"counter={n + 1};"})
        if result.is_error:
            os.write(started, result.text.encode())
            os._exit(1)
        if step == at:
            os.write(started, b"1")


def read_step(data: bytes, at: int) -> int | None:
    """Return the step the file is at, found from `at` on; None when it is no step's bytes."""
    for step in range(at, at + 200):
        if data == state(step // 2, (step + 1) // 2):
            return step
    return None


def kill_one(directory: str, at: int, chance: random.Random) -> str:
    """Fork a writer and kill it; return what it said before it died."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            steps(directory, at, writing)
        finally:
            os._exit(2)
    os.close(writing)
    if chance.random() < 0.7:
        # Most are killed in full swing; the rest may not have come to their first write.
        os.read(reading, 1)
    time.sleep(chance.random() * LONGEST_LIFE_SECONDS)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    said = os.read(reading, 1_000).decode()
    os.close(reading)
    return said.strip("1")


def kill_writers(kills: int) -> bool:
    chance, seen, at, most = random.Random(7), Counter[str](), 0, 0
    begun = time.monotonic()
    with tempfile.TemporaryDirectory() as directory:
        file = Path(directory, "MEMORY.md")
        file.write_bytes(state(0, 0))
        for _ in range(kills):
            problem = kill_one(directory, at, chance)
            step = read_step(file.read_bytes(), at)
            if step is None or problem:
                print(f"memory_kill: WRONG after step {at}: {problem or 'the file is neither old nor new'}")
                return False
            seen["steps"] += step - at
            seen["lock left"] += Path(directory, ".toolnexus.lock").exists()
            left = [path for path in Path(directory).iterdir() if path.suffix == ".tmp"]
            seen["temporary left"] += bool(left)
            most = max(most, len(left))
            for path in left:
                # A minute passes between a kill and the next write; here it is only said to have.
                os.utime(path, (0, 0))
            at = step
            if at > 400:
                file.write_bytes(state(0, 0))
                at = 0
        memory_tool(directory).call({"action": "add", "text": "last"})
        rest = sorted(path.name for path in Path(directory).iterdir())
    print(
        f"memory_kill: {kills} writers killed in {time.monotonic() - begun:.0f} s, {seen['steps']} steps: the file was old or new bytes "
        f"every time; {seen['temporary left']} kills left a temporary file (never more than {most} at once), {seen['lock left']} the lock; "
        f"after the next write the directory holds {rest}"
    )
    return rest == ["MEMORY.md"]


def write_lines(directory: str, writer: int) -> None:
    tool = memory_tool(directory)
    for line in range(LINES):
        result = tool.call({"action": "add", "text": f"writer {writer} line {line} " + "x" * (1 + line % 40)})
        if result.is_error:
            print(f"memory_kill: writer {writer}: {result.text}", flush=True)


def write_together() -> bool:
    begun = time.monotonic()
    with tempfile.TemporaryDirectory() as directory:
        children = []
        for writer in range(WRITERS):
            child = os.fork()
            if child == 0:
                try:
                    write_lines(directory, writer)
                finally:
                    os._exit(0)
            children.append(child)
        for child in children:
            os.waitpid(child, 0)
        lines = Path(directory, "MEMORY.md").read_text().splitlines()
        rest = sorted(path.name for path in Path(directory).iterdir())
    entries, wanted = set(lines), {f"- writer {w} line {i} " + "x" * (1 + i % 40) for w in range(WRITERS) for i in range(LINES)}
    print(
        f"memory_kill: {WRITERS} processes x {LINES} lines in {time.monotonic() - begun:.0f} s: {len(wanted & entries)} of {len(wanted)} "
        f"present, {len(lines) - len(wanted & entries)} torn or double; the directory holds {rest}"
    )
    return sorted(lines) == sorted(wanted) and rest == ["MEMORY.md"]


if __name__ == "__main__":
    killed = kill_writers(int(sys.argv[1]) if len(sys.argv) > 1 else KILLS)
    together = write_together()
    sys.exit(not (killed and together))
