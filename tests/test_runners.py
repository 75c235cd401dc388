"""The runners of other people's pipelines: a good notebook passes, a bad argument and a failed run stop each of them.

Each runner works in a process of its own, this file as its program: `test_runners.py RUNNER NOTEBOOK ...` calls
the runner's entry point for each notebook in turn and reports how it ended.
"""

from __future__ import annotations

import os
import subprocess
import sys
import traceback

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_notebook

pytestmark = pytest.mark.kernel

LOAD = "%load_ext toolnexus_nb\n%config SoulMagics.model = 'mirror'"
NOTEBOOKS = {
    "good": ["%soul kip", "%%agent kip -o run\nhello", "assert run.status == 'done'", "open('reached', 'w').close()"],
    "bad_argument": ["%soul kip --veiw text", "open('passed_over', 'w').close()"],
    "failed_run": ["%%agent kip\n/cut\nhello"],
}
ERRORS = {"bad_argument": "did you mean --view?", "failed_run": "the stream ended without a finish_reason"}
RUNNERS = ("nbclient", "nbconvert", "papermill", "nbmake", "nbval")
ENDED = "=== {} ended with {}"


def call(runner, notebook):
    """Call a runner as its command does; what it raises or returns says how it ended."""
    match runner:
        case "nbclient":
            from nbclient.cli import NbClientApp

            NbClientApp.clear_instance()
            return NbClientApp.launch_instance([notebook])
        case "nbconvert":
            from nbconvert.nbconvertapp import NbConvertApp

            NbConvertApp.clear_instance()
            return NbConvertApp.launch_instance(["--to", "notebook", "--execute", "--output", "out", notebook])
        case "papermill":
            import papermill

            papermill.execute_notebook(notebook, "out.ipynb", kernel_name="python3", progress_bar=False)
            return 0
    return pytest.main(["-q", "-c", "pytest.ini", "-p", f"no:{'nbval' if runner == 'nbmake' else 'nbmake'}", FLAGS[runner], notebook])


FLAGS = {"nbmake": "--nbmake", "nbval": "--nbval-lax"}


def main(runner, *notebooks):
    for notebook in notebooks:
        try:
            code = call(runner, notebook)
        except SystemExit as end:
            code = end.code
        except Exception:
            traceback.print_exc(file=sys.stdout)
            code = 1
        print("\n" + ENDED.format(notebook, int(code or 0)), flush=True)


def write(folder, name):
    cells = [new_code_cell(source) for source in (LOAD, *NOTEBOOKS[name])]
    kernelspec = {"name": "python3", "display_name": "Python 3", "language": "python"}
    nbformat.write(new_notebook(cells=cells, metadata={"kernelspec": kernelspec}), folder / f"{name}.ipynb")


def start(folder, runner):
    """Start a runner on all notebooks in a folder of its own."""
    (folder / "kip").mkdir(parents=True)
    (folder / "kip" / "SOUL.md").write_text("You are Kip.\n", encoding="utf-8")
    (folder / "pytest.ini").write_text("[pytest]\n")
    for name in NOTEBOOKS:
        write(folder, name)
    command = [sys.executable, __file__, runner, *(f"{name}.ipynb" for name in NOTEBOOKS)]
    environment = {**os.environ, "JUPYTER_PLATFORM_DIRS": "1", "NO_COLOR": "1"}
    return subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment)


@pytest.fixture(scope="module")
def ran(tmp_path_factory):
    """What each runner said, all of them run side by side."""
    folder = tmp_path_factory.mktemp("runners")
    processes = {runner: start(folder / runner, runner) for runner in RUNNERS}
    try:
        said = {runner: process.communicate(timeout=120)[0] for runner, process in processes.items()}
    finally:
        for process in processes.values():
            process.kill()
    return folder, said


@pytest.mark.parametrize("runner", RUNNERS)
def test_a_good_notebook_passes(ran, runner):
    folder, said = ran
    assert ENDED.format("good.ipynb", 0) in said[runner], said[runner]
    assert (folder / runner / "reached").exists()


@pytest.mark.parametrize("notebook", ERRORS)
@pytest.mark.parametrize("runner", RUNNERS)
def test_a_notebook_with_an_error_stops_the_runner(ran, runner, notebook):
    said = ran[1][runner]
    assert ENDED.format(f"{notebook}.ipynb", 1) in said, said
    assert ERRORS[notebook] in said


@pytest.mark.parametrize("runner", ["nbclient", "nbconvert", "papermill", "nbmake"])
def test_the_cells_behind_an_error_are_not_run(ran, runner):
    assert not (ran[0] / runner / "passed_over").exists()


if __name__ == "__main__":
    main(*sys.argv[1:])
