import dataclasses
import hashlib
import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from toolnexus_nb.soul import BOOTSTRAP_ORDER, CAP_BYTES, LOST_HEAD_BYTES, TRUNCATION_NOTICE, Location, Soul, Truncation, compose_soul

FFFD = "\ufffd"
#: Go's unicode.IsSpace, written out.
GO_SPACE = {*range(0x09, 0x0E), 0x20, 0x85, 0xA0, 0x1680, *range(0x2000, 0x200B), 0x2028, 0x2029, 0x202F, 0x205F, 0x3000}


def persona(folder, **files):
    """Write `SOUL=b"..."` as SOUL.md and so on; return the folder."""
    folder.mkdir(exist_ok=True)
    for stem, content in files.items():
        (folder / f"{stem}.md").write_bytes(content)
    return folder


def section_of(folder, content):
    return compose_soul(persona(folder, SOUL=content)).section("SOUL.md")


# --- the model of the property test: Go's decoding, one byte after the other -------------


def go_runes(data):
    """Return [(character, is a byte that is not UTF-8)] as `for _, r := range string(data)` gives them."""
    runes, at = [], 0
    while at < len(data):
        width = go_width(data[at : at + 4])
        runes.append((data[at : at + width].decode(), False) if width else (FFFD, True))
        at += width or 1
    return runes


def go_width(window):
    """Return the length of the character that begins the window, 0 when none does."""
    first = window[0]
    if first < 0x80:
        return 1
    if 0xC2 <= first <= 0xDF:
        length, low, high = 2, 0x80, 0xBF
    elif 0xE0 <= first <= 0xEF:
        length, low, high = 3, 0xA0 if first == 0xE0 else 0x80, 0x9F if first == 0xED else 0xBF
    elif 0xF0 <= first <= 0xF4:
        length, low, high = 4, 0x90 if first == 0xF0 else 0x80, 0x8F if first == 0xF4 else 0xBF
    else:
        return 0
    if len(window) < length or not low <= window[1] <= high:
        return 0
    return length if all(0x80 <= byte <= 0xBF for byte in window[2:length]) else 0


def go_trimmed(runes):
    solid = [at for at, (character, _) in enumerate(runes) if ord(character) not in GO_SPACE]
    return runes[solid[0] : solid[-1] + 1] if solid else []


def go_text(data):
    return "".join(character for character, _ in go_trimmed(go_runes(data)))


AWKWARD = st.sampled_from(
    [
        *(chr(code).encode() for code in sorted(GO_SPACE)),
        *(b"\r\n", b"\x1c", b"\x00", b"\xef\xbb\xbf", b"\xe2\x80\x8b", "é€🦞\ufffd".encode(), b"## SOUL.md\n\n", b"text"),
        *(b"\x80", b"\xa0", b"\xc2", b"\xe2\x82", b"\xe3\x80", b"\xed\xa0\x80", b"\xf0\x9f\xa6", b"\xf4\x90\x80\x80", b"\xff"),
    ]
)
CONTENT = st.one_of(st.just(b""), st.binary(max_size=60), st.lists(AWKWARD, max_size=12).map(b"".join))
FILES = st.dictionaries(st.sampled_from(BOOTSTRAP_ORDER), CONTENT)


@pytest.fixture(scope="module")
def scratch(tmp_path_factory):
    return tmp_path_factory.mktemp("random")


def written(folder, files):
    for name in BOOTSTRAP_ORDER:
        (folder / name).unlink(missing_ok=True)
    for name, content in files.items():
        (folder / name).write_bytes(content)
    return folder


