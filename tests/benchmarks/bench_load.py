"""How long `%load_ext toolnexus_nb` takes in a running IPython, in milliseconds.

    uv run python tests/benchmarks/bench_load.py

Each time is taken in a process of its own, since a second load finds everything imported. The
shell has loaded another extension before: what IPython imports for its first %load_ext is not
counted. Run it twice where the package is new: the first run writes the bytecode.
"""

from __future__ import annotations

import statistics
import subprocess
import sys

PROCESSES = 15
LOAD = """
import time
from IPython.core.interactiveshell import InteractiveShell
from traitlets.config import Config
config = Config()
config.HistoryManager.enabled = False
shell = InteractiveShell.instance(config=config)
shell.run_cell("%lsmagic", silent=True)
shell.run_cell("%load_ext autoreload", silent=True)
start = time.perf_counter()
shell.run_line_magic("load_ext", "toolnexus_nb")
seconds = time.perf_counter() - start
assert "soul" in shell.magics_manager.magics["line"]
print(seconds * 1e3)
"""


def load_milliseconds() -> float:
    done = subprocess.run([sys.executable, "-c", LOAD], capture_output=True, text=True, check=True)
    return float(done.stdout.splitlines()[-1])


if __name__ == "__main__":
    times = [load_milliseconds() for _ in range(PROCESSES)]
    print(f"%load_ext toolnexus_nb: median {statistics.median(times):.1f} ms, slowest {max(times):.1f} ms of {PROCESSES}")
