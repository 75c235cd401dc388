"""What a reader would miss is found in the files, in their names and around them; nothing else is."""

from __future__ import annotations

import os
import shlex
import subprocess

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from toolnexus_nb.lint import SCAN_CHARACTERS, Finding, findings, help_for, near_misses
from toolnexus_nb.lint.marks import QUOTED_CHARACTERS, marks, visible
from toolnexus_nb.soul import BOOTSTRAP_ORDER, CAP_BYTES, compose_soul


@pytest.fixture
def persona(tmp_path):
    """Make the directory `ava`, where nothing beside it disturbs, with the files of one call."""
    directory = tmp_path / "ava"
    directory.mkdir()

    def write(files: dict[str, str | bytes]):
        for name, body in files.items():
            path = directory / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(body if isinstance(body, bytes) else body.encode())
        return directory

    return write


def _found(directory) -> list[tuple[str, str, int | None, str]]:
    return [(f.kind, f.file, f.line, f.message) for f in findings(compose_soul(directory))]


def _of_kind(directory, kind: str) -> list[tuple[int | None, str]]:
    return [(f.line, f.message) for f in findings(compose_soul(directory)) if f.kind == kind]


def _said(text: str) -> list[tuple[str, int]]:
    return [(mark.kind, mark.offset) for alike in marks(text, "SOUL.md") for mark in alike]


# --- names -------------------------------------------------------------------------------------


def test_a_plain_persona_has_no_findings(persona):
    directory = persona(dict.fromkeys(BOOTSTRAP_ORDER, "Be exact. Ask when in doubt.") | {"README.md": "about", "LICENSE": "x"})

    assert findings(compose_soul(directory)) == ()


def test_a_name_in_the_wrong_case_comes_with_its_rename(persona):
    directory = persona({"soul.md": "x"})

    message = "soul.md is not read: the name must be SOUL.md; rename it: mv soul.md SOUL.md"
    assert near_misses(directory) == (Finding("near-miss", "", None, message, "warning"),)


@pytest.mark.parametrize(
    ("name", "proper"),
    [
        ("SOUL.MD", "SOUL.md"),
        ("Soul.md", "SOUL.md"),
        ("SOUL.markdown", "SOUL.md"),
        ("SOUL.md.txt", "SOUL.md"),
        ("SOUL", "SOUL.md"),
        ("SOUL.md ", "SOUL.md"),
        (" SOUL.md", "SOUL.md"),
        ("AGENT.md", "AGENTS.md"),
        ("agent.md", "AGENTS.md"),
        ("HEARTBEET.md", "HEARTBEAT.md"),
        ("\u0405OUL.md", "SOUL.md"),
        ("SOUL\u200b.md", "SOUL.md"),
        ("ＳＯＵＬ.md", "SOUL.md"),
        ("SOUL.md~", "SOUL.md"),
        ("USER.md.bak", "USER.md"),
        (".SOUL.md.swp", "SOUL.md"),
        ("MEMORY copy.md", "MEMORY.md"),
        ("MEMORY (1).md", "MEMORY.md"),
        ("it's 'SOUL.md", ""),
        ("STYLE.md", ""),
        ("RULES.md", ""),
        ("SOUL.dev.md", ""),
        ("MEMORY2.md", ""),
        ("._SOUL.md", ""),
        ("tools", ""),
    ],
)
def test_the_rename_of_a_near_miss_is_a_command_that_works(persona, name, proper):
    directory = persona({name: "x"})
    commands = [finding.message.rpartition(": ")[2] for finding in near_misses(directory)]

    if commands:
        subprocess.run(["bash", "-c", commands[0]], cwd=directory, check=True)
    assert os.listdir(directory) == [proper or name]


def test_a_letter_that_only_looks_right_is_named(persona):
    directory = persona({"\u0405OUL.md": "x"})

    assert "this one holds U+0405 (cyrillic capital letter dze); rename it" in near_misses(directory)[0].message


