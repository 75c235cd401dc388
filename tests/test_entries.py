"""entries: an entry added, replaced or removed, and what is told where that cannot be done."""

import re
import time

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from toolnexus_nb import entries
from toolnexus_nb.entries import EditError, added, removed, replaced

#: Files as people and models keep them: entries, headings, blank lines, every kind of line end.
words = st.text(alphabet="ab é", min_size=1, max_size=6).filter(str.strip)
lines = st.one_of(words.map("- {}".format), words.map("  * {}".format), words.map("1. {}".format), words.map("- [ ] {}".format))
pages = st.builds(
    lambda rows, end, last, bom: bom + end.join(rows).encode() + (end.encode() if last else b""),
    st.lists(st.one_of(lines, words, st.sampled_from(["", " ", "# Notes", "---"])), max_size=8),
    st.sampled_from(["\n", "\r\n"]),
    st.booleans(),
    st.sampled_from([b"", b"\xef\xbb\xbf"]),
)


def said(data: bytes) -> list[bytes]:
    """The lines that say something."""
    return [line for line in data.removeprefix(b"\xef\xbb\xbf").replace(b"\r\n", b"\n").split(b"\n") if line.strip()]


def longest_gap(data: bytes) -> int:
    """The most blank lines that follow each other."""
    gaps = re.findall(rb"(?:^|(?<=\n))(?:[ \t]*\n)+", data.removeprefix(b"\xef\xbb\xbf").replace(b"\r\n", b"\n"))
    return max((gap.count(b"\n") for gap in gaps), default=0)


def refused(edit, *arguments) -> str:
    with pytest.raises(EditError) as caught:
        edit(*arguments)
    return str(caught.value)


# --- which place is meant -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("before", "text", "after"),
    [
        (b"- echo-reply tests pass\n- test\n", "test", b"- echo-reply tests pass\n"),
        (b"- tests\n- test", "test", b"- tests\n"),
        (b"- tests\n- test\n- x\n", "- test", b"- tests\n- x\n"),
        (b"- tests\n- test\n- x\n", "- test\n", b"- tests\n- x\n"),
        (b"- tests\n- test\n- x\n", " test", b"- tests\n- x\n"),
        (b"- tests\n- test\n- x\n", "\n- test\n", b"- tests\n- x\n"),
        (b"- tests\n  * test  \n- x\n", "test", b"- tests\n- x\n"),
        (b"1. tests\n2. test\n", "test", b"1. tests\n"),
        (b"- [ ] tests\n- [x] test\n", "test", b"- [ ] tests\n"),
        (b"- - test\n- tests\n", "- test", b"- tests\n"),
        (b"tests\ntest\n", "test", b"tests\n"),
        (b"- tests\r\n- test\r\n", "test", b"- tests\r\n"),
        (b"\xef\xbb\xbf- test\n- tests\n", "test", b"\xef\xbb\xbf- tests\n"),
        (b"- two\nlines\n- two lines\n", "two\nlines", b"- two lines\n"),
        (b"- two\r\nlines\r\n- x\r\n", "two\nlines", b"- x\r\n"),
        (b"- a\n- b\n- a\n", "a", b"- b\n- a\n"),
        (b"\xff\n- caf\xc3\xa9\n\xfe", "café", b"\xff\n\xfe"),
        (b"- test", "test\n", b""),
    ],
)
def test_the_entry_that_equals_the_text_goes_with_its_bullet_and_its_line(before, text, after):
    assert removed(before, text) == after


@pytest.mark.parametrize(
    ("before", "text", "after"),
    [
        (b"- likes tea and rain\n", " and rain", b"- likes tea\n"),
        (b"- likes tea, rain\n- x\n", ", rain\n", b"- likes tea\n- x\n"),
        (b"- x\n- likes tea\n", "\n- likes", b"- x\n tea\n"),
        (b"- latest\n", "test", b"- la\n"),
        (b"- a b\n- c d\n", "b\n- c ", b"- a d\n"),
        (b"\xef\xbb\xbfa", "\ufeff", b"a"),
        (b"a\n\n\nb\n", "\n\n\n", b"ab\n"),
        (b"-5 degrees\n", "5 degrees", b"-\n"),
        (b"version 1.2\n", "2", b"version 1.\n"),
    ],
)
def test_a_part_that_stands_once_is_taken_out(before, text, after):
    assert removed(before, text) == after


