"""memory: byte-exact edits, one at a time across threads and processes, shown, asked for and undone."""

import os
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from toolnexus_nb import locking
from toolnexus_nb.conversation import ToolResult
from toolnexus_nb.errors import SessionError
from toolnexus_nb.memory import MemoryEdit, memory_tool
from toolnexus_nb.rules import WHITE

ADDED = "ok (add → MEMORY.md); loads next session"

contents = st.one_of(
    st.binary(max_size=60),
    st.text(alphabet="ab \t\r\n\x1c\x85\xa0\u2028\u200b\ufeff-é€", max_size=40).map(str.encode),
)
texts = st.one_of(
    st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20), st.text(alphabet="ab\r\n", min_size=1, max_size=4)
)


def call(directory, action, text, **more):
    return memory_tool(directory).call({"action": action, "text": text, **more})


def edits_of(directory, *calls) -> list[MemoryEdit]:
    """Make the calls and return what `on_edit` was told."""
    told: list[MemoryEdit] = []
    tool = memory_tool(directory, on_edit=told.append)
    for arguments in calls:
        assert not tool.call(arguments).is_error
    return told


def add(text, **more):
    return {"action": "add", "text": text, **more}


# --- the tool -----------------------------------------------------------------------------------


def test_the_tool_is_called_memory_and_asks_for_action_and_text(tmp_path):
    tool = memory_tool(tmp_path)
    assert tool.name == "memory"
    assert tool.parameters["required"] == ["action", "text"]
    properties = {name: (kind["type"], kind.get("enum")) for name, kind in tool.parameters["properties"].items()}
    assert properties == {
        "action": ("string", ["add", "replace", "remove"]),
        "target": ("string", ["self", "user"]),
        "text": ("string", None),
        "with": ("string", None),
    }


def test_importing_it_does_not_import_filelock():
    code = "import sys, toolnexus_nb.memory; print('filelock' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "False\n"


@pytest.mark.parametrize(
    ("arguments", "file", "action"),
    [
        (add("x"), "MEMORY.md", "add"),
        (add("x", target="self"), "MEMORY.md", "add"),
        (add("x", target=None), "MEMORY.md", "add"),
        (add("x", target="user"), "USER.md", "add"),
        ({"action": "replace", "text": "old", "with": "new", "target": "user"}, "USER.md", "replace"),
        ({"action": "remove", "text": "old"}, "MEMORY.md", "remove"),
    ],
)
def test_a_result_names_the_action_and_the_file(tmp_path, arguments, file, action):
    for name in ("MEMORY.md", "USER.md"):
        (tmp_path / name).write_bytes(b"old\n")
    result = memory_tool(tmp_path).call(arguments)
    assert (result.text, result.is_error) == (f"ok ({action} → {file}); loads next session", False)
    assert [path.name for path in tmp_path.iterdir() if path.read_bytes() != b"old\n"] == [file]


@pytest.mark.parametrize(
    ("arguments", "answer"),
    [
        ({"action": "erase", "target": "moon", "text": ""}, "unknown action: erase"),
        ({}, "unknown action: "),
        ({"action": ["add"], "text": "x"}, "unknown action: ['add']"),
        ({"action": "a\ud800", "text": "x"}, "unknown action: a\\ud800"),
        ({"action": "add", "target": "moon", "text": ""}, "unknown target: moon: use self (MEMORY.md) or user (USER.md)"),
        ({"action": "add", "target": "", "text": "x"}, "unknown target: : use self (MEMORY.md) or user (USER.md)"),
        ({"action": "add", "target": {}, "text": "x"}, "unknown target: {}: use self (MEMORY.md) or user (USER.md)"),
        ({"action": "add", "text": ""}, "empty text: say what to add"),
        ({"action": "replace", "text": "", "with": "x"}, "empty text: say what to replace"),
        ({"action": "remove"}, "empty text: say what to remove"),
        ({"action": "add", "text": 3}, "text must be a string, not int"),
        ({"action": "replace", "text": "old", "with": 3}, "with must be a string, not int"),
        ({"action": "add", "text": "ab\ud83d"}, "text holds half a character (a lone surrogate) at position 2: send whole ones"),
        (
            {"action": "replace", "text": "old", "with": "\udcff"},
            "with holds half a character (a lone surrogate) at position 0: send whole ones",
        ),
        ({"action": "replace", "text": "gone", "with": "x"}, "not found: gone"),
        ({"action": "remove", "text": "New"}, "not found: New"),
        ({"action": "remove", "text": "Old"}, "not found: Old: the nearest is line 1: old"),
        ({"action": "replace", "text": "old"}, "replace without with: say in `with` what comes in place of the text, or use remove"),
        (
            {"action": "replace", "text": "old", "with": None},
            "replace without with: say in `with` what comes in place of the text, or use remove",
        ),
        (
            {"action": "replace", "text": "old", "with": " "},
            "replace without with: say in `with` what comes in place of the text, or use remove",
        ),
    ],
)
def test_what_cannot_be_done_is_an_answer_and_changes_nothing(tmp_path, arguments, answer):
    (tmp_path / "MEMORY.md").write_bytes(b"old\n")
    assert memory_tool(tmp_path).call(arguments) == ToolResult(answer, is_error=True)
    assert [(path.name, path.read_bytes()) for path in tmp_path.iterdir()] == [("MEMORY.md", b"old\n")]