def test_a_near_miss_beside_the_proper_file_is_not_to_be_renamed(persona):
    directory = persona({"SOUL.md": "x", "soul.md": "y", "SOUL.md~": "z"})

    assert [(finding.message, finding.severity) for finding in near_misses(directory)] == [
        ("soul.md is not read, SOUL.md beside it is: move what is missing there, and delete the other", "warning"),
        ("SOUL.md~ is not read, SOUL.md beside it is: an editor's copy, perhaps", "note"),
    ]


def test_one_file_under_two_names_is_no_near_miss(persona):
    directory = persona({"SOUL.md": "x"})
    os.link(directory / "SOUL.md", directory / "soul.md")

    assert near_misses(directory) == ()


def test_of_two_near_misses_only_the_nearer_is_to_be_renamed(persona):
    directory = persona({"SOUL.txt": "x", "Soul.md": "y"})

    assert [finding.message for finding in near_misses(directory)] == [
        "Soul.md is not read: the name must be SOUL.md; rename it: mv Soul.md SOUL.md",
        "SOUL.txt is not read: the name must be SOUL.md, and Soul.md is as near to it; keep one of the two",
    ]


def test_a_name_that_is_not_utf_8_is_shown_and_quoted_by_its_bytes(persona):
    directory = persona({})
    (directory / os.fsdecode(b"\xffSOUL.md")).write_text("x")
    (directory / "-USER.md\n").write_text("x")

    assert [finding.message.rpartition(": ")[2] for finding in near_misses(directory)] == [
        "mv $'\\xffSOUL.md' SOUL.md",
        "mv -- $'-USER.md\\n' USER.md",
    ]


def test_files_in_a_sub_directory_and_in_the_parent_are_pointed_at(persona):
    directory = persona({"persona/SOUL.md": "x", "persona/USER.md": "x", "more/TOOLS.md": "x"})
    (directory.parent / "AGENTS.md").write_text("x")

    assert [f.message for f in findings(compose_soul(directory)) if f.kind == "elsewhere"] == [
        "2 of the seven are in ./persona (SOUL.md, USER.md), where they are not read: move them here, or show that directory",
        "TOOLS.md is in ./more, where it is not read: move it here, or show that directory",
        "AGENTS.md is in the parent directory, where it is not read: move it here, or show that directory",
    ]


def test_files_that_are_here_are_not_missed_elsewhere(persona):
    directory = persona({"SOUL.md": "x", "old/SOUL.md": "x"})

    assert _found(directory) == []


def test_other_files_that_people_expect_to_be_read_are_summed_up(persona):
    names = ("SOUL.md", "BOOTSTRAP.md", "memory/2026-01-01.md", "memory/2026-01-02.md", "skills/a/SKILL.md", "STYLE.md", "README.md")
    directory = persona(dict.fromkeys(names, "x"))

    assert [f.message for f in findings(compose_soul(directory)) if f.kind == "not-read"] == [
        "BOOTSTRAP.md, memory/ (2 files), skills/ (1 skill): not read, only the seven are; move there what the model must know",
        "STYLE.md: not read, only the seven are; move there what the model must know",
    ]


def test_a_link_that_leaves_the_directory_is_told_with_its_target(persona):
    directory = persona({"SOUL.md": "x"})
    (directory.parent / "shared.md").write_text("x")
    (directory / "USER.md").symlink_to("../shared.md")
    (directory / "TOOLS.md").symlink_to("SOUL.md")
    ((_, message),) = _of_kind(directory, "link")

    assert message.startswith("the file is a link that leaves the directory, to ")
    assert message.endswith("/shared.md: copy it here if the persona is to travel")


def test_a_link_that_leads_nowhere_is_told(persona):
    directory = persona({})
    (directory / "USER.md").symlink_to("gone.md")

    assert _found(directory) == [
        ("link", "USER.md", None, "the name is a link that leads nowhere, to gone.md: mend the link, or delete it")
    ]


# --- bodies ------------------------------------------------------------------------------------


