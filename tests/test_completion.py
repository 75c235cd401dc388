"""What can stand at the cursor: flags, personas, the values of a flag."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolnexus_nb.completion import Candidates, Names, complete

NAMES = Names(
    flags=["-m", "--model", "--memory", "-c"],
    personas=["ava", "avery", "kip"],
    values={"-m": ["local", "mirror", "openai:"], "--memory": ["on", "ask", "off"]},
)


@pytest.mark.parametrize(
    ("line", "candidates"),
    [
        ("", Candidates("", ("ava", "avery", "kip"))),
        ("av", Candidates("av", ("ava", "avery"))),
        ("ava ", Candidates("", ("ava", "avery", "kip"))),
        ("-", Candidates("-", ("-m", "--model", "--memory", "-c"))),
        ("ava --m", Candidates("--m", ("--model", "--memory"))),
        ("-m ", Candidates("", ("local", "mirror", "openai:"))),
        ("ava -m mi", Candidates("mi", ("mirror",))),
        ("--memory o", Candidates("o", ("on", "off"))),
        ("--memory=o", Candidates("o", ("on", "off"))),
        ("zz", Candidates("zz", ())),
    ],
)
def test_the_word_before_the_cursor_decides(line, candidates):
    assert complete(line, len(line), NAMES) == candidates


def test_what_stands_behind_the_cursor_does_not_count():
    assert complete("av --memory on", 2, NAMES) == Candidates("av", ("ava", "avery"))


@given(st.text(), st.integers(0, 30))
def test_the_fragment_ends_at_the_cursor_and_begins_every_word(line, cursor):
    found = complete(line, cursor, NAMES)
    assert line[:cursor].endswith(found.fragment)
    assert all(word.startswith(found.fragment) for word in found.words)