# --- the bytes ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("before", "text", "after"),
    [
        (None, "x", b"- x\n"),
        (b"", "x", b"- x\n"),
        (b" \n\t\n", "x", b"- x\n"),
        (b"- a", "x", b"- a\n- x\n"),
        (b"- a\n\n\n", "x", b"- a\n- x\n"),
        (b"\n\n  - a\n", "x", b"\n\n  - a\n- x\n"),
        (b"a\xc2\x85\xc2\xa0\xe3\x80\x80", "x", b"a\n- x\n"),
        (b"a\x1c\x1f", "x", b"a\x1c\x1f\n- x\n"),
        (b"a\xe2\x80\x8b", "x", b"a\xe2\x80\x8b\n- x\n"),
        (b"a\x85\xa0 ", "x", b"a\x85\xa0\n- x\n"),
        (b"a\xff\n", "x", b"a\xff\n- x\n"),
        (b"\xef\xbb\xbf- a\n", "x", b"\xef\xbb\xbf- a\n- x\n"),
        (b"- a\r\n", "x", b"- a\r\n- x\r\n"),
        (b"- a\r\n- b\n", "x", b"- a\r\n- b\r\n- x\r\n"),
        (b"- a\n", "two\nlines", b"- a\n- two\nlines\n"),
        (b"- a\r\n", "two\nlines", b"- a\r\n- two\nlines\r\n"),
        (b"- a\n", "nul \x00 é €", b"- a\n- nul \x00 \xc3\xa9 \xe2\x82\xac\n"),
    ],
)
def test_add_puts_one_entry_behind_what_stands(tmp_path, before, text, after):
    file = tmp_path / "MEMORY.md"
    if before is not None:
        file.write_bytes(before)
    assert call(tmp_path, "add", text).text == ADDED
    assert file.read_bytes() == after


def test_nothing_to_remove_from_makes_no_file(tmp_path):
    assert call(tmp_path / "new", "remove", "a") == ToolResult("not found: a", is_error=True)
    assert list(tmp_path.iterdir()) == []


def test_a_replacement_by_the_same_text_is_ok_and_writes_nothing(tmp_path):
    file = tmp_path / "MEMORY.md"
    file.write_bytes(b"- a\n")
    before, asked = file.stat(), []
    tool = memory_tool(tmp_path, confirm=asked.append, on_edit=asked.append)
    result = tool.call({"action": "replace", "text": "a", "with": "a"})
    assert result == ToolResult("ok (replace → MEMORY.md); loads next session")
    assert (file.stat().st_ino, file.stat().st_mtime_ns, asked) == (before.st_ino, before.st_mtime_ns, [])


@settings(deadline=None)  # each example waits for the disk
@given(contents, texts)
def test_any_add_keeps_the_prefix_and_undo_brings_every_byte_back(before, text):
    with tempfile.TemporaryDirectory() as directory:
        file = Path(directory, "MEMORY.md")
        file.write_bytes(before)
        (edit,) = edits_of(directory, add(text))
        after = file.read_bytes()
        assert after.startswith(before[: len(before) - trailing_white(before)])
        assert b"- " + text.encode() in after
        edit.undo()
        assert file.read_bytes() == before


