"""How long Stop takes at each moment of a run, from the interrupt to the idle kernel: the median of five.

    uv run python tests/benchmarks/bench_stop.py

Also says whether the server saw its connection closed, where it was still busy on one. Exits with 1 when a stop took a second or more.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from kernel import MOMENTS, Kernel, Moment, stopped

TIMES = 5
LIMIT_SECONDS = 1.0


def measured(kernel: Kernel, moment: Moment) -> tuple[list[float], str]:
    """Return the seconds of each stop, and in a word whether every connection was closed."""
    stops = [stopped(kernel, moment) for _ in range(TIMES)]
    closed = {hung_up for _, _, hung_up in stops}
    return [seconds for _, seconds, _ in stops], "NO" if False in closed else "-" if None in closed else "yes"


def main() -> int:
    slowest = 0.0
    print("| moment | median | slowest | connection closed |\n|---|---:|---:|---|")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "kip").mkdir()
        (folder / "kip" / "SOUL.md").write_text("You are Kip.\n", encoding="utf-8")
        with Kernel(folder) as kernel:
            kernel.run("%load_ext toolnexus_nb")
            for moment in MOMENTS:
                seconds, closed = measured(kernel, moment)
                slowest = max(slowest, *seconds)
                words = moment.__name__.replace("_", " ")
                print(f"| {words} | {statistics.median(seconds) * 1e3:.0f} ms | {max(seconds) * 1e3:.0f} ms | {closed} |", flush=True)
    return slowest >= LIMIT_SECONDS


if __name__ == "__main__":
    sys.exit(main())