@pytest.mark.parametrize(
    ("before", "text", "with_", "after"),
    [
        (b"- tests\n- test\n", "test", "trial", b"- tests\n- trial\n"),
        (b"- tests\n- test\n", "- test\n", "- trial\n", b"- tests\n- trial\n"),
        (b"- test\n- x\n", "- test\n", "- trial", b"- trial\n- x\n"),
        (b"- x\n- test\n", "\n- test", "- trial", b"- x\n- trial\n"),
        (b"- test\r\n- x\r\n", "- test\n", "- trial", b"- trial\r\n- x\r\n"),
        (b"- x\n- test", "- test\n", "- trial\n", b"- x\n- trial"),
        (b"- likes tea a lot\n", "tea", "coffee", b"- likes coffee a lot\n"),
        (b"a\r\nb\r\nc", "a\nb", "1\n2\n3", b"1\r\n2\r\n3\r\nc"),
        (b"a\r\nb\r\n", "a\r\nb", "x\ny", b"x\ny\r\n"),
        (b"a\nb\r\na\r\nb", "a\nb", "x", b"x\r\na\r\nb"),
        (b"a.b", ".", r"\g<0>", rb"a\g<0>b"),
        (b"\xff a\r\n\xfe b\r\n ", "a", "\u20ac", b"\xff \xe2\x82\xac\r\n\xfe b\r\n "),
    ],
)
def test_a_replacement_takes_the_place_of_the_text_alone(before, text, with_, after):
    assert replaced(before, text, with_) == after


@pytest.mark.parametrize(
    ("before", "text", "places"),
    [
        (b"- tests pass\n- a test\n", "test", "2 times, in lines 1 and 2"),
        (b"tea tea\n", "tea", "2 times, in line 1"),
        (b"aaa\n", "aa", "2 times, in line 1"),
        (b"- x a\n\n- y a\n- z a b\n", "a", "3 times, in lines 1, 3 and 4"),
        (b"- x a\r\n- y a\r\n- a b\n", " a\n- ", "2 times, in lines 1 and 2"),
        (b"x a\n" * 20, "a", "20 times, first in lines 1, 2, 3, 4, 5, 6, 7, 8"),
        (b"x a\n" * 1_001, "a", "more than 1000 times, first in lines 1, 2, 3, 4, 5, 6, 7, 8"),
        (b"\n\n", "\n", "2 times, in lines 2 and 3"),
    ],
)
def test_a_part_that_stands_in_several_places_is_refused_with_their_lines(before, text, places):
    message = f"ambiguous text: it stands {places}: copy the whole line that you mean"
    assert refused(removed, before, text) == refused(replaced, before, text, "x") == message


# --- blank lines ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (b"- a\n\n- x\n\n- b\n", b"- a\n\n- b\n"),
        (b"- a\r\n\r\n- x\r\n\r\n- b\r\n", b"- a\r\n\r\n- b\r\n"),
        (b"# Notes\n\n- x\n- b\n", b"# Notes\n\n- b\n"),
        (b"# Notes\n\n- x\n", b"# Notes\n"),
        (b"# Notes\n- x\n\n# More\n", b"# Notes\n\n# More\n"),
        (b"- x\n\n- b\n", b"- b\n"),
        (b"\n\n- x\n\n  - b\n", b"\n\n  - b\n"),
        (b"- a\n\n- x\n\n\n- b\n", b"- a\n\n\n- b\n"),
        (b"- a\n\n\n- x\n\n- b\n", b"- a\n\n\n- b\n"),
        (b"- a\n \t\n- x\n\n- b\n", b"- a\n \t\n- b\n"),
        (b"\xef\xbb\xbf- x\n\n- b\n", b"\xef\xbb\xbf- b\n"),
        (b"- a\n- x\n\n", b"- a\n\n"),
        (b"- x\n", b""),
        (b"\xef\xbb\xbf- x", b"\xef\xbb\xbf"),
    ],
)
def test_a_removed_entry_leaves_no_blank_line_too_many(before, after):
    assert removed(before, "x") == after


