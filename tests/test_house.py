"""The checks that are programs of their own: ruff and mypy, run as tests so that one command does all."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.mark.parametrize("arguments", [["ruff", "check", "."], ["mypy"]], ids=["ruff", "mypy"])
def test_the_checker_finds_nothing(arguments):
    done = subprocess.run(
        [sys.executable, "-m", *arguments], cwd=ROOT, capture_output=True, text=True, check=False, env={**os.environ, "NO_COLOR": "1"}
    )
    assert done.returncode == 0, done.stdout + done.stderr