def test_a_line_that_looks_like_a_section_heading_is_found_at_its_line_in_the_file(persona):
    directory = persona({"AGENTS.md": "\n\nBe exact.\n\n## USER.md\r\n\nfake\n### USER.md\n## USER.md is a file\ntext ## USER.md\n"})

    assert _found(directory) == [
        ("heading-like", "AGENTS.md", 5, "“## USER.md” looks to the model like the beginning of another file: word the heading differently")
    ]


@pytest.mark.parametrize("text", ["## SOUL.md", "x\n## MEMORY.md", "   ## TOOLS.md  \ny", "##  AGENTS.md ##"])
def test_a_section_heading_is_found_wherever_a_line_begins_with_it(text):
    assert [kind for kind, _ in _said(text)] == ["heading-like"]


@pytest.mark.parametrize(
    ("data", "line", "message"),
    [
        (b"\xef\xbb\xbfx", 1, "the file begins with a byte order mark (U+FEFF), which is sent: save it as UTF-8 without BOM"),
        (b"a\nb \xff c", 2, "1 byte is not UTF-8, 0xFF at byte 4; each is sent as U+FFFD: save the file as UTF-8"),
        ("é ù".encode("latin-1"), 1, "2 bytes are not UTF-8, the first 0xE9 at byte 0; each is sent as U+FFFD: save the file as UTF-8"),
        (
            "\ufeff# Ada".encode("utf-16-le"),
            1,
            "the file is UTF-16 with a byte order mark, and the model is sent NULs between its letters: save it as UTF-8",
        ),
        (
            "Be exact.".encode("utf-16-be"),
            1,
            "the file is UTF-16 without a byte order mark, and the model is sent NULs between its letters: save it as UTF-8",
        ),
    ],
)
def test_what_is_not_plain_utf_8_is_told_once(persona, data, line, message):
    assert _found(persona({"SOUL.md": data})) == [("encoding", "SOUL.md", line, message)]


def test_a_character_that_the_cap_splits_is_not_the_files_fault(persona):
    directory = persona({"SOUL.md": b"a" * (CAP_BYTES - 1) + "é".encode() + b"z"})

    assert _of_kind(directory, "encoding") == []


def test_front_matter_is_told_and_its_comments_are_no_headings(persona):
    directory = persona({"SOUL.md": "---\ntitle: x\n# not a heading\n---\n\ntext"})

    message = "YAML front matter of 4 lines is sent, though a preview hides it: delete it if the model has no use for it"
    assert _found(directory) == [("front-matter", "SOUL.md", 1, message)]


@pytest.mark.parametrize("text", ["---", "---\n\ntext\n---", "text\n---\na: b\n---"])
def test_a_rule_is_no_front_matter(text):
    assert _said(text) == []


def test_comments_are_told_with_their_beginning(persona):
    directory = persona({"SOUL.md": "a\n<!-- never\nsay this -->\n`<!-- code -->`\n```\n<!-- code -->\n```\n<!-- open"})
    cure = "is sent, though a preview hides it: delete it if the model must not read it"

    assert _of_kind(directory, "comment") == [
        (2, f"the comment “<!-- never\\nsay this -->” {cure}"),
        (8, f"a comment that is never closed {cure}"),
    ]


@pytest.mark.parametrize(
    "text",
    ["{{name}}", "{% raw %}", "[TODO]", "[TODO: voice]", "[your name]", "[INSERT VOICE]", "<name>", "<your name here>", "<path/to/x>"],
)
def test_a_placeholder_is_found(text):
    assert _said(f"I am {text}, exact.") == [("placeholder", 5)]


@pytest.mark.parametrize(
    "text",
    ["<https://ada.local>", "<b>b</b>", "<rules>be</rules>", "`<name>`", "```\n<name>\n```", "a < b > c", "[your](url)", "[x] done", "{x}"],
)
def test_markup_and_code_are_no_placeholders(text):
    assert _said(text) == []


def test_only_the_first_heading_of_level_one_is_told(persona):
    directory = persona({"SOUL.md": "```\n# code\n```\n## fine\n# Ada\n\n# More\n", "USER.md": "Ada\n===\n"})

    assert [(f.kind, f.file, f.line, f.severity) for f in findings(compose_soul(directory))] == [
        ("outranks", "SOUL.md", 5, "note"),
        ("outranks", "USER.md", 1, "note"),
    ]