@settings(max_examples=250, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(files=FILES)
@example(files={"SOUL.md": b"\xe3\xc2\xa0"})
@example(files={"SOUL.md": b"\n \xc2\x85", "MEMORY.md": b""})
def test_any_bytes_compose_as_go_composes_them(scratch, files):
    soul = compose_soul(written(scratch, files))
    names = [name for name in BOOTSTRAP_ORDER if name in files]
    assert soul.text == "\n\n".join(f"## {name}\n\n{go_text(files[name])}" for name in names)
    assert (soul.found, soul.skipped) == (names, [name for name in BOOTSTRAP_ORDER if name not in files])
    assert soul.digest == hashlib.sha256(soul.text.encode()).hexdigest()


@settings(max_examples=250, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(files=FILES)
def test_each_section_accounts_for_its_bytes(scratch, files):
    soul = compose_soul(written(scratch, files))
    assert tuple(section.name for section in soul.sections) == BOOTSTRAP_ORDER
    for section in soul.sections:
        if section.name not in files:
            assert (section.status, section.text, section.span, section.size_bytes) == ("absent", "", None, 0)
            continue
        data = files[section.name]
        runes = go_runes(data)
        assert soul.text[slice(*section.span)] == section.text == go_text(data)
        assert section.digest == hashlib.sha256(section.text.encode()).hexdigest()
        assert (section.size_bytes, section.kept_bytes, section.truncation) == (len(data), len(data), None)
        assert section.replaced_bytes == sum(bad for _, bad in runes)
        assert section.first_replaced_byte == first_bad_byte(runes)


def first_bad_byte(runes):
    at = 0
    for character, bad in runes:
        if bad:
            return at
        at += len(character.encode())
    return None


@settings(max_examples=250, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(files=FILES)
def test_every_offset_of_a_body_leads_to_its_place_and_back(scratch, files):
    soul = compose_soul(written(scratch, files))
    for section in soul.sections:
        text = "".join(character for character, _ in go_runes(files.get(section.name, b"")))
        start, end = section.span or (0, 0)
        for offset in range(start, end):
            place = soul.locate(offset)
            assert (place.file, text.split("\n")[place.line - 1][place.column - 1 :][:1] or "\n") == (section.name, soul.text[offset])
            assert soul.locate(*place) == offset


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(files=FILES)
def test_every_offset_outside_the_bodies_leads_to_the_heading_that_follows(scratch, files):
    soul = compose_soul(written(scratch, files))
    for offset in range(len(soul.text)):
        place = soul.locate(offset)
        start, end = soul.section(place.file).span
        assert (place.line == 0) is not (start <= offset < end)
        assert offset < end or start == end


# --- what is sent ------------------------------------------------------------------------


def test_a_soul_unpacks_as_text_and_found(tmp_path):
    text, found = compose_soul(persona(tmp_path, SOUL=b"\nBe exact.\n", MEMORY=b"- metric"))
    assert (text, found) == ("## SOUL.md\n\nBe exact.\n\n## MEMORY.md\n\n- metric", ["SOUL.md", "MEMORY.md"])


def test_str_of_a_soul_is_its_text(tmp_path):
    soul = compose_soul(persona(tmp_path, SOUL=b"Be exact."))
    assert str(soul) == soul.text == "## SOUL.md\n\nBe exact."


def test_a_directory_with_none_of_the_seven_composes_to_nothing(tmp_path):
    soul = compose_soul(tmp_path)
    assert (*soul, soul.skipped, len(soul.sections)) == ("", [], list(BOOTSTRAP_ORDER), 7)


def test_control_characters_0x1c_to_0x1f_are_kept_at_the_ends(tmp_path):
    assert section_of(tmp_path, b"\x1c \x1f").text == "\x1c \x1f"


def test_composing_leaves_the_directory_as_it_was(tmp_path):
    persona(tmp_path, SOUL=b"x", MEMORY=b"y" * 5_000)
    os.symlink("SOUL.md", tmp_path / "USER.md")

    def everything():
        paths = [tmp_path, *sorted(tmp_path.iterdir())]
        return [(path, status.st_mtime_ns, status.st_ctime_ns, status.st_size) for path in paths for status in [path.lstat()]]

    before = everything()
    soul = compose_soul(tmp_path)
    assert (soul.stale(), [section.resolved_path for section in soul.sections if section.found]) == (
        [],
        [tmp_path / "SOUL.md", tmp_path / "SOUL.md", tmp_path / "MEMORY.md"],
    )
    assert everything() == before


# --- the directory -----------------------------------------------------------------------


@pytest.mark.parametrize("form", [Path, str, os.fsencode], ids=["Path", "str", "bytes"])
def test_the_directory_may_be_a_path_a_string_or_bytes(tmp_path, form):
    soul = compose_soul(form(persona(tmp_path, SOUL=b"x")))
    assert (soul.found, soul.directory, soul.name) == (["SOUL.md"], tmp_path, tmp_path.name)


def test_a_relative_directory_is_still_found_after_chdir(tmp_path, monkeypatch):
    persona(tmp_path / "ava", SOUL=b"x")
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path)
    soul = compose_soul("ava")
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert (soul.directory, soul.name, soul.stale()) == (tmp_path / "ava", "ava", [])


def test_an_empty_directory_name_means_the_working_directory(tmp_path, monkeypatch):
    monkeypatch.chdir(persona(tmp_path / "ava", SOUL=b"x"))
    assert (compose_soul("").name, compose_soul("").found) == ("ava", ["SOUL.md"])


def test_the_name_is_that_of_the_directory_behind_a_link(tmp_path):
    persona(tmp_path / "ava", SOUL=b"x")
    (tmp_path / "link").symlink_to("ava")
    soul = compose_soul(tmp_path / "link")
    assert (soul.name, soul.directory) == ("ava", tmp_path / "link")
    assert (soul.section("SOUL.md").path, soul.section("SOUL.md").resolved_path) == (tmp_path / "link/SOUL.md", tmp_path / "ava/SOUL.md")


def test_the_root_directory_has_a_name():
    assert compose_soul("/").name == "/"


def test_a_removed_working_directory_composes_to_nothing(tmp_path, monkeypatch):
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    for directory in (".", "", "ava"):
        assert tuple(compose_soul(directory)) == ("", [])


def test_a_path_that_is_a_file_composes_to_nothing_and_says_why(tmp_path):
    (tmp_path / "file").write_bytes(b"x")
    section = compose_soul(tmp_path / "file").sections[0]
    assert (section.status, section.reason) == ("absent", "the path is not a directory")


# --- what became of each file ------------------------------------------------------------


def test_a_found_section_has_no_reason(tmp_path):
    section = section_of(tmp_path, b"# Ada\n\nBe exact.\n")
    assert (section.found, section.status, section.reason) == (True, "found", "")
    assert (section.text, section.characters, section.lines) == ("# Ada\n\nBe exact.", 16, 3)
    assert (section.size_bytes, section.kept_bytes, section.span) == (17, 17, (12, 28))
    assert (section.replaced_bytes, section.first_replaced_byte, section.truncation) == (0, None, None)


def test_an_absent_section_says_so(tmp_path):
    section = compose_soul(tmp_path).section("USER.md")
    assert (section.found, section.status, section.reason, section.span) == (False, "absent", "no such file", None)
    assert (section.text, section.characters, section.lines, section.size_bytes) == ("", 0, 0, 0)
    assert section.path == section.resolved_path == tmp_path / "USER.md"


def test_an_empty_file_is_found(tmp_path):
    section = section_of(tmp_path, b"")
    assert (section.status, section.text, section.lines, section.span) == ("found", "", 0, (12, 12))


def test_a_link_to_nothing_is_absent(tmp_path):
    (tmp_path / "SOUL.md").symlink_to("gone.md")
    assert compose_soul(tmp_path).section("SOUL.md").status == "absent"


def test_a_link_loop_is_unreadable(tmp_path):
    (tmp_path / "SOUL.md").symlink_to("SOUL.md")
    section = compose_soul(tmp_path).section("SOUL.md")
    assert (section.status, section.reason) == ("unreadable", "Too many levels of symbolic links")
    assert (section.path, section.leaves_directory) == (tmp_path / "SOUL.md", False)


def test_a_path_that_is_too_long_is_unreadable(tmp_path):
    section = compose_soul(tmp_path / ("n" * 300)).sections[0]
    assert (section.status, section.reason) == ("unreadable", "File name too long")


def test_a_path_with_a_nul_is_unreadable_and_every_account_of_it_still_works():
    soul = compose_soul("/a\0b")
    assert (soul.sections[0].status, soul.sections[0].reason) == ("unreadable", "embedded null byte")
    assert (soul.name, soul.stale(), soul.sections[0].resolved_path) == ("a\0b", [], Path("/a\0b/AGENTS.md"))


@pytest.fixture
def nobody():
    """Root reads whatever the mode says: where the tests run as root, be nobody for a while."""
    before = os.geteuid()
    if before == 0:
        os.seteuid(65_534)
    yield
    os.seteuid(before)


def test_a_file_without_permission_is_unreadable(tmp_path, request):
    (persona(tmp_path, SOUL=b"x") / "SOUL.md").chmod(0)
    request.getfixturevalue("nobody")
    section = compose_soul(tmp_path).section("SOUL.md")
    assert (section.status, section.reason) == ("unreadable", "Permission denied")


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (os.mkdir, "is a directory, not a file"),
        (os.mkfifo, "is a FIFO, not a file"),
        (lambda path: os.symlink("/dev/null", path), "is a character device, not a file"),
    ],
    ids=["directory", "FIFO", "device"],
)
def test_what_is_not_a_file_is_named(tmp_path, make, reason):
    make(tmp_path / "SOUL.md")
    section = compose_soul(tmp_path).section("SOUL.md")
    assert (section.found, section.status, section.reason) == (False, "not_regular", reason)