def trailing_white(data: bytes) -> int:
    """Count the trailing bytes that are white, one character at a time, as Go's DecodeLastRune goes."""
    kept, white = data, tuple(character.encode() for character in WHITE)
    while kept.endswith(white):
        kept = next(kept.removesuffix(character) for character in white if kept.endswith(character))
    return len(data) - len(kept)


@settings(deadline=None)  # each example waits for the disk
@given(contents, texts, contents, st.sampled_from(["remove", "replace"]))
def test_undo_brings_every_byte_back_whatever_the_edit(head, text, tail, action):
    with tempfile.TemporaryDirectory() as directory:
        before, told = head + text.encode() + tail, []
        Path(directory, "MEMORY.md").write_bytes(before)
        result = memory_tool(directory, on_edit=told.append).call({"action": action, "text": text, "with": "€\n"})
        assert bool(told) == (Path(directory, "MEMORY.md").read_bytes() != before)
        assert not (told and result.is_error)
        for edit in told:
            edit.undo()
        assert Path(directory, "MEMORY.md").read_bytes() == before


# --- files --------------------------------------------------------------------------------------


def test_the_directory_is_made_when_the_first_note_needs_it(tmp_path):
    assert not call(tmp_path / "a" / "b", "add", "x").is_error
    assert (tmp_path / "a" / "b" / "MEMORY.md").read_bytes() == b"- x\n"


def outside(folder, name="notes/kept.md", link="MEMORY.md"):
    """Make a persona whose notes are a link to a file of the folder above; return (persona, real file)."""
    target = folder / name
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(b"- a\n")
    home = folder / "ava"
    home.mkdir()
    (home / link).symlink_to(os.path.relpath(target, home))
    return home, target


def test_a_link_stays_a_link_and_its_target_is_edited(tmp_path):
    (tmp_path / "kept.md").write_bytes(b"- a\n")
    link = tmp_path / "MEMORY.md"
    link.symlink_to("kept.md")
    (edit,) = edits_of(tmp_path, add("b"))
    assert (link.is_symlink(), (tmp_path / "kept.md").read_bytes()) == (True, b"- a\n- b\n")
    assert (edit.path, edit.file, edit.outside) == (tmp_path.resolve() / "kept.md", "MEMORY.md", "")


def test_a_write_out_of_the_directory_is_asked_about_and_names_the_real_file(tmp_path):
    home, target = outside(tmp_path)
    asked: list[MemoryEdit] = []
    tool = memory_tool(home, confirm_outside=lambda edit: asked.append(edit) or True)
    result = tool.call(add("b"))
    assert [(edit.file, edit.outside, edit.path) for edit in asked] == [("MEMORY.md", "../notes/kept.md", target.resolve())]
    assert asked[0].place == "MEMORY.md (a link to ../notes/kept.md, outside the directory)"
    assert result.text == f"{ADDED}: it is a link to ../notes/kept.md, outside the directory"
    assert result.diff == (
        "! MEMORY.md is a link: this writes ../notes/kept.md, outside the directory\n"
        "--- ../notes/kept.md\n+++ ../notes/kept.md\n@@ -1 +1,2 @@\n - a\n+- b\n"
    )
    assert ((home / "MEMORY.md").is_symlink(), target.read_bytes()) == (True, b"- a\n- b\n")


def test_a_write_out_of_the_directory_is_refused_where_no_one_can_be_asked(tmp_path):
    home, target = outside(tmp_path)
    told: list[MemoryEdit] = []
    result = memory_tool(home, on_edit=told.append).call(add("b"))
    fact = "MEMORY.md is a link to ../notes/kept.md, outside the directory"
    assert result == ToolResult(f"not written: {fact}: no one is here to ask: pass Options(confirm=…)", is_error=True)
    assert (told, target.read_bytes()) == ([], b"- a\n")


def test_a_write_out_of_the_directory_may_be_refused(tmp_path):
    home, target = outside(tmp_path)
    result = memory_tool(home, confirm_outside=lambda edit: False).call(add("b"))
    place = "MEMORY.md (a link to ../notes/kept.md, outside the directory)"
    assert result == ToolResult(f"not written: the user refused this edit of {place}", is_error=True)
    assert target.read_bytes() == b"- a\n"