@pytest.mark.parametrize(
    ("text", "fact"),
    [
        ("a\u200bb", "U+200B (zero width space) is sent and cannot be seen"),
        ("a\u200b\u200b\u2060b", "U+200B (zero width space) and 2 more like it are sent and cannot be seen"),
        ("a\u202eb", "U+202E (right-to-left override) here: the text is displayed in another order than it is sent"),
        ("a\x1bb", "U+001B (control character) is sent and cannot be seen"),
        ("a\U000e0068\U000e0069b", "2 invisible tag characters are sent, spelling “hi”"),
        ("a\u200db", "U+200D (zero width joiner) is sent and cannot be seen"),
    ],
)
def test_characters_that_cannot_be_seen_are_named(persona, text, fact):
    assert _found(persona({"SOUL.md": text})) == [("invisible", "SOUL.md", 1, f"{fact}: delete what was not meant")]


@pytest.mark.parametrize(
    "text",
    [
        "👩\u200d💻 🏳\ufe0f\u200d🌈 1\ufe0f⃣",
        "می\u200cنویسی",
        "🏴\U000e0067\U000e0062\U000e0065\U000e006e\U000e0067\U000e007f",
        "a\tb\r\n\xa0\u3000x",
    ],
)
def test_characters_that_belong_to_their_script_are_left_alone(text):
    assert _said(text) == []


def test_a_code_fence_that_is_never_closed_is_told_at_its_line(persona):
    directory = persona({"SOUL.md": "`````\n````\n`````\ntext\n~~~\nls"})

    message = "a code fence is opened here and never closed, so that all that follows looks like code: close it"
    assert _found(directory) == [("fence", "SOUL.md", 5, message)]


@pytest.mark.parametrize("token", ["<|im_start|>", "<|eot_id|>", "[INST]", "<<SYS>>", "<start_of_turn>", "<bos>", "</s>"])
def test_a_mark_of_chat_templates_is_found(token):
    assert _said(f"x\n{token} y") == [("chat-token", 2)]


def test_an_include_is_told_to_include_nothing(persona):
    directory = persona({"SOUL.md": 'a\n#include "VOICE.md"'})

    assert _of_kind(directory, "include") == [(2, '“#include "VOICE.md"” is sent as written, nothing is included: paste the text here')]


def test_a_secret_is_told_by_its_line_and_never_shown(persona):
    directory = persona({"TOOLS.md": "\na\npassword: hunter2\nb\npassword: hunter3", "USER.md": "<!-- token=q9w8e7r6t5 -->"})
    found = findings(compose_soul(directory))

    fact = "this line seems to hold a secret (password), and it is sent with every request"
    assert ("secret", 3, f"{fact}: move it out of the file (also on line 5)") in [(f.kind, f.line, f.message) for f in found]
    assert not any(secret in f.message for f in found for secret in ("hunter", "q9w8"))


def test_equal_findings_are_told_once_with_all_their_lines(persona):
    directory = persona({"SOUL.md": "{{name}}\nx {{name}}\n{{name}} {{name}}"})

    assert _of_kind(directory, "placeholder") == [(1, "“{{name}}” is sent as it stands: fill it in or delete it (also on lines 2, 3)")]


def test_many_findings_of_one_kind_are_counted(persona):
    names, comments = (f"{{{{name {i}}}}}" for i in range(10)), (f"<!--{i}-->" for i in range(500))
    directory = persona({"SOUL.md": "\n".join(names), "USER.md": "\n".join(comments)})

    assert _of_kind(directory, "placeholder")[6:] == [(7, "and 4 more like this, on lines 7, 8, 9, 10")]
    assert _of_kind(directory, "comment")[6][1].startswith("and at least 194 more like this, on lines 7, 8, 9,")


