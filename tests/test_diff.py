"""What changed between two souls, told file by file, and how much of the prompt's prefix survives."""

from __future__ import annotations

import difflib
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolnexus_nb.conversation import Run, ToolCall, Usage
from toolnexus_nb.diff import FileChange, SoulDiff, changes, run_changes
from toolnexus_nb.diff.lines import MOST_SHOWN_LINES, sides, unified
from toolnexus_nb.soul import BOOTSTRAP_ORDER, CAP_BYTES, Soul, compose_soul


@pytest.fixture
def persona(tmp_path):
    """Write files, compose them, and leave the directory empty again."""

    def compose(**bodies: str) -> Soul:
        for stem, body in bodies.items():
            (tmp_path / f"{stem}.md").write_text(body, encoding="utf-8", newline="")
        soul = compose_soul(tmp_path)
        for path in tmp_path.iterdir():
            path.unlink()
        return soul

    return compose


def _text(diff: str) -> list[str]:
    return diff.split("\n")


def test_a_changed_line_is_told_with_its_file_and_its_context(persona):
    found = changes(persona(SOUL="one\ntwo\nthree", USER="x"), persona(SOUL="one\n2\nthree", USER="x"))

    diff = "--- before/SOUL.md\n+++ after/SOUL.md\n@@ -1,3 +1,3 @@\n one\n-two\n+2\n three"
    prefix = len("## SOUL.md\n\none\n")
    share = prefix / len("## SOUL.md\n\none\n2\nthree\n\n## USER.md\n\nx")
    assert found == SoulDiff((FileChange("SOUL.md", "found", "found", diff, 1, 1),), prefix, prefix, share, "SOUL.md")


def test_equal_souls_share_all_of_the_prefix(persona):
    found = changes(persona(SOUL="one"), persona(SOUL="one"))

    assert found == SoulDiff((), 15, 15, 1.0, "")
    assert found.same
    assert found.summary == "nothing changed"


def test_two_empty_souls_are_the_same(persona):
    assert changes(persona(), persona()) == SoulDiff((), 0, 0, 1.0, "")


def test_a_new_file_and_a_lost_one_are_told(persona):
    found = changes(persona(SOUL="one", USER="x"), persona(SOUL="one", MEMORY="a\nb"))

    assert [(c.name, c.before_status, c.after_status, c.added, c.removed) for c in found.files] == [
        ("USER.md", "found", "absent", 0, 1),
        ("MEMORY.md", "absent", "found", 2, 0),
    ]
    assert found.files[1].diff == "--- before/MEMORY.md\n+++ after/MEMORY.md\n@@ -0,0 +1,2 @@\n+a\n+b"
    assert found.summary == (
        "USER.md is gone (-1), MEMORY.md is new (+2); "
        "the first 59 % of the prompt (20 bytes) are the same, the first difference is in USER.md"
    )


def test_an_empty_new_file_changes_the_prompt_though_no_line_does(persona):
    found = changes(persona(SOUL="one"), persona(SOUL="one", USER=""))

    assert found.files == (FileChange("USER.md", "absent", "found", "", 0, 0),)
    assert (found.same, found.prefix_section, found.prefix_characters) == (False, "USER.md", 15)


def test_white_space_that_is_trimmed_changes_the_file_but_not_the_prompt(persona):
    before, after = persona(SOUL="one"), persona(SOUL="one\n\n")
    found = changes(before, after)

    assert found.files == (FileChange("SOUL.md", "found", "found", "", 0, 0),)
    assert found.same
    assert found.summary == "the same prompt (SOUL.md changed only in what is not sent)"


def test_text_behind_the_cap_changes_the_file_but_not_the_prompt(persona):
    found = changes(persona(MEMORY="m" * (CAP_BYTES + 1)), persona(MEMORY="m" * (CAP_BYTES + 2)))

    assert (found.same, found.prefix_share, [change.name for change in found.files]) == (True, 1.0, ["MEMORY.md"])


def test_a_soul_that_only_lost_its_end_is_not_the_same(persona):
    found = changes(persona(SOUL="one\ntwo"), persona(SOUL="one"))

    assert (found.same, found.prefix_share, found.prefix_section) == (False, 1.0, "SOUL.md")


def test_the_prefix_is_counted_in_characters_and_in_bytes(persona):
    found = changes(persona(SOUL="é人x"), persona(SOUL="é人y"))

    assert (found.prefix_characters, found.prefix_bytes) == (14, 17)