def test_who_is_asked_about_each_write_is_asked_once_about_one_out_of_the_directory(tmp_path):
    home, _ = outside(tmp_path)
    asked = []
    tool = memory_tool(home, confirm=lambda edit: asked.append("each") or True, confirm_outside=lambda edit: asked.append("outside"))
    assert (tool.call(add("b")).is_error, asked) == (False, ["each"])


def test_a_write_inside_the_directory_is_not_asked_about(tmp_path):
    (tmp_path / "ava").mkdir()
    (tmp_path / "alias").symlink_to("ava")
    asked = []
    assert memory_tool(tmp_path / "alias", confirm_outside=asked.append).call(add("b")).text == ADDED
    assert asked == []


def test_a_link_turned_outwards_while_the_lock_is_waited_for_is_asked_about(tmp_path, monkeypatch):
    home, target = outside(tmp_path)
    link = home / "MEMORY.md"
    link.unlink()
    real_makedirs = os.makedirs

    def turn(*arguments, **more):
        if not link.is_symlink():
            link.symlink_to("../notes/kept.md")
        real_makedirs(*arguments, **more)

    monkeypatch.setattr(os, "makedirs", turn)
    assert memory_tool(home).call(add("b")).is_error
    assert target.read_bytes() == b"- a\n"


@pytest.mark.parametrize(
    ("name", "shown"),
    [("kept.md", "../kept.md"), ("notes/deep/kept.md", "../notes/deep/kept.md"), ("bell\x07.md", "../bell\ufffd.md")],
)
def test_a_file_beside_the_directory_is_named_by_the_way_to_it(tmp_path, name, shown):
    home, _ = outside(tmp_path, name)
    asked: list[MemoryEdit] = []
    memory_tool(home, confirm_outside=asked.append).call(add("b"))
    assert [edit.outside for edit in asked] == [shown]


def test_a_file_further_off_is_named_by_its_bare_name(tmp_path):
    (tmp_path / "people" / "ava").mkdir(parents=True)
    (tmp_path / "secret place").mkdir()
    (tmp_path / "people" / "ava" / "USER.md").symlink_to(tmp_path / "secret place" / "ann.md")
    result = memory_tool(tmp_path / "people" / "ava").call(add("b", target="user"))
    assert result.text.startswith("not written: USER.md is a link to ann.md, outside the directory: ")


def test_no_answer_names_an_absolute_path(tmp_path):
    home, target = outside(tmp_path)
    edits: list[MemoryEdit] = []
    tool = memory_tool(home, confirm_outside=lambda edit: True, on_edit=edits.append)
    results = [tool.call(call) for call in (add("b"), {"action": "remove", "text": "b"}, {"action": "remove", "text": "gone"})]
    target.write_bytes(b"by hand")
    with pytest.raises(SessionError) as caught:
        edits[0].undo()
    told = f"{results} {edits} {[edit.warnings for edit in edits]} {caught.value}"
    assert "MEMORY.md (a link to ../notes/kept.md, outside the directory) changed since" in told
    assert str(tmp_path) not in told


def test_a_link_to_a_missing_file_makes_that_file_and_undo_removes_it(tmp_path):
    (tmp_path / "MEMORY.md").symlink_to("later.md")
    (edit,) = edits_of(tmp_path, add("b"))
    assert (tmp_path / "later.md").read_bytes() == b"- b\n"
    edit.undo()
    assert sorted(os.listdir(tmp_path)) == ["MEMORY.md"]


def test_a_link_into_a_missing_folder_is_an_answer_and_makes_no_folder(tmp_path):
    (tmp_path / "MEMORY.md").symlink_to("unmounted/later.md")
    assert call(tmp_path, "add", "b") == ToolResult("MEMORY.md cannot be written: No such file or directory", is_error=True)
    assert os.listdir(tmp_path) == ["MEMORY.md"]


def test_the_mode_of_the_file_survives(tmp_path):
    file = tmp_path / "MEMORY.md"
    file.write_bytes(b"- a\n")
    file.chmod(0o640)
    call(tmp_path, "add", "b")
    assert file.stat().st_mode & 0o777 == 0o640


def test_nothing_but_the_file_is_left_in_the_directory(tmp_path):
    call(tmp_path, "add", "b")
    assert os.listdir(tmp_path) == ["MEMORY.md"]


def test_a_later_change_of_directory_moves_nothing(tmp_path, monkeypatch):
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path)
    tool = memory_tool("ava")
    monkeypatch.chdir(tmp_path / "elsewhere")
    tool.call(add("x"))
    assert (tmp_path / "ava" / "MEMORY.md").read_bytes() == b"- x\n"


