"""How quick compose_soul is, and how much memory it takes.

    uv run --with toolnexus python tests/benchmarks/bench_compose.py

Times compose_soul on a typical persona (seven files of 1 to 8 KB) beside the toolnexus package's
own, where that is installed, and beside the least any composer must do: look, open, read, close,
decode. All take turns in one process in changing order, so that only the ratios of one run say
something; the medians are in microseconds. Then composes a persona with one file of 500 MB in a
fresh process and prints how far its peak memory rose.
"""

from __future__ import annotations

import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from toolnexus_nb.soul import BOOTSTRAP_ORDER, compose_soul

ROUNDS = 3_000
SIZES_BYTES = (8_000, 1_800, 1_728, 2_567, 1_089, 1_305, 1_090)
BIG_BYTES = 500_000_000
#: What a persona's files hold, from plain to mostly beyond ASCII: decoding costs every composer the same.
TEXTS = {
    "ASCII": "The file says: be exact, and be kind to everyone who writes in. Keep notes.\n",
    "one dash a line": "The file says — be exact, and be kind to everyone who writes in. Keep notes.\n",
    "one word in three": "word – é ",
}

#: VmHWM is the peak of this process alone; ru_maxrss would begin with the peak of the parent (Linux both).
PEAK = """
import pathlib, re, sys
from toolnexus_nb.soul import compose_soul
peak = lambda: int(re.search(r"VmHWM:\\s+(\\d+) kB", pathlib.Path("/proc/self/status").read_text())[1]) * 1024
before = peak()
soul = compose_soul(sys.argv[1])
print((peak() - before) / 1e6)
"""


def persona(folder: Path, text: str) -> str:
    for name, size in zip(BOOTSTRAP_ORDER, SIZES_BYTES, strict=True):
        (folder / name).write_text(text * (size // len(text.encode())), encoding="utf-8")
    return str(folder)


def toolnexus() -> Callable[[str], object] | None:
    try:
        from toolnexus.agents.surface import compose_soul as theirs
    except ImportError:
        return None
    return theirs


def bare(directory: str) -> list[str]:
    """Do what cannot be left out, and make no prompt of it."""
    texts = []
    for name in BOOTSTRAP_ORDER:
        path = f"{directory}/{name}"
        size = os.lstat(path).st_size
        descriptor = os.open(path, os.O_RDONLY)
        texts.append(os.read(descriptor, size + 1).decode())
        os.close(descriptor)
    return texts


def plain(directory: str) -> str:
    """Compose as one would at first: exists, open, read, decode, strip."""
    parts = []
    for name in BOOTSTRAP_ORDER:
        path = os.path.join(directory, name)
        if os.path.exists(path):
            with open(path, "rb") as file:
                parts.append(f"## {name}\n\n{file.read().decode().strip()}")
    return "\n\n".join(parts)


def medians(candidates: dict[str, Callable[[str], object]], directory: str) -> dict[str, float]:
    """Return {name: median in microseconds} of candidates that take turns."""
    seconds: dict[str, list[float]] = {name: [] for name in candidates}
    for _ in range(ROUNDS):
        for name in random.sample(list(candidates), len(candidates)):
            start = time.perf_counter()
            candidates[name](directory)
            seconds[name].append(time.perf_counter() - start)
    return {name: statistics.median(times) * 1e6 for name, times in seconds.items()}


def print_speed() -> None:
    theirs = toolnexus()
    other = "toolnexus" if theirs else "plain (toolnexus is not installed)"
    candidates: dict[str, Callable[[str], object]] = {"compose_soul": compose_soul, other: theirs or plain, "bare": bare}
    for label, text in TEXTS.items():
        with tempfile.TemporaryDirectory() as folder:
            times = medians(candidates, persona(Path(folder), text))
        figures = ", ".join(f"{name} {median:.1f} µs" for name, median in times.items())
        print(f"{label}: {times[other] / times['compose_soul']:.2f} times as fast as {other}  ({figures})")


def print_peak() -> None:
    """One file of 500 MB: sparse after its head. One wide character makes Python store all as wide."""
    for label, first in {"ASCII": "a", "a dash first": "–", "an emoji first": "🦞"}.items():
        with tempfile.TemporaryDirectory() as folder:
            big = Path(persona(Path(folder), TEXTS["ASCII"])) / BOOTSTRAP_ORDER[-1]
            big.write_text(first + "a" * 3_000_000, encoding="utf-8")
            os.truncate(big, BIG_BYTES)
            done = subprocess.run([sys.executable, "-c", PEAK, folder], capture_output=True, text=True, check=True)
        print(f"one file of 500 MB, {label}: peak memory {float(done.stdout):.1f} MB above the start")


if __name__ == "__main__":
    print_speed()
    print_peak()