def test_a_file_is_split_at_newlines_only(persona):
    found = changes(persona(SOUL="a\u2028b\x0cc\rd"), persona(SOUL="a\u2028b\x0cc\re"))

    assert _text(found.files[0].diff)[3:] == ["-a\u2028b\x0cc\rd", "+a\u2028b\x0cc\re"]


def test_seven_long_files_of_short_lines_are_told_as_one_block_each(persona):
    lines = 400_000
    found = changes(persona(**{name[:-3]: "- x\n" * lines for name in BOOTSTRAP_ORDER}), persona(MEMORY="- y\n" * lines))
    memory = found.files[-1]

    assert (memory.added, memory.removed) == (lines, lines)
    assert len(_text(memory.diff)) == MOST_SHOWN_LINES + 6
    assert _text(memory.diff)[2:5] == ["@@ -1,400000 +1,400000 @@", "\\ too many lines to compare one by one: 400000 and 400000", "-- x"]
    assert _text(memory.diff)[-1] == "\\ 398000 more added lines are not shown"


def test_a_long_diff_is_cut_and_says_so(persona):
    found = changes(persona(), persona(SOUL="\n".join(f"line {i}" for i in range(5_000)) + "\nend"))

    assert found.files[0].added == 5_001
    assert _text(found.files[0].diff)[-1] == "\\ 1002 more lines of this diff are not shown"


def test_two_edits_far_apart_in_a_long_file_are_two_hunks(persona):
    lines = [f"line {i}" for i in range(20_000)]
    edited = ["first", *lines[1:19_000], "second", *lines[19_001:]]
    found = changes(persona(MEMORY="\n".join(lines)), persona(MEMORY="\n".join(edited)))

    assert (found.files[0].added, found.files[0].removed) == (2, 2)
    assert [line for line in _text(found.files[0].diff) if line[0] == "@"] == ["@@ -1,4 +1,4 @@", "@@ -18998,7 +18998,7 @@"]


def _apply(old: str, diff: str) -> str:
    """Apply a unified diff, checking every line it says was there; the oracle of the property below."""
    lines = old.split("\n") if old else []
    at, out = 0, []
    for line in diff.split("\n")[2:]:
        if line.startswith("@@"):
            start, _, count = line.split()[1][1:].partition(",")
            begin = int(start) - (count != "0")
            out += lines[at:begin]
            at = begin
        elif line[0] == "+":
            out.append(line[1:])
        else:
            assert lines[at] == line[1:]
            at += 1
            out += [line[1:]] if line[0] == " " else []
    return "\n".join(out + lines[at:])


_BODY = st.lists(st.sampled_from(["a", "b", "", "unique 1", "unique 2", "unique 3", "c" * 9])).map("\n".join)


@given(_BODY, _BODY)
def test_the_diff_turns_the_old_text_into_the_new_one(old, new):
    found = unified(sides(old, new), "SOUL.md", by_line=True)

    if old == new:
        assert found.diff == ""
    else:
        assert _apply(old, found.diff) == new
        assert found.added - found.removed == (new.count("\n") + 1 if new else 0) - (old.count("\n") + 1 if old else 0)


def test_moved_and_edited_lines_are_told_about_as_shortly_as_difflib_does():
    chance = random.Random(3)
    old = [chance.choice(["- a", "- b", f"- {i}"]) for i in range(300)]
    new = [line for line in old if chance.random() > 0.1]
    found = unified(sides("\n".join(old), "\n".join(new)), "SOUL.md", by_line=True)
    theirs = [line for line in difflib.unified_diff(old, new, lineterm="") if line[0] in "-+"][2:]

    assert found.added + found.removed <= len(theirs) * 1.1


def test_long_lines_of_context_are_whole():
    long = "x" * 100_000

    assert unified(sides(f"{long}\na", f"{long}\nb"), "SOUL.md", by_line=True).diff.split("\n")[3] == " " + long


def test_two_runs_are_told_apart_by_status_usage_and_text():
    a = Run("one\ntwo", "done", usage=Usage(prompt=10, completion=4), turns=1, model="m-1")
    calls = (ToolCall("1", "memory", "{}"),)
    b = Run("one\n2", "incomplete", limit="length", usage=Usage(prompt=10), turns=2, model="m-1", tool_calls=calls)

    assert run_changes(a, b).split("\n") == [
        "status: done -> incomplete: length",
        "turns: 1 -> 2",
        "tool calls: none -> memory",
        "completion tokens: 4 -> not reported",
        "--- before/reply",
        "+++ after/reply",
        "@@ -1,2 +1,2 @@",
        " one",
        "-two",
        "+2",
    ]


def test_equal_runs_differ_in_nothing():
    assert run_changes(Run("one", "done"), Run("one", "done")) == ""