def test_a_link_within_the_directory_does_not_leave_it(tmp_path):
    persona(tmp_path, ada=b"x")
    (tmp_path / "SOUL.md").symlink_to("ada.md")
    section = compose_soul(tmp_path).section("SOUL.md")
    assert (section.link_target, section.resolved_path) == (str(tmp_path / "ada.md"), tmp_path / "ada.md")
    assert not section.leaves_directory


def test_a_link_out_of_the_directory_names_its_target(tmp_path):
    (tmp_path / "shared.md").write_bytes(b"x")
    (persona(tmp_path / "ava") / "SOUL.md").symlink_to("../shared.md")
    section = compose_soul(tmp_path / "ava").section("SOUL.md")
    assert (section.text, section.resolved_path, section.leaves_directory) == ("x", tmp_path / "shared.md", True)


def test_a_name_that_only_begins_like_the_directory_lies_outside_it(tmp_path):
    persona(tmp_path / "ava-old", SOUL=b"x")
    (persona(tmp_path / "ava") / "SOUL.md").symlink_to("../ava-old/SOUL.md")
    assert compose_soul(tmp_path / "ava").section("SOUL.md").leaves_directory


def test_bytes_that_are_not_utf8_are_counted_and_placed(tmp_path):
    section = section_of(tmp_path, "é".encode() + b"\xff\xe2\x82 caf\xe9")
    assert section.text == f"é{FFFD}{FFFD}{FFFD} caf{FFFD}"
    assert (section.replaced_bytes, section.first_replaced_byte) == (4, 2)