def test_a_soul_that_is_too_long_to_look_through_says_so(persona):
    directory = persona({"SOUL.md": "short", "USER.md": "u" * 1_500_000, "MEMORY.md": "m" * 1_500_000})
    half = (SCAN_CHARACTERS - 5) // 2

    assert [f.message for f in findings(compose_soul(directory))] == [
        f"only the first {share} of 1500000 characters were looked through for hints: shorten the file to have all of it looked through"
        for share in (half, SCAN_CHARACTERS - 5 - half)
    ]


_PIECES = (
    b"<!--|-->|{{|}}|[TODO|]|<a|>|```|---\n|# |## USER.md|a|\x1b|\xef\xbb\xbf|password: |hunter2|\xff|\xf0\x9f\xa6\x9e|\xe2\x80\x8d"
).split(b"|")


@settings(max_examples=60)
@given(st.lists(st.sampled_from([b"\n", *_PIECES])).map(b"".join))
def test_every_finding_is_one_short_line_about_a_line_of_the_file(tmp_path_factory, data):
    directory = tmp_path_factory.getbasetemp() / "any"
    directory.mkdir(exist_ok=True)
    (directory / "SOUL.md").write_bytes(data)

    for finding in findings(compose_soul(directory)):
        assert finding.line is None or 1 <= finding.line <= data.count(b"\n") + 1
        assert finding.message.isprintable()
        assert len(finding.message) < 400


@given(st.text())
def test_visible_text_is_short_printable_and_on_one_line(text):
    shown = visible(text)

    assert shown.isprintable()
    assert len(shown) <= QUOTED_CHARACTERS


# --- a directory that cannot be shown ----------------------------------------------------------


@pytest.fixture
def here(tmp_path, monkeypatch):
    """Work in an empty directory of its own, so that paths are as a person writes them."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_no_help_is_needed_where_one_of_the_seven_is(here):
    (here / "SOUL.md").write_text("x")

    assert help_for(".") == ""
    assert help_for("") == ""


def test_a_missing_directory_names_the_nearest_one(here):
    (here / "ava").mkdir()

    assert help_for("./aav") == "./aav: no such directory: did you mean ./ava?"
    assert help_for("zzz/ava") == "zzz/ava: no such directory: zzz is not there either; check the path"
    assert help_for("q") == "q: no such directory: make it, or name a directory that holds AGENTS.md, SOUL.md or another of the seven"


def test_a_file_names_its_directory(here):
    (here / "ava").mkdir()
    (here / "ava" / "SOUL.md").write_text("x")

    assert help_for("ava/SOUL.md") == "ava/SOUL.md: is a file: its directory is ava"


def test_near_miss_names_come_with_one_rename_that_works_from_here(here):
    (here / "my ava").mkdir()
    (here / "my ava" / "soul.md").write_text("x")
    told = help_for("my ava")

    assert told == "none of the seven files is in my ava: soul.md must be named SOUL.md: mv 'my ava/soul.md' 'my ava/SOUL.md'"
    subprocess.run(shlex.split(told.rpartition(": ")[2]), check=True)
    assert help_for("my ava") == ""


def test_a_sub_directory_or_the_parent_that_holds_them_is_named(here):
    (here / "x" / "persona").mkdir(parents=True)
    (here / "x" / "empty").mkdir()
    for name in BOOTSTRAP_ORDER[:3]:
        (here / "x" / "persona" / name).write_text("x")

    assert help_for("./x") == "none of the seven files is in ./x: 3 of them are in ./x/persona"
    (here / "x" / "SOUL.md").write_text("x")
    assert help_for("./x/empty") == "none of the seven files is in ./x/empty: 1 of them is in ./x/empty/.."


def test_names_that_are_no_files_are_told(here):
    (here / "SOUL.md").mkdir()

    assert help_for(".") == "none of the seven files is in .: SOUL.md is there, but it is no file that can be read"


@pytest.mark.parametrize("path", ["a\0b", "x/" * 3_000, "\udcff", "a\nb", "{x}", "~nobody-here/x"])
def test_help_for_a_hostile_path_is_one_line(here, path):
    told = help_for(path)

    assert told.isprintable()
    assert 0 < len(told) < 600
