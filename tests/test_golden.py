"""compose_soul against what the Go original composes from the same 144 directories.

`golden/expected.jsonl` holds, for each case the original has one answer for, the names found and
the sha256 of the text, in which each byte that is not UTF-8 is one U+FFFD: what Go's encoding/json
sends for its string. The digests were taken from the Go code, not from this project.
"""

import json
import os
import time
from hashlib import sha256
from pathlib import Path

import pytest
from golden.cases import CASES, working_directory

from toolnexus_nb import compose_soul

ROWS = [json.loads(line) for line in (Path(__file__).parent / "golden/expected.jsonl").read_text("utf-8").splitlines()]
EXPECTED = {row["label"]: row for row in ROWS}
LIMIT_SECONDS = 2

#: Links to what differs from machine to machine, followed as the original does.
FOLLOWED = [case for case in CASES if any(place in case.label for place in ("/etc/hostname", "/proc/"))]
#: The original hangs on a FIFO, never ends on /dev/zero and reads /dev/null as an empty file.
NEVER_READ = [case for case in CASES if "FIFO" in case.label or "/dev/" in case.label]


@pytest.fixture
def compose(tmp_path, monkeypatch):
    """Build a case and compose it, from a working directory that holds a persona of its own."""
    for folder in ("case", "cwd"):
        (tmp_path / folder).mkdir()
    monkeypatch.chdir(os.fsdecode(working_directory(os.fsencode(tmp_path / "cwd"))))

    def build_and_compose(case):
        path = case.build(os.fsencode(tmp_path / "case"))
        start = time.perf_counter()
        soul = compose_soul(os.fsdecode(path))
        assert time.perf_counter() - start < LIMIT_SECONDS
        return soul

    yield build_and_compose
    # Without root, pytest cannot clear away a folder of mode 000.
    if (folder := tmp_path / "case/d").is_dir() and not folder.is_symlink():
        folder.chmod(0o755)


def by_label(cases):
    return [pytest.param(case, id=case.label) for case in cases]


@pytest.mark.parametrize("case", by_label(case for case in CASES if case.label in EXPECTED))
def test_the_text_is_that_of_the_original(case, compose):
    row, (text, found) = EXPECTED[case.label], compose(case)
    if "root still reads it" in case.label and os.geteuid() != 0:
        assert "SOUL.md" not in found
        return
    assert (found, sha256(text.encode()).hexdigest()) == (row["found"], row["sha256"])


@pytest.mark.parametrize("case", by_label(FOLLOWED))
def test_a_link_to_any_regular_file_is_followed(case, compose):
    assert compose(case).found == ["AGENTS.md", "SOUL.md"]


@pytest.mark.parametrize("case", by_label(NEVER_READ))
def test_what_is_no_regular_file_is_skipped_unread(case, compose):
    soul = compose(case)
    assert (soul.found, soul.section("SOUL.md").status) == (["AGENTS.md"], "not_regular")


def test_every_case_has_an_answer_and_every_answer_a_case():
    assert len(CASES) == 144
    assert set(EXPECTED) | {case.label for case in [*FOLLOWED, *NEVER_READ]} == {case.label for case in CASES}
    assert [(f"{number:02d}", case.label) for number, case in enumerate(CASES, 1) if case.label in EXPECTED] == [
        (row["id"], row["label"]) for row in ROWS
    ]