@pytest.mark.parametrize(
    ("make", "answer"),
    [
        (os.mkfifo, "MEMORY.md cannot be read: is a FIFO, not a file"),
        (os.mkdir, "MEMORY.md cannot be read: is a directory, not a file"),
        (lambda path: path.symlink_to("/dev/zero"), "MEMORY.md cannot be read: is a character device, not a file"),
        (lambda path: path.symlink_to(path.name), "MEMORY.md cannot be read: Too many levels of symbolic links"),
    ],
    ids=["fifo", "directory", "device", "loop"],
)
def test_what_is_no_file_is_an_answer_and_stays(tmp_path, make, answer):
    make(tmp_path / "MEMORY.md")
    assert call(tmp_path, "add", "x") == ToolResult(answer, is_error=True)
    assert os.listdir(tmp_path) == ["MEMORY.md"]


def test_a_directory_that_is_a_file_is_an_answer(tmp_path):
    (tmp_path / "ava").write_bytes(b"")
    assert call(tmp_path / "ava", "add", "x") == ToolResult("MEMORY.md cannot be read: Not a directory", is_error=True)


def test_a_path_with_a_nul_is_an_answer():
    assert call("/a\x00b", "add", "x") == ToolResult("embedded null byte", is_error=True)


@pytest.fixture
def as_nobody(request):
    """Yield a persona directory whose two modes are the parameter; the superuser is nobody meanwhile."""
    folder_mode, file_mode = request.param
    with tempfile.TemporaryDirectory() as above:
        os.chmod(above, 0o755)
        directory = Path(above, "ava")
        directory.mkdir()
        (directory / "MEMORY.md").write_bytes(b"- a\n")
        (directory / "MEMORY.md").chmod(file_mode)
        directory.chmod(folder_mode)
        me = os.geteuid()
        if me == 0:
            os.seteuid(65_534)
        yield directory
        os.seteuid(me)
        directory.chmod(0o755)


@pytest.mark.parametrize(
    ("as_nobody", "answer"),
    [
        ((0o555, 0o666), "MEMORY.md cannot be written: Permission denied"),
        ((0o777, 0o444), "MEMORY.md cannot be written: it is read-only"),
    ],
    indirect=["as_nobody"],
    ids=["directory", "file"],
)
def test_what_may_not_be_written_is_an_answer(as_nobody, answer):
    assert call(as_nobody, "add", "x") == ToolResult(answer, is_error=True)
    assert [(path.name, path.read_bytes()) for path in as_nobody.iterdir()] == [("MEMORY.md", b"- a\n")]


def test_only_old_temporary_files_of_our_own_are_cleared_away(tmp_path):
    for name in (".toolnexus-old.tmp", ".toolnexus-new.tmp", ".toolnexus-old.txt", "other-old.tmp"):
        (tmp_path / name).write_bytes(b"")
        if "old" in name:
            os.utime(tmp_path / name, (0, 0))
    call(tmp_path, "add", "x")
    assert sorted(os.listdir(tmp_path)) == [".toolnexus-new.tmp", ".toolnexus-old.txt", "MEMORY.md", "other-old.tmp"]


# --- shown, asked for, undone --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("before", "arguments", "diff"),
    [
        (None, add("x"), "--- /dev/null\n+++ MEMORY.md\n@@ -0,0 +1 @@\n+- x\n"),
        (b"- a", add("x"), "--- MEMORY.md\n+++ MEMORY.md\n@@ -1 +1,2 @@\n-- a\n\\ No newline at end of file\n+- a\n+- x\n"),
        (b"a\r\n", add("x"), "--- MEMORY.md\n+++ MEMORY.md\n@@ -1 +1,2 @@\n a␍\n+- x␍\n"),
        (b"\xff\n", add("@@ -1 +1 @@"), "--- MEMORY.md\n+++ MEMORY.md\n@@ -1 +1,2 @@\n \ufffd\n+- @@ -1 +1 @@\n"),
        (
            b"1\n2\n3\n4\n5\n6\n7\n8\n9\n",
            {"action": "replace", "text": "5", "with": "five"},
            "--- MEMORY.md\n+++ MEMORY.md\n@@ -2,7 +2,7 @@\n 2\n 3\n 4\n-5\n+five\n 6\n 7\n 8\n",
        ),
    ],
)
def test_the_diff_shows_the_edit(tmp_path, before, arguments, diff):
    if before is not None:
        (tmp_path / "MEMORY.md").write_bytes(before)
    assert memory_tool(tmp_path).call(arguments).diff == diff