def test_a_replacement_character_of_the_file_itself_is_not_counted(tmp_path):
    section = section_of(tmp_path, FFFD.encode())
    assert (section.text, section.replaced_bytes, section.first_replaced_byte) == (FFFD, 0, None)


def test_one_bad_file_changes_no_other(tmp_path):
    soul = compose_soul(persona(tmp_path, AGENTS="é".encode(), SOUL=b"\xff", USER="€".encode()))
    assert soul.text == f"## AGENTS.md\n\né\n\n## SOUL.md\n\n{FFFD}\n\n## USER.md\n\n€"


# --- the cap -----------------------------------------------------------------------------


def cut(at_line=1, at_column=CAP_BYTES + 1, *, lost, head, split=0):
    return Truncation(at_byte=CAP_BYTES, line=at_line, column=at_column, lost_bytes=lost, split_character=split, lost_head=head)


@pytest.mark.parametrize("size", [CAP_BYTES - 1, CAP_BYTES])
def test_a_file_up_to_the_cap_is_whole(tmp_path, size):
    section = section_of(tmp_path, b"a" * size)
    assert (section.truncation, section.kept_bytes, section.characters) == (None, size, size)


def test_a_file_over_the_cap_says_where_it_was_cut(tmp_path):
    soul = compose_soul(persona(tmp_path, SOUL=b"a" * CAP_BYTES + b"bcd\n"))
    section = soul.section("SOUL.md")
    assert section.truncation == cut(lost=4, head="bcd\n")
    assert (section.size_bytes, section.kept_bytes, section.replaced_bytes) == (CAP_BYTES + 4, CAP_BYTES, 0)
    assert section.text == "a" * CAP_BYTES + TRUNCATION_NOTICE
    assert (soul.truncated, soul.text[slice(*section.span)] == section.text) == (["SOUL.md"], True)


@pytest.mark.parametrize(
    ("character", "kept"),
    [("é", 1), ("€", 1), ("€", 2), ("🦞", 1), ("🦞", 2), ("🦞", 3)],
)
def test_a_cut_inside_a_character_loses_it_whole(tmp_path, character, kept):
    length = len(character.encode())
    section = section_of(tmp_path, b"a" * (CAP_BYTES - kept) + character.encode() + b"tail")
    assert section.truncation == cut(at_column=CAP_BYTES - kept + 1, lost=length - kept + 4, head=f"{character}tail", split=length)
    assert section.text == "a" * (CAP_BYTES - kept) + FFFD * kept + TRUNCATION_NOTICE
    assert (section.replaced_bytes, section.first_replaced_byte) == (kept, CAP_BYTES - kept)


