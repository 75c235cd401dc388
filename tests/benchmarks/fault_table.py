"""Print a Markdown table: each fault of a real server, each dialect, and how the run ends.

python tests/benchmarks/fault_table.py
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from test_faults import CASES, case
from wire_server import WireServer

from toolnexus_nb.agent import Agent, Options, Spec
from toolnexus_nb.conversation import Run


def run_against(style: str, fault: str) -> Run:
    """Run one agent, memory off, against a server that has the fault in every answer it gives."""
    script, _expected = case(fault)
    with WireServer(script(style)) as server:
        options = Options(
            base_url=server.base_url if style == "openai" else server.root_url,
            style=style,
            api_key="key-of-the-benchmark",
            timeout_seconds=0.5 if "silence" in fault else 5.0,
            max_turns=1,
        )
        return Agent("t", Spec(soul="x", model="m")).run("hi", options)


def row(style: str, fault: str) -> str:
    run = run_against(style, fault)
    text = run.text if len(run.text) <= 20 else f"{len(run.text)} characters"
    shown = text.replace("\u2028", "U+2028").replace("\u0085", "U+0085")
    said = (run.error or run.limit).split("127.0.0.1:", 1)
    words = said[0] + (said[1].split(":", 1)[1].strip() if len(said) == 2 else "")
    return f"| {fault} | {style} | {run.status} | {shown} | {words.removeprefix('http://')} |"


def main() -> None:
    print("| fault | dialect | status | text kept | in words |")
    print("|---|---|---|---|---|")
    for fault, style in CASES:
        print(row(style, fault), flush=True)


if __name__ == "__main__":
    main()
