"""%agent manages the conversation: what was written is undone, branches are kept, files are safe; and what only %%agent takes."""

from __future__ import annotations

import json

import pytest
from conftest import persona
from wire_server import WireServer, json_reply, status

HELLO = {"model": "m-1", "choices": [{"index": 0, "message": {"role": "assistant", "content": "hello"}, "finish_reason": "stop"}]}
SECRET = "Qz7mZ2xKpW9vT4bNc8dLr"


def prompts(typed):
    return [message.text.strip() for message in typed.magics.session.messages if message.role == "user"]


def in_cell(typed, cell):
    """Make the shell one whose front end names the cell that runs, as notebooks do."""
    typed.shell.kernel = object()
    typed.shell.get_parent = lambda: {"metadata": {"cellId": cell}, "header": {"msg_id": cell}}


# --- undo ----------------------------------------------------------------------------------------


def test_writes_are_undone_in_order_whatever_ran_since(typed, kip, tmp_path):
    persona(tmp_path / "ava")
    before = (kip / "MEMORY.md").read_bytes()
    typed.ok("%%agent kip\n/memory add likes tea")
    typed.ok("%%agent ava\n/memory user add is called Kim")
    typed.ok("%%agent kip\nno write at all")
    assert typed.ok("%agent --undo") == "undone: add → USER.md\n"
    assert not (tmp_path / "ava" / "USER.md").exists()
    assert typed.ok("%agent --undo") == "undone: add → MEMORY.md\n"
    assert (kip / "MEMORY.md").read_bytes() == before
    assert typed.refused("%agent --undo") == "nothing to undo: no memory has been written"


def test_a_write_can_be_undone_after_another_session_was_loaded(typed, kip):
    before = (kip / "MEMORY.md").read_bytes()
    typed.ok("%%agent kip\n/memory add likes tea")
    typed.ok("%agent --save talk.json")
    typed.ok("%agent --load talk.json")
    typed.ok("%agent --undo")
    assert (kip / "MEMORY.md").read_bytes() == before


# --- branches ------------------------------------------------------------------------------------


def test_a_continued_cell_run_again_replaces_its_turn_and_a_fork_keeps_the_other(typed):
    in_cell(typed, "a")
    typed.ok("%%agent kip\nfirst")
    in_cell(typed, "b")
    typed.ok("%%agent -c\nsecond")
    typed.ok("%agent --fork before")
    typed.ok("%%agent -c\nsecond, in other words")
    assert prompts(typed) == ["first", "second, in other words"]
    typed.ok("%agent --switch before")
    assert prompts(typed) == ["first", "second"]
    in_cell(typed, "c")
    typed.ok("%%agent -c\nthird")
    typed.ok("%agent --switch before")
    assert prompts(typed) == ["first", "second"]


def test_in_a_terminal_every_cell_is_a_turn(typed):
    typed.ok("%%agent kip\nfirst")
    typed.ok("%%agent -c\nsecond")
    typed.ok("%%agent -c\nsecond")
    assert prompts(typed) == ["first", "second", "second"]


def test_branches_are_named_in_the_status_and_a_wrong_name_is_helped(typed):
    typed.ok("%%agent kip\nfirst")
    assert typed.ok("%agent --fork plan-a") == "kept as plan-a: %agent --switch plan-a goes back to it\n"
    assert "branches plan-a" in typed.ok("%agent")
    assert typed.refused("%agent --switch plan-b").endswith("did you mean plan-a?")