@pytest.mark.parametrize("character", ["é", "€", "🦞"])
def test_a_cut_between_two_characters_splits_none(tmp_path, character):
    encoded = character.encode()
    before = section_of(tmp_path, b"a" * CAP_BYTES + encoded)
    after = section_of(tmp_path, b"a" * (CAP_BYTES - len(encoded)) + encoded + b"z")
    assert before.truncation == cut(lost=len(encoded), head=character)
    assert after.truncation == cut(at_column=CAP_BYTES - len(encoded) + 2, lost=1, head="z")


def test_bad_bytes_before_the_cut_are_no_split_character(tmp_path):
    section = section_of(tmp_path, b"a" * (CAP_BYTES - 2) + b"\xe2\x82" + b"tail")
    assert section.truncation == cut(lost=4, head="tail")
    assert section.replaced_bytes == 2


def test_the_place_of_a_cut_is_a_line_and_a_column(tmp_path):
    start = b"one\ntwo\n"
    rest = CAP_BYTES - len(start)
    in_a_line = section_of(tmp_path, start + b"a" * rest + b"b")
    after_a_newline = section_of(tmp_path, start + b"a" * (rest - 1) + b"\n" + b"b")
    assert in_a_line.truncation == cut(3, rest + 1, lost=1, head="b")
    assert after_a_newline.truncation == cut(4, 1, lost=1, head="b")


def test_white_space_before_the_cut_counts_towards_its_place(tmp_path):
    section = section_of(tmp_path, b"\n" * CAP_BYTES + b"text")
    assert (section.text, section.truncation) == (TRUNCATION_NOTICE.strip(), cut(CAP_BYTES + 1, 1, lost=4, head="text"))


def test_the_head_of_what_was_lost_is_bounded_and_ends_with_a_whole_character(tmp_path):
    section = section_of(tmp_path, b"a" * CAP_BYTES + b"b" * (LOST_HEAD_BYTES - 1) + "€".encode() + b"c" * 9_000)
    assert section.truncation == cut(lost=LOST_HEAD_BYTES + 9_002, head="b" * (LOST_HEAD_BYTES - 1))


def test_the_notice_is_located_at_the_cut(tmp_path):
    soul = compose_soul(persona(tmp_path, SOUL=b" \nab" + b"c" * (CAP_BYTES - 4) + b"d"))
    start, end = soul.section("SOUL.md").span
    assert soul.locate(start) == Location("SOUL.md", 2, 1)
    assert {soul.locate(offset) for offset in (end - len(TRUNCATION_NOTICE), end - 1)} == {Location("SOUL.md", 2, CAP_BYTES - 1)}
    assert soul.locate("SOUL.md", 2, CAP_BYTES - 2) == end - len(TRUNCATION_NOTICE) - 1
    with pytest.raises(ValueError, match="is not in the prompt"):
        soul.locate("SOUL.md", 2, CAP_BYTES - 1)


# --- places ------------------------------------------------------------------------------


def test_the_heading_and_the_gap_before_it_are_line_zero(tmp_path):
    soul = compose_soul(persona(tmp_path, SOUL=b"ab", MEMORY=b""))
    heading = soul.text.index("## MEMORY.md")
    assert soul.locate(0) == Location("SOUL.md", 0, 1)
    assert soul.locate(11) == Location("SOUL.md", 0, 12)
    assert soul.locate(heading - 2) == soul.locate(heading) == Location("MEMORY.md", 0, 1)
    assert soul.locate(len(soul.text) - 1) == Location("MEMORY.md", 0, 14)


def test_lines_and_columns_are_those_of_the_file_not_of_the_trimmed_body(tmp_path):
    soul = compose_soul(persona(tmp_path, SOUL="\n\n  é€x\ny\n".encode()))
    assert soul.locate(soul.text.index("x")) == Location("SOUL.md", 3, 5)
    assert soul.locate("SOUL.md", 4) == soul.text.index("y")


@pytest.mark.parametrize("offset", [-1, 14, 1_000])
def test_an_offset_outside_the_prompt_is_an_index_error(tmp_path, offset):
    soul = compose_soul(persona(tmp_path, SOUL=b"ab"))
    with pytest.raises(IndexError, match=f"offset {offset} is not in the prompt: it has 14 characters"):
        soul.locate(offset)