def test_a_changed_secret_shows_as_changed_and_masked_on_both_sides(tmp_path):
    (tmp_path / "MEMORY.md").write_bytes(b"- password: hunter2xyz9\n- tea\n")
    told: list[MemoryEdit] = []
    call = {"action": "replace", "text": "password: hunter2xyz9", "with": "password: hunter3xyz9"}
    result = memory_tool(tmp_path, on_edit=told.append).call(call)
    diff = (
        "--- MEMORY.md\n+++ MEMORY.md\n@@ -1,2 +1,2 @@\n-- password: [masked: password]\n+- password: [masked: password, changed]\n - tea\n"
    )
    assert (result.diff, result.text) == (diff, "ok (replace → MEMORY.md); loads next session")
    assert "hunter" not in repr(told)
    assert (tmp_path / "MEMORY.md").read_bytes() == b"- password: hunter3xyz9\n- tea\n"


def test_a_line_of_a_key_block_is_masked_although_the_block_is_cut(tmp_path):
    body = "".join(f"+{line}\n" for line in ("MIIEpAIBAAKCAQEA7bq", "u8Jx0Zr5kVn2wq1", "aa11bb22cc33dd44ee"))
    block = f"-----BEGIN RSA PRIVATE KEY-----\n{body.replace('+', '')}-----END RSA PRIVATE KEY-----\n"
    (tmp_path / "MEMORY.md").write_text(block)
    result = memory_tool(tmp_path).call({"action": "replace", "text": "u8Jx0Zr5kVn2wq1", "with": "v9Jx0Zr5kVn2wq1"})
    assert "[masked: private key, changed]" in result.diff
    assert "Jx0Zr5kVn2wq1" not in result.diff + result.text


def test_a_secret_in_a_new_heading_is_masked_in_its_warning(tmp_path):
    result = call(tmp_path, "add", "x\n## password: hunter2xyz9")
    assert "! opens a heading, as the sections of the soul do: ## password: [masked: password, changed]\n" in result.diff
    assert "hunter" not in result.diff


def test_the_diff_cuts_no_long_line(tmp_path):
    assert call(tmp_path, "add", "x" * 100_000).diff.endswith("+- " + "x" * 100_000 + "\n")


def test_a_change_between_two_bytes_that_look_alike_is_in_the_diff():
    edit = MemoryEdit("replace", "self", "MEMORY.md", Path("MEMORY.md"), b"\xff\n", b"\xfe\n", True, "x")
    assert edit.diff == "--- MEMORY.md\n+++ MEMORY.md\n@@ -1 +1 @@\n-\ufffd\n+\ufffd\n"


@pytest.mark.parametrize(
    ("before", "arguments", "warnings"),
    [
        (b"", add("plain\n#tag\n- ---"), ()),
        (b"# Notes\n\n- a\n", add("b"), ()),
        (b"", add("# big"), ("opens a heading, as the sections of the soul do: - # big",)),
        (b"", add("a\n## USER.md\n\nb"), ("opens a heading, as the sections of the soul do: ## USER.md",)),
        (b"", add("a\r\nTitle\r\n==="), ("opens a heading, as the sections of the soul do: Title",)),
        (b"- x # y\n", {"action": "remove", "text": "x "}, ("opens a heading, as the sections of the soul do: - # y",)),
        (b"a" * 2_097_149, add("b"), ("MEMORY.md has 2097154 bytes now: only the first 2097152 are sent",)),
        (b"a" * 2_097_147, add("b"), ()),
    ],
)
def test_an_edit_warns_of_headings_and_of_the_cap_and_is_made(tmp_path, before, arguments, warnings):
    (tmp_path / "MEMORY.md").write_bytes(before)
    told: list[MemoryEdit] = []
    result = memory_tool(tmp_path, on_edit=told.append).call(arguments)
    assert told[0].warnings == warnings
    assert result.text == f"ok ({arguments['action']} → MEMORY.md); loads next session"
    assert result.diff == "".join(f"! {warning}\n" for warning in warnings) + told[0].diff
    assert (tmp_path / "MEMORY.md").read_bytes() == told[0].after