# --- what is not found ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("before", "text", "nearest"),
    [
        (b"- likes coffee\n- likes tea\n", "likes taa", ": the nearest is line 2: - likes tea"),
        (b"- Likes Tea\n", "likes tea", ": the nearest is line 1: - Likes Tea"),
        (b"- the user likes tea with milk in the early morning\n", "likes teas", None),
        ("- 喜欢喝茶\n".encode(), "喜欢喝水", None),
        (b"- likes tea\n- likes tea\n", "likes taa", ": the nearest is line 1: - likes tea"),
        (b"- password: hunter2xyz9\n", "- password: hunter2xyz8", ": the nearest is line 1: - password: [masked: password]"),
        (b"- x\n", "something else", ""),
        (b"", "x", ""),
        (b"\n\n", "x", ""),
    ],
)
def test_a_text_that_is_not_there_is_told_with_the_nearest_line(before, text, nearest):
    line = before.decode().rstrip()
    message = f"not found: {text}" + (f": the nearest is line 1: {line}" if nearest is None else nearest)
    assert refused(removed, before, text) == refused(replaced, before, text, "y") == message


def test_a_long_nearest_line_is_cut():
    message = refused(removed, b"- likes tea " + b"x" * 1_000, "likes taa")
    assert message == "not found: likes taa: the nearest is line 1: - likes tea " + "x" * (entries.NEAREST_CHARACTERS - 13) + "…"


@pytest.mark.parametrize(
    ("before", "text"),
    [(b"a" * 2_000_000, "ab" * 1_000), (b"ab" * 140 + b"\n" + b"ba\n" * 600_000, "ba" * 150 + "c"), (b"aab\n" * 500_000, "abaa")],
)
def test_a_large_file_is_answered_soon(before, text):
    started = time.perf_counter()
    assert refused(removed, before, text).startswith("not found: ")
    assert time.perf_counter() - started < 5


# --- whatever the file ----------------------------------------------------------------------------


@given(pages, words)
def test_what_is_added_can_be_removed_by_its_own_text(before, text):
    text = text.strip()
    assume(text.encode() not in before)
    # `add` trims the white space that ends the file.
    assert [line.rstrip() for line in said(removed(added(before, text), text))] == [line.rstrip() for line in said(before)]


@given(pages, st.data())
def test_a_removed_entry_takes_its_line_alone_and_leaves_neither_bullet_nor_gap(before, data):
    assume(said(before))
    line = data.draw(st.sampled_from(said(before)))
    text = line.decode()
    after = removed(before, text)
    left = said(before)
    # An equal line with another bullet around it may stand first: then that one goes.
    gone = [n for n in range(len(left)) if said(after) == left[:n] + left[n + 1 :]]
    assert gone and line.strip() in left[gone[0]]
    assert longest_gap(after) <= longest_gap(before)


@given(pages, st.text(alphabet="ab -é\n", min_size=1, max_size=5))
def test_a_removal_only_takes_away_and_a_refusal_says_why(before, text):
    try:
        after = removed(before, text)
    except EditError as error:
        assert str(error).startswith(("not found: ", "ambiguous text: "))
        return
    assert len(after) < len(before)
    rest = iter(before)
    assert all(byte in rest for byte in after)


@given(pages, st.text(alphabet="ab -é\n", min_size=1, max_size=5), words)
def test_a_replacement_changes_one_place_and_joins_no_lines(before, text, with_):
    try:
        after = replaced(before, text, with_)
    except EditError:
        return
    assert with_.encode() in after
    assert before.count(b"\n") - after.count(b"\n") == text.strip("\n").count("\n") or not text.strip("\n")


@given(st.binary(max_size=40), st.text(alphabet="ab", min_size=1, max_size=3))
def test_a_text_that_is_no_entry_and_stands_twice_is_never_edited(before, text):
    twice = b"x" + text.encode() + b"x" + before + b"x" + text.encode() + b"x"
    try:
        after = removed(twice, text)
    except EditError as error:
        assert str(error).startswith("ambiguous text: it stands ")
    else:
        assert after.startswith(b"x" + text.encode() + b"x") and after.endswith(b"x" + text.encode() + b"x")