@pytest.mark.parametrize("place", [(0, 1), (-1, 1), (2, 0), (1, 1), (2, 1), (2, 2), (2, 6), (3, 3), (4, 1), (9, 1)])
def test_a_place_that_was_not_sent_is_a_value_error(tmp_path, place):
    # Line 1 and the indent of "ab" are trimmed, and so is all that follows "cd".
    soul = compose_soul(persona(tmp_path, SOUL=b"\n  ab\ncd\n\n"))
    with pytest.raises(ValueError, match=r"SOUL\.md: line -?\d.* is not in the prompt"):
        soul.locate("SOUL.md", *place)


@pytest.mark.parametrize("name", ["USER.md", "BOOT.md"])
def test_a_file_that_has_no_section_is_a_value_error(tmp_path, name):
    soul = compose_soul(persona(tmp_path, SOUL=b"ab"))
    with pytest.raises(ValueError, match=rf"{name} is not in the prompt: it has SOUL\.md"):
        soul.locate(name, 1)


def test_a_section_is_found_by_its_file_name(tmp_path):
    soul = compose_soul(tmp_path)
    assert soul.section("HEARTBEAT.md") == soul.sections[5]
    with pytest.raises(KeyError, match=r"soul\.md"):
        soul.section("soul.md")


# --- the soul and the disk ---------------------------------------------------------------


def test_a_soul_is_stale_where_a_file_changed_came_or_went(tmp_path):
    soul = compose_soul(persona(tmp_path, AGENTS=b"a", SOUL=b"s", USER=b"u"))
    assert soul.stale() == []
    persona(tmp_path, SOUL=b"t", MEMORY=b"new")
    (tmp_path / "USER.md").unlink()
    assert soul.stale() == ["SOUL.md", "USER.md", "MEMORY.md"]
    assert soul.text == "## AGENTS.md\n\na\n\n## SOUL.md\n\ns\n\n## USER.md\n\nu"


def test_a_change_of_the_white_space_at_an_end_counts_as_a_change(tmp_path):
    soul = compose_soul(persona(tmp_path, SOUL=b"s"))
    persona(tmp_path, SOUL=b"s\n")
    assert soul.stale() == ["SOUL.md"]


def test_the_account_is_of_the_moment_of_composing(tmp_path):
    soul = compose_soul(persona(tmp_path, SOUL=b"before"))
    persona(tmp_path, SOUL=b"afterwards")
    assert (soul.section("SOUL.md").text, soul.section("SOUL.md").size_bytes) == ("before", 6)


def test_a_soul_cannot_be_changed(tmp_path):
    soul = compose_soul(persona(tmp_path, SOUL=b"x"))
    for value, name in ((soul, "text"), (soul.section("SOUL.md"), "text")):
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(value, name, "other")
    soul.found.clear()
    assert soul.found == ["SOUL.md"]


def test_equal_directories_at_the_same_place_give_equal_souls(tmp_path):
    persona(tmp_path, SOUL=b"x")
    first, second = compose_soul(tmp_path), compose_soul(tmp_path)
    assert first.sections == second.sections
    assert (first == second, hash(first) == hash(second)) == (True, True)


def test_repr_is_short_however_long_the_soul(tmp_path):
    soul = compose_soul(persona(tmp_path / "ava", SOUL=b"a" * 3_000_000))
    assert isinstance(soul, Soul)
    assert repr(soul) == f"<Soul 'ava': 1 of 7 files, {len(soul.text)} characters, sha256 {soul.digest[:12]}>"
    assert repr(soul.section("SOUL.md")) == "<Section SOUL.md: found, 3000000 bytes>"
    assert repr(soul.section("USER.md")) == "<Section USER.md: absent, no such file>"
    assert len(repr(soul.sections)) < 500


@given(files=st.fixed_dictionaries({}, optional={name: st.text(alphabet="a\n é", max_size=12) for name in BOOTSTRAP_ORDER}))
def test_every_line_of_the_prompt_has_its_place_in_a_file(tmp_path_factory, files):
    home = tmp_path_factory.mktemp("lines")
    for name, text in files.items():
        (home / name).write_text(text, encoding="utf-8")
    soul = compose_soul(home)
    offset = 0
    for number, line in enumerate(soul.text.split("\n"), 1):
        if offset < len(soul.text):
            assert soul.locate_line(number) == soul.locate(offset)
        offset += len(line) + 1


@pytest.mark.parametrize("line", [0, -1, 4])
def test_a_line_that_the_prompt_does_not_have_is_said(tmp_path, line):
    (tmp_path / "SOUL.md").write_text("x", encoding="utf-8")
    with pytest.raises(IndexError, match=rf"line {line} is not in the prompt: it has 3 lines"):
        compose_soul(tmp_path).locate_line(line)