def test_an_edit_says_what_it_is_and_its_repr_stays_short(tmp_path):
    before, after = b"likes tea" + b"likes rain" * 999, b"likes ice" + b"likes rain" * 999
    (tmp_path / "USER.md").write_bytes(before)
    (edit,) = edits_of(tmp_path, {"action": "replace", "text": "tea", "with": "ice", "target": "user"})
    path = tmp_path.resolve() / "USER.md"
    assert edit == MemoryEdit("replace", "user", "USER.md", path, before, after, True, "tea")
    assert len(repr(edit)) < 400


def test_undo_of_an_add_that_made_the_file_removes_the_file(tmp_path):
    (edit,) = edits_of(tmp_path, add("x"))
    edit.undo()
    assert os.listdir(tmp_path) == []


def test_edits_are_undone_in_turn_from_the_last(tmp_path):
    first, second = edits_of(tmp_path, add("a"), add("b"))
    with pytest.raises(SessionError, match=r"^MEMORY\.md changed since: "):
        first.undo()
    second.undo()
    first.undo()
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("change", [lambda file: file.write_bytes(b"by hand"), lambda file: file.unlink()], ids=["edited", "removed"])
def test_undo_leaves_a_file_that_changed_since_as_it_is(tmp_path, change):
    (edit,) = edits_of(tmp_path, add("a"))
    change(tmp_path / "MEMORY.md")
    left = sorted((path.name, path.read_bytes()) for path in tmp_path.iterdir())
    with pytest.raises(SessionError, match=r"^MEMORY\.md changed since: "):
        edit.undo()
    assert sorted((path.name, path.read_bytes()) for path in tmp_path.iterdir()) == left


def test_undo_twice_is_refused(tmp_path):
    first, second = edits_of(tmp_path, add("a"), add("b"))
    second.undo()
    with pytest.raises(SessionError, match=r"^MEMORY\.md changed since: "):
        second.undo()
    assert (tmp_path / "MEMORY.md").read_bytes() == first.after


def test_undo_keeps_the_mode(tmp_path):
    file = tmp_path / "MEMORY.md"
    file.write_bytes(b"- a\n")
    file.chmod(0o640)
    (edit,) = edits_of(tmp_path, add("b"))
    edit.undo()
    assert (file.read_bytes(), file.stat().st_mode & 0o777) == (b"- a\n", 0o640)


def test_confirm_sees_the_edit_before_it_is_made_and_may_refuse(tmp_path):
    seen = []

    def refuse(edit):
        seen.append((edit.after, (tmp_path / "MEMORY.md").exists()))
        return False

    told: list[MemoryEdit] = []
    result = memory_tool(tmp_path, confirm=refuse, on_edit=told.append).call(add("x"))
    assert result == ToolResult("not written: the user refused this edit of MEMORY.md", is_error=True)
    assert (seen, told, os.listdir(tmp_path)) == ([(b"- x\n", False)], [], [])


def test_a_question_that_cannot_be_put_is_a_no(tmp_path):
    def nobody_there(edit):
        raise EOFError

    result = memory_tool(tmp_path, confirm=nobody_there).call(add("x"))
    assert result == ToolResult("not written: the user could not be asked: EOFError", is_error=True)
    assert os.listdir(tmp_path) == []


def test_stop_during_the_question_is_not_swallowed(tmp_path):
    def stop(edit):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        memory_tool(tmp_path, confirm=stop).call(add("x"))


def test_the_question_is_put_again_when_the_file_changed_meanwhile(tmp_path):
    asked = []

    def slow_yes(edit):
        asked.append(edit.after)
        if len(asked) == 1:
            assert not call(tmp_path, "add", "from another kernel").is_error
        return True

    assert memory_tool(tmp_path, confirm=slow_yes).call(add("mine")).text == ADDED
    assert asked == [b"- mine\n", b"- from another kernel\n- mine\n"]
    assert (tmp_path / "MEMORY.md").read_bytes() == asked[-1]