def test_a_prompt_that_got_no_answer_is_not_sent_twice(typed, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-fake-" + SECRET)
    with WireServer([status(401, {"error": {"message": "no"}}), json_reply(HELLO)]) as server:
        typed.failed(f"%%agent kip --base-url {server.base_url} -m m\nhello")
        typed.ok(f"%%agent -c --base-url {server.base_url} -m m\nhello")
    assert [message["content"].strip() for message in server.requests[1].json["messages"][1:]] == ["hello"]


# --- files ---------------------------------------------------------------------------------------


def test_what_is_no_session_file_is_replaced_with_force_alone(typed, kip):
    typed.ok("%%agent kip\nhi")
    before = (kip / "SOUL.md").read_bytes()
    words = "kip/SOUL.md: exists and is not a saved session: name another file, or add --force to replace it"
    assert typed.refused("%agent --save kip/SOUL.md") == words
    assert (kip / "SOUL.md").read_bytes() == before
    typed.ok("%agent --save kip/SOUL.md --force")
    assert json.loads((kip / "SOUL.md").read_text())["name"] == "kip"


def test_a_bad_file_leaves_the_session_as_it_was(typed, tmp_path):
    typed.ok("%%agent kip\nfirst")
    (tmp_path / "talk.json").write_text('{"format": "toolnexus_nb session", "version": 2, "messages": [7]}')
    assert typed.refused("%agent --load talk.json").startswith("talk.json: not a saved session: message 1 is a number")
    assert prompts(typed) == ["first"]


def test_a_loaded_session_writes_where_the_person_points(typed, kip):
    typed.ok("%%agent kip\nfirst")
    typed.ok("%agent --save talk.json")
    assert "memory   off: %agent --load FILE DIR lets it write there" in typed.ok("%agent --load talk.json")
    typed.ok("%%agent -c -o run\n/memory add likes tea")
    assert typed["run"].tool_calls[-1].result.is_error
    typed.ok("%agent --load talk.json kip")
    typed.ok("%%agent -c\n/memory add likes tea")
    assert "likes tea" in (kip / "MEMORY.md").read_text()


# --- %%agent: headers, deadline, comments --------------------------------------------------------


def test_a_header_takes_its_value_from_the_environment_and_shows_it_nowhere(typed, monkeypatch):
    monkeypatch.setenv("AZURE_KEY", SECRET)
    answers = [status(401, {"error": {"message": f"bad key {SECRET}"}}), json_reply(HELLO)]
    with WireServer(answers) as server:
        where = f"--base-url {server.base_url}/?api-version=2024-10-21 -m m --header api-key=AZURE_KEY"
        error = typed.failed(f"%%agent kip {where} -o run\nhi")
        seen = [typed.out, str(error)]
        seen += [typed.ok(cell) for cell in (f"%%agent kip {where} --dry-run\nhi", f"%%agent kip {where}\nhi", "%agent")]
    assert [request.headers["api-key"] for request in server.requests] == [SECRET] * 2
    assert [request.path for request in server.requests] == ["/v1/chat/completions?api-version=2024-10-21"] * 2
    assert [text for text in (*seen, repr(typed.magics.__dict__), repr(typed["run"])) if SECRET[:8] in text] == []
    assert "api-key: [redacted]" in seen[2]


@pytest.mark.parametrize("given", [f"api-key={SECRET}-x", "api-key", f"=x{SECRET}", f"api-key={SECRET}"])
def test_a_key_typed_in_place_of_a_variable_is_refused_without_being_shown(typed, given):
    line = typed.refused(f"%%agent kip -m mirror --header {given}\nhi")
    assert line.startswith("--header ")
    assert SECRET[:8] not in line


def test_a_run_ends_by_the_clock(typed):
    typed.ok("import time\ndef slow() -> str:\n    time.sleep(0.2)\n    return 'done'")
    out = typed.ok("%%agent kip --tool slow --deadline 0.1 -o run\n/loop slow")
    assert (typed["run"].status, typed["run"].limit) == ("incomplete", "seconds")
    assert "◐ incomplete: seconds: the time given with --deadline is over" in out


@pytest.mark.parametrize("line", ["%soul kip  # our tutor", "%soul kip # x --view nothing", "%soul kip --view text #x"])
def test_a_comment_is_no_part_of_the_line(typed, line):
    assert "found 3 of 7" in typed.ok(line)


def test_a_directory_may_have_a_hash_in_its_name(typed, tmp_path):
    persona(tmp_path / "a #b")
    persona(tmp_path / "#c")
    assert "found 1 of 7" in typed.ok("%soul a #b")
    assert "found 1 of 7" in typed.ok("%soul #c")
    assert "done" in typed.ok("%%agent #c  # hello\nhi")


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("%agent kip -m mirror", "%agent: runs nothing: to run a persona write %%agent, and the message below it"),
        ("%agent --dry-run", "%agent: runs nothing: to run a persona write %%agent, and the message below it"),
        ("%%agent kip --save x.json\nhi", "%%agent: --save runs nothing: write %agent --save on a line of its own"),
        ("%%agent kip --fork=x\nhi", "%%agent: --fork runs nothing: write %agent --fork on a line of its own"),
        ("%%agent kip --deadline 0\nhi", "--deadline 0.0: too small: 0.1 is the least"),
        ("%%agent kip --header api-key=NOT_SET_HERE\nhi", "--header api-key: there is no such environment variable: set it"),
        ("%agent --history", "%agent: no session yet: run %%agent, or %agent --load FILE"),
    ],
)
def test_what_the_other_magic_takes_is_refused(typed, line, words):
    assert words in typed.refused(line)


def test_a_dry_run_starts_no_model(typed, monkeypatch):
    from toolnexus_nb.embedded import local

    before = dict(local._servers.running)
    out = typed.ok("%%agent kip -m local --dry-run\nhi")
    assert out.startswith("POST http://")
    assert dict(local._servers.running) == before