def test_a_text_that_is_gone_when_the_answer_comes_is_not_found(tmp_path):
    (tmp_path / "MEMORY.md").write_bytes(b"- a\n")

    def slow_yes(edit):
        (tmp_path / "MEMORY.md").write_bytes(b"")
        return True

    result = memory_tool(tmp_path, confirm=slow_yes).call({"action": "remove", "text": "a"})
    assert result == ToolResult("not found: a", is_error=True)


def test_a_link_that_is_turned_round_under_the_question_is_followed_to_where_it_leads(tmp_path):
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "notes.md").write_bytes(b"- a\n")
    link = tmp_path / "MEMORY.md"
    link.symlink_to("one/notes.md")
    asked = []

    def turn(edit):
        asked.append(edit.path.parent.name)
        link.unlink()
        link.symlink_to("two/notes.md")
        return True

    assert memory_tool(tmp_path, confirm=turn).call(add("b")).text == ADDED
    assert asked == ["one", "two"]
    assert [(tmp_path / name / "notes.md").read_bytes() for name in ("one", "two")] == [b"- a\n", b"- a\n- b\n"]


def test_a_screen_that_fails_does_not_unmake_the_edit(tmp_path):
    def broken(edit):
        raise RuntimeError("no screen")

    result = memory_tool(tmp_path, on_edit=broken).call(add("x"))
    assert result.text == ADDED
    assert result.diff.splitlines()[0] == "! MEMORY.md is written, but showing it failed: no screen"
    assert (tmp_path / "MEMORY.md").read_bytes() == b"- x\n"


def test_a_callback_may_use_the_tool_itself(tmp_path):
    def note_that(edit):
        assert not call(tmp_path, "add", "noted", target="user").is_error

    assert memory_tool(tmp_path, on_edit=note_that).call(add("x")).text == ADDED
    assert (tmp_path / "USER.md").read_bytes() == b"- noted\n"


# --- many at once --------------------------------------------------------------------------------


def test_a_lock_that_stays_held_is_an_answer(tmp_path, monkeypatch):
    from filelock import FileLock

    monkeypatch.setattr(locking, "LOCK_SECONDS", 0.05)
    (tmp_path / "MEMORY.md").write_bytes(b"- a\n")
    (edit,) = edits_of(tmp_path, add("b"))
    held = threading.Event()
    done = threading.Event()

    def hold():
        with FileLock(tmp_path / ".toolnexus.lock"):
            held.set()
            done.wait(10)

    holder = threading.Thread(target=hold)
    holder.start()
    try:
        assert held.wait(10)
        busy = "memory is being written by another process: try again"
        assert call(tmp_path, "add", "x") == ToolResult(busy, is_error=True)
        with pytest.raises(SessionError, match=rf"^MEMORY\.md is not undone: {busy}$"):
            edit.undo()
    finally:
        done.set()
        holder.join()
    assert (tmp_path / "MEMORY.md").read_bytes() == b"- a\n- b\n"


def test_a_lock_left_by_a_killed_process_holds_nobody_up(tmp_path):
    (tmp_path / ".toolnexus.lock").write_bytes(b"")
    assert call(tmp_path, "add", "x").text == ADDED
    assert os.listdir(tmp_path) == ["MEMORY.md"]


def write_lines(directory, writer, lines):
    tool = memory_tool(directory)
    for line in range(lines):
        assert not tool.call(add(f"writer {writer} line {line}")).is_error


def wanted_lines(writers, lines):
    return sorted(f"- writer {writer} line {line}" for writer in range(writers) for line in range(lines))


def test_eight_processes_lose_no_line(tmp_path):
    code = """
import sys
from toolnexus_nb.memory import memory_tool
tool = memory_tool(sys.argv[1])
for line in range(25):
    assert not tool.call({"action": "add", "text": f"writer {sys.argv[2]} line {line}"}).is_error
"""
    writers = [subprocess.Popen([sys.executable, "-c", code, tmp_path, str(writer)]) for writer in range(8)]
    assert [writer.wait(60) for writer in writers] == [0] * 8
    assert sorted((tmp_path / "MEMORY.md").read_text().splitlines()) == wanted_lines(8, 25)
    assert os.listdir(tmp_path) == ["MEMORY.md"]


def test_eight_threads_lose_no_line(tmp_path):
    writers = [threading.Thread(target=write_lines, args=(tmp_path, writer, 10)) for writer in range(8)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join(60)
    assert sorted((tmp_path / "MEMORY.md").read_text().splitlines()) == wanted_lines(8, 10)
