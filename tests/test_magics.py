"""%soul, %%agent and %agent as a person types them, in a plain shell."""

from __future__ import annotations

import json
import re
import traceback

import pytest
from conftest import persona
from IPython.core.completer import provisionalcompleter
from wire_server import WireServer, hang, json_reply, sse, status

from toolnexus_nb import Soul, compose_soul
from toolnexus_nb.conversation import Notice, ReasoningDelta, Run, TextDelta, ToolCallDelta, Usage, UsageReport
from toolnexus_nb.live import CellLive

SAID = "This is the mirror."

KEY = "sk-fake-Q7mZ2xKpW9vT4bNc8dLr"
HELLO = {"model": "m-1", "choices": [{"index": 0, "message": {"role": "assistant", "content": "hello"}, "finish_reason": "stop"}]}


def quoted(out):
    """Return the message that the mirror says it was sent."""
    (block,) = re.findall(r"^> ```\n(.*)\n> ```$", out, re.DOTALL | re.MULTILINE)
    return "\n".join(line.removeprefix("> ").removeprefix(">") for line in block.split("\n"))


# --- %soul ---------------------------------------------------------------------------------------


def test_soul_shows_the_soul_and_returns_it(typed):
    done = typed("%soul kip")
    assert done.result.text == compose_soul("kip").text
    assert "found 3 of 7" in typed.out
    assert "SOUL.md — found" in typed.out


def test_soul_bound_to_a_name_prints_nothing(typed):
    assert typed.ok("soul = %soul kip") == ""
    assert typed["soul"].text == compose_soul("kip").text


@pytest.mark.parametrize("line", ["%soul kip;", "%soul kip ;", '%soul "kip";', "%soul kip --view text;", "%soul --view text kip ;"])
def test_a_semicolon_hides_the_soul_and_is_no_part_of_the_line(typed, line):
    assert "found" not in typed.ok(line)
    assert list(typed.magics.souls) == ["kip"]


@pytest.mark.parametrize("line", ["%%agent kip;", "%%agent kip -m mirror;"])
def test_a_semicolon_behind_an_agent_is_no_part_of_the_line(typed, line):
    assert typed.ok(f"{line}\nhi").startswith("kip · mirror")


def test_a_soul_bound_behind_a_semicolon_is_shown_when_it_is_asked_for(typed):
    typed.ok("soul = %soul kip;")
    assert "found 3 of 7" in typed.ok("soul")


def test_soul_without_a_name_takes_the_directory_it_stands_in(typed, kip, monkeypatch):
    monkeypatch.chdir(kip)
    assert "found 3 of 7" in typed.ok("%soul")


def test_soul_without_a_name_lists_the_loaded_ones(typed, kip):
    assert typed.ok("%soul") == "no persona here and none loaded: %soul DIR shows one\n"
    typed.ok("soul = %soul kip")
    digest = typed["soul"].digest[:12]
    assert typed.ok("%soul") == f"kip: 3 of 7 files, sha256 {digest}\n"
    (kip / "SOUL.md").write_text("You are another.\n")
    assert typed.ok("%soul") == f"kip: 3 of 7 files, sha256 {digest}, changed on disk: SOUL.md\n"


def test_a_name_once_shown_is_known_from_elsewhere(typed, tmp_path, monkeypatch):
    typed.ok("%soul kip;")
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert "found 3 of 7" in typed.ok("%soul kip")


def test_shown_again_it_says_what_changed(typed, kip):
    typed.ok("%soul kip")
    (kip / "SOUL.md").write_text("You are another.\n")
    out = typed.ok("%soul kip")
    assert "Since it was last shown:" in out
    assert "+You are another." in out


def test_against_a_running_session_the_change_loads_next_session(typed):
    typed.ok("%%agent kip\n/memory add likes tea")
    out = typed.ok("%soul kip")
    assert "Since the running session's snapshot (this loads next session):" in out
    assert "+- likes tea" in out


@pytest.mark.parametrize("name", ["my persona", "it's", "{braces}", "$var", "a;b", "Ünal 🜁", "x{y}$z"])
@pytest.mark.parametrize("form", ["{}", '"{}"', "{}/"])
def test_a_directory_may_be_called_anything(typed, tmp_path, name, form):
    persona(tmp_path / name)
    typed.ok("y = z = var = braces = 1")
    assert "found 1 of 7" in typed.ok(f"%soul {form.format(name)}")
    assert "done" in typed.ok(f"%%agent {form.format(name)}\nhi")


def test_a_name_in_braces_or_behind_a_dollar_is_filled_in_where_no_directory_is_called_so(typed, tmp_path):
    persona(tmp_path / "deep" / "ava")
    typed.ok("folder = 'deep'")
    assert "found 1 of 7" in typed.ok("%soul {folder}/ava")
    assert "found 1 of 7" in typed.ok("%soul $folder/ava")
    assert typed.refused("%soul {nowhere}/ava").startswith("{nowhere}/ava: no such directory")


@pytest.mark.parametrize("view", ["auto", "html", "text", "widget"])
def test_every_view_says_what_was_found(typed, view):
    assert "kip" in typed.ok(f"%soul kip --view {view}")


def test_secrets_of_a_soul_are_shown_when_asked_for(typed, tmp_path):
    persona(tmp_path / "ava", "token: ghp_Q7mZ2xKpW9vT4bNc8dLrQ7mZ2xKpW9vT4bNc\n")
    assert "ghp_Q7mZ2x" not in typed.ok("%soul ava")
    assert "ghp_Q7mZ2x" in typed.ok("%soul ava --show-secrets")


def test_a_soul_made_in_python_is_shown_the_same_way(typed):
    assert "found 3 of 7" in typed.ok("from toolnexus_nb import compose_soul\ncompose_soul('kip')")


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("%soul nowhere", "nowhere: no such directory: "),
        ("%soul kpi", "kpi: no such directory: did you mean kip?"),
        ("%soul kip/SOUL.md", "kip/SOUL.md: is a file: its directory is kip"),
        ("%soul empty", "none of the seven files is in empty: "),
        ("%soul kip --veiw text", "%soul: unrecognized arguments: --veiw text; did you mean --view?"),
        ("%soul kip --view txt", "did you mean text?"),
        ("%soul kip --view", "%soul: argument --view: expected one argument"),
        ("%soul 'kip", "%soul: No closing quotation: close the quotes"),
        ("%%agent nowhere\nhi", "nowhere: no such directory: "),
        ("%%agent kip/SOUL.md\nhi", "kip/SOUL.md: is a file: its directory is kip"),
        ("%%agent empty\nhi", "none of the seven files is in empty: "),
        ("%%agent\nhi", "%%agent: no persona is named: %%agent DIR, or %soul DIR first"),
        ("%%agent kip\n \n", "%%agent: the cell has no text to send"),
        ("%%agent kip --modle mirror\nhi", "did you mean --model?"),
        ("%%agent kip --memory of\nhi", "did you mean off?"),
        ("%%agent kip --style opnai\nhi", "did you mean openai?"),
        ("%%agent kip --role usr\nhi", "did you mean user?"),
        ("%%agent kip --max-tokens many\nhi", "argument --max-tokens: invalid int value: 'many'"),
        ("%%agent kip --max-tokens 0\nhi", "--max-tokens 0: too small: 1 is the least"),
        ("%%agent kip --max-turns 0\nhi", "--max-turns 0: too small: 1 is the least"),
        ("%%agent kip --timeout 0\nhi", "--timeout 0.0: too small: 0.1 is the least"),
        ("%%agent kip --timeout nan\nhi", "--timeout nan: too small: 0.1 is the least"),
        ("%%agent kip --param top_p\nhi", "--param top_p: not KEY=JSON: write for instance --param top_p=0.9"),
        ("%%agent kip --param stop=end\nhi", "--param stop: end is not JSON: text needs quotes, --param 'stop=\"end\"'"),
        ("%%agent kip --tool tied\nhi", "--tool tied: not a function of this notebook: define it first; did you mean tide?"),
        ("%%agent kip --tool bare\nhi", "--tool <lambda> cannot be a tool: "),
        ("%%agent kip -o 1x\nhi", "-o 1x: not a variable name: use letters, digits and _"),
        ("%%agent kip -o class\nhi", "-o class: not a variable name: use letters, digits and _"),
        ("%%agent kip -c\nhi", "-c: there is no conversation to continue: run %%agent once without -c"),
        ("%%agent kip -m openai:m\nhi", "no API key for openai: set OPENAI_API_KEY, or use -m local"),
        ("%%agent kip -m anthropic:m\nhi", "no API key for anthropic: set ANTHROPIC_API_KEY, or use -m local"),
        ("%%agent kip -m opnai:m\nhi", "model 'opnai:m': no endpoint is named opnai: did you mean openai:m?"),
        ("%%agent kip -m opnai:m --dry-run\nhi", "model 'opnai:m': no endpoint is named opnai: did you mean openai:m?"),
        ("%%agent kip -m mirror:x\nhi", "model 'mirror:x': the mirror has no models: use mirror"),
        ("%%agent kip --base-url ftp://x -m m\nhi", "base URL 'ftp://x': not an http:// or https:// address"),
        ("%%agent kip --base-url http://127.0.0.1:9/v1\nhi", "no model is named: "),
        ("%%agent kip --fill\nhi {nope}", "NameError: name 'nope' is not defined: cannot fill in"),
        ("%%agent kip --undo\nhi", "%%agent: --undo runs nothing: write %agent --undo on a line of its own"),
        ("%agent kip", "%agent: runs nothing: to run a persona write %%agent, and the message below it"),
        ("%agent", "%agent: no session yet: run %%agent, or %agent --load FILE"),
        ("%agent --load nowhere.json", "nowhere.json: cannot be read: No such file or directory"),
        ("%agent --hsitory", "did you mean --history?"),
    ],
)
def test_a_bad_argument_is_one_line_that_helps(typed, tmp_path, line, words):
    (tmp_path / "empty").mkdir()
    typed.ok("def tide(): ...\nbare = lambda: 1")
    assert words in typed.refused(line)


def test_a_name_that_is_nearly_one_of_the_seven_is_pointed_out(typed, tmp_path):
    (tmp_path / "ava").mkdir()
    (tmp_path / "ava" / "soul.md").write_text("x")
    assert "soul.md" in typed.refused("%soul ava")
    (tmp_path / "nest").mkdir()
    persona(tmp_path / "nest" / "persona")
    assert "persona" in typed.refused("%soul nest")


def test_a_name_nearly_one_of_the_loaded_is_pointed_out_from_elsewhere(typed, tmp_path, monkeypatch):
    typed.ok("%soul kip;")
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert typed.refused("%soul kipp").endswith("; did you mean kip?")


# --- %%agent -------------------------------------------------------------------------------------


def test_agent_prints_the_reply_once_and_ends_in_one_line(typed):
    lines = typed.ok("%%agent kip -o run\nhi").splitlines()
    run = typed["run"]
    assert isinstance(run, Run)
    assert (run.status, run.model) == ("done", "mirror")
    assert lines[0].startswith("kip · mirror · soul ")
    assert "\n".join(lines[1:-1]) == run.text
    assert lines[-1].startswith("✓ done · mirror · ")


@pytest.mark.parametrize("body", ["{x} $x %soul {{y}}\n", "a\\nb", "\tindented\n\n  more  ", "%%agent\n!ls\n?x", "Ünal 🜁 \u2028"])
def test_the_body_is_sent_as_written(typed, body):
    typed.ok("x = 1")
    typed.ok(f"%%agent kip -o run\n{body}")
    assert typed["run"].messages[0].text.rstrip("\n") == body.rstrip("\n")


def test_fill_expands_expressions_and_names(typed):
    typed.ok("x = 'tea'")
    typed.ok("%%agent kip --fill -o run\n{x.upper()} $x {{x}}")
    assert typed["run"].messages[0].text.strip() == "TEA tea {x}"


def test_without_a_name_the_last_soul_shown_answers(typed, tmp_path):
    persona(tmp_path / "ava")
    typed.ok("%soul kip;")
    typed.ok("%soul ava;")
    assert typed.ok("%%agent\nhi").startswith("ava · mirror")


def test_what_was_shown_is_what_runs_though_the_disk_has_moved_on(typed, kip):
    typed.ok("soul = %soul kip")
    (kip / "SOUL.md").write_text("You are another.\n")
    out = typed.ok("%%agent kip -o run\nhi")
    assert typed["run"].soul_digest == typed["soul"].digest
    assert "ℹ SOUL.md changed on disk since this soul was composed; %soul kip loads the change" in out


def test_each_cell_is_a_run_of_its_own_unless_it_continues(typed):
    typed.ok("%%agent kip -o one\nfirst")
    typed.ok("%%agent kip -o two\nsecond")
    typed.ok("%%agent -c -o three\nthird")
    assert [message.text.strip() for message in typed["two"].messages if message.role == "user"] == ["second"]
    assert [message.text.strip() for message in typed["three"].messages if message.role == "user"] == ["second", "third"]


def test_continuing_with_another_persona_is_refused(typed, tmp_path):
    persona(tmp_path / "ava")
    typed.ok("%%agent kip\nhi")
    assert typed.refused("%%agent ava -c\nhi") == "-c: the conversation is with kip: leave the directory out, or leave -c out"
    typed.ok("%%agent kip -c\nhi")


def test_flags_become_parameters_of_the_request(typed):
    with WireServer([json_reply(HELLO)]) as server:
        typed.ok(
            f"%%agent kip --base-url {server.base_url} -m m-1 --temperature 0.5 --max-tokens 9 --seed 7 "
            """--param top_p=0.9 --param 'stop=["a b", "c"]' --param user="x" --param seed=8\nhi"""
        )
    body = server.requests[0].json
    sent = {name: body[name] for name in ("temperature", "max_tokens", "seed", "top_p", "stop", "user", "model")}
    assert sent == {"temperature": 0.5, "max_tokens": 9, "seed": 8, "top_p": 0.9, "stop": ["a b", "c"], "user": "x", "model": "m-1"}


def test_the_style_and_the_role_decide_the_dialect(typed):
    answer = {"type": "message", "content": [{"type": "text", "text": "hello"}], "stop_reason": "end_turn"}
    with WireServer([json_reply(answer), json_reply(HELLO)]) as server:
        typed.ok(f"%%agent kip --base-url {server.root_url} --style anthropic -m m-1\nhi")
        typed.ok(f"%%agent kip --base-url {server.base_url} --role user -m m-1\nhi")
    assert [request.path for request in server.requests] == ["/v1/messages", "/v1/chat/completions"]
    assert [message["role"] for message in server.requests[1].json["messages"]] == ["user"]


def test_a_function_of_the_notebook_is_a_tool(typed):
    typed.ok("def tide(port: str) -> str:\n    return f'high at {port}'")
    out = typed.ok('%%agent kip --tool tide -o run\n/call tide {"port": "Brest"}')
    assert typed["run"].tool_calls[0].result.text == "high at Brest"
    assert "⚙ tide: high at Brest" in out


def test_turns_are_limited(typed):
    typed.ok("import itertools; count = itertools.count()\ndef tick() -> str:\n    return str(next(count))")
    assert "◐ incomplete: max_turns: the limit on turns was reached" in typed.ok("%%agent kip --tool tick --max-turns 2 -o run\n/loop tick")
    assert typed["run"].turns == 2


def test_a_silent_server_is_a_timeout(typed):
    with WireServer([hang()]) as server:
        error = typed.failed(f"%%agent kip --base-url {server.base_url} -m m-1 --timeout 0.2 -o run\nhi")
    assert (error.run.status, typed["run"] is error.run) == ("timeout", True)


@pytest.mark.parametrize(("directive", "text"), [("/fail 400 no", ""), ("/cut", SAID), ("/error kaput", SAID)])
def test_a_failed_run_shows_what_it_has_binds_it_and_raises(typed, directive, text):
    error = typed.failed(f"%%agent kip -o run\n{directive}\nhello")
    assert typed["run"] is error.run
    assert error.run.text.startswith(text)
    assert text in typed.out
    assert "✕ error: " in typed.out
    assert str(error) == error.run.ending


def test_a_run_that_is_cut_at_its_length_is_shown_and_raises_nothing(typed):
    assert "◐ incomplete: length: the reply was cut at the token limit" in typed.ok("%%agent kip\n/length\nhello")


def test_stop_keeps_the_reply_and_raises_keyboard_interrupt_in_one_line(typed):
    typed.ok("def stop() -> str:\n    raise KeyboardInterrupt")
    error = typed("%%agent kip --tool stop -o run\n/call stop").error_in_exec
    assert isinstance(error, KeyboardInterrupt)
    assert typed["run"].status == "interrupted"
    assert "■ interrupted: what had arrived is kept" in typed.out
    assert typed.out.endswith("\nKeyboardInterrupt: stopped; what had arrived is kept\n")
    typed.ok("%%agent -c\nand then?")


# --- memory --------------------------------------------------------------------------------------


def test_a_write_is_shown_as_a_diff_and_undone(typed, kip):
    before = (kip / "MEMORY.md").read_bytes()
    out = typed.ok("%%agent kip\n/memory add likes tea")
    assert "+- likes tea" in out
    assert "MEMORY.md changed on disk since this soul was composed" in out
    assert typed.ok("%agent --undo") == "undone: add → MEMORY.md\n"
    assert (kip / "MEMORY.md").read_bytes() == before
    assert typed.refused("%agent --undo") == "nothing to undo: no memory has been written"


@pytest.mark.parametrize(("answer", "written"), [("y", True), ("", False), ("no", False)])
def test_memory_may_be_asked_for(typed, kip, monkeypatch, answer, written):
    asked = []
    monkeypatch.setattr("builtins.input", lambda words: asked.append(words) or answer)
    out = typed.ok("%%agent kip --memory ask\n/memory add likes tea")
    assert asked == ["write MEMORY.md? [y/N] "]
    assert "+- likes tea" in out
    assert ("tea" in (kip / "MEMORY.md").read_text()) is written


def test_where_nobody_can_be_asked_nothing_is_written(typed, kip, monkeypatch):
    from IPython.core.error import StdinNotImplementedError

    def nobody(words):
        raise StdinNotImplementedError("no stdin")

    monkeypatch.setattr("builtins.input", nobody)
    typed.ok("%%agent kip --memory ask -o run\n/memory add likes tea")
    assert typed["run"].tool_calls[0].result.is_error
    assert "tea" not in (kip / "MEMORY.md").read_text()


@pytest.mark.parametrize(("answer", "written"), [("y", True), ("", False)])
def test_a_memory_that_is_a_link_out_of_the_directory_is_asked_about_without_being_told_to(typed, kip, monkeypatch, answer, written):
    (kip / "MEMORY.md").rename(kip.parent / "real.md")
    (kip / "MEMORY.md").symlink_to("../real.md")
    asked = []
    monkeypatch.setattr("builtins.input", lambda words: asked.append(words) or answer)
    out = typed.ok("%%agent kip\n/memory add likes tea")
    assert asked == ["write MEMORY.md (a link to ../real.md, outside the directory)? [y/N] "]
    assert "+++ ../real.md" in out
    assert str(kip.parent) not in out
    assert ("likes tea" in (kip.parent / "real.md").read_text()) is written


def test_memory_may_be_off(typed, kip):
    typed.ok("%%agent kip --memory off -o run\n/memory add likes tea")
    assert typed["run"].tool_calls[0].result.text == "unknown tool: memory: there is none"
    assert "tea" not in (kip / "MEMORY.md").read_text()


# --- %agent --------------------------------------------------------------------------------------


def test_agent_shows_the_session(typed, kip):
    typed.ok("%%agent kip -o run\nhi")
    digest, usage = typed["run"].soul_digest[:12], typed["run"].usage
    assert typed.ok("%agent").splitlines()[1:] == [
        "model    mirror",
        f"soul     sha256 {digest}, {len(compose_soul(kip).text)} characters, frozen",
        "disk     unchanged since",
        f"so far   1 run, 1 turn, {usage.prompt} tokens in, {usage.completion} out",
    ]
    (kip / "SOUL.md").write_text("You are another.\n")
    assert "disk     changed since: SOUL.md; %soul kip loads it" in typed.ok("%agent")


def test_the_history_is_shown_and_forgotten(typed):
    typed.ok("%%agent kip\nfirst")
    assert typed.ok("%agent --history").startswith("user: first\n")
    assert "so far   0 runs" in typed.ok("%agent --reset")
    assert typed.ok("%agent --history") == "no messages yet\n"


def test_a_conversation_is_saved_loaded_and_continued(typed):
    typed.ok("%%agent kip -o one\nfirst")
    saved = "saved: my talk.json: it holds the soul and the messages as they are, secrets included\n"
    assert typed.ok('%agent --save "my talk.json"') == saved
    typed.ok("%reload_ext toolnexus_nb")
    typed.ok("%config SoulMagics.model = 'mirror'")
    assert "1 run, 1 turn" in typed.ok('%agent --load "my talk.json"')
    typed.ok("%%agent -c -o two\nsecond")
    assert [message.text.strip() for message in typed["two"].messages if message.role == "user"] == ["first", "second"]
    assert typed["two"].soul_digest == typed["one"].soul_digest


# --- --dry-run -----------------------------------------------------------------------------------


@pytest.mark.parametrize(("model", "style"), [("openai:m-1", "openai"), ("anthropic:m-1", "anthropic")])
def test_a_dry_run_shows_the_request_and_sends_nothing(typed, monkeypatch, model, style):
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
    with WireServer([]) as server:
        out = typed.ok(f"%%agent kip -m {model} --base-url {server.root_url} --seed 7 --dry-run\nhi {{x}}")
    head, _, body = out.partition("\n\n")
    assert server.requests == []
    assert head.splitlines()[0] == f"POST {server.root_url}/" + {"openai": "chat/completions", "anthropic": "v1/messages"}[style]
    assert {"openai": "authorization: [redacted]", "anthropic": "x-api-key: [redacted]"}[style] in head
    sent = json.loads(body)
    assert (sent["model"], sent["seed"], sent["stream"]) == ("m-1", 7, True)
    soul = sent["messages"][0]["content"] if style == "openai" else sent["system"][0]["text"]
    assert soul == compose_soul("kip").text
    assert no_piece_of_the_key(out)


def test_a_dry_run_needs_no_key_and_starts_no_session(typed):
    assert typed.ok("%%agent kip -m openai:m --dry-run\nhi").startswith("POST https://api.openai.com/v1/chat/completions\n")
    assert typed.refused("%agent").startswith("%agent: no session yet")


def test_a_dry_run_of_a_continued_conversation_has_its_history(typed):
    typed.ok("%%agent kip\nfirst")
    body = json.loads(typed.ok("%%agent -c --dry-run\nsecond").partition("\n\n")[2])
    assert [message["role"] for message in body["messages"]] == ["system", "user", "assistant", "user"]


# --- secrets -------------------------------------------------------------------------------------


def no_piece_of_the_key(*texts):
    """Hold that no six characters of the key stand in a row in any text."""
    pieces = {KEY[at : at + 6] for at in range(len(KEY) - 5)} - {"sk-fak", "k-fake", "-fake-"}
    told = "\n".join(texts)
    assert [piece for piece in pieces if piece in told] == []
    return True


ECHOES = {
    "error body": status(401, {"error": {"message": f"Incorrect API key provided: {KEY}."}}),
    "masked": status(401, {"error": {"message": f"Incorrect API key: {KEY[:9]}...{KEY[-5:]}"}}),
    "html": status(403, f"<html><body>{KEY}</body></html>"),
    "error in a good answer": json_reply({"error": {"message": f"key {KEY} is blocked", "type": "x"}}),
    "error event": sse({"choices": [{"index": 0, "delta": {"content": "par"}}]}, {"error": {"message": f"key {KEY} is blocked"}}),
    "no JSON": sse(f"data: {KEY}\n\n"),
}


@pytest.mark.parametrize("echo", ECHOES)
@pytest.mark.parametrize("place", ["openai:m", "anthropic:m"])
def test_no_piece_of_a_key_is_seen_anywhere(typed, tmp_path, monkeypatch, place, echo):
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
    typed("%xmode Verbose")
    with WireServer([ECHOES[echo]]) as server:
        error = typed.failed(f"%%agent kip -m {place} --base-url {server.base_url} -o run\nhi")
    assert KEY in str(server.requests[0].headers)
    seen = [typed.out, typed.err]
    for cell in ("run", "print(repr(run), run.messages)", "%tb", "%agent", "%agent --history", "%agent --save talk.json"):
        typed(cell)
        seen += [typed.out, typed.err]
    frames = "".join(traceback.TracebackException.from_exception(error, capture_locals=True).format())
    data, metadata = typed.shell.display_formatter.format(typed["run"])
    kept = repr((typed.magics.session, typed.magics.__dict__, data, metadata))
    assert no_piece_of_the_key(*seen, frames, kept, (tmp_path / "talk.json").read_text())


def test_a_failure_of_ours_would_not_show_a_key_either(typed, monkeypatch):
    """A bug is not tidy: the verbose traceback of any exception in our frames shows their variables."""
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    typed("%xmode Verbose")
    typed.ok("def tide(**facts): ...\ntide.__signature__ = 1")
    typed("%%agent kip -m openai:m --tool tide\nhi")
    assert no_piece_of_the_key(typed.out, typed.err)


# --- the extension -------------------------------------------------------------------------------


def registered(shell):
    """Return everything of ours that a shell knows of."""
    formatters = [shell.display_formatter.ipython_display_formatter, shell.display_formatter.mimebundle_formatter]
    return {
        "instances": [known for known in shell.configurables if type(known).__module__.startswith("toolnexus_nb")],
        "classes": [name for name in shell.magics_manager.registry if name == "SoulMagics"],
        "magics": [name for kind in shell.magics_manager.magics.values() for name in kind if name in ("soul", "agent")],
        "matchers": [known for known in shell.Completer.matchers if "toolnexus" in getattr(known, "matcher_identifier", "")],
        "formatters": [
            known
            for formatter in formatters
            for known in (*formatter.type_printers, *formatter.deferred_printers)
            if "toolnexus" in str(getattr(known, "__module__", known))
        ],
    }


COUNTS = {"instances": 1, "classes": 1, "magics": 3, "matchers": 1, "formatters": 2}


@pytest.mark.parametrize("cell", ["%load_ext toolnexus_nb", "%reload_ext toolnexus_nb", "%unload_ext toolnexus_nb\n%load_ext toolnexus_nb"])
def test_loaded_again_everything_is_there_once(typed, cell):
    typed.ok("%soul kip")
    typed.ok("%%agent kip\nhi")
    typed.ok(cell)
    typed.ok("soul = %soul kip")
    assert {what: len(found) for what, found in registered(typed.shell).items()} == COUNTS
    assert "found 3 of 7" in typed.ok("soul")


def test_unloaded_nothing_is_left(typed):
    typed.ok("%soul kip")
    typed.ok("%%agent kip -o run\nhi")
    typed.ok("run")
    typed.ok("%unload_ext toolnexus_nb")
    assert registered(typed.shell) == {what: [] for what in COUNTS}
    assert "UsageError: Line magic function `%soul` not found" in (typed("%soul kip"), typed.err)[1]
    assert "%soul --view" not in completed(typed.shell, "%soul --v")


def test_a_soul_outlives_the_extension(typed):
    typed.ok("soul = %soul kip")
    typed.ok("%unload_ext toolnexus_nb")
    assert "<Soul 'kip'" in typed.ok("soul")
    assert isinstance(typed["soul"], Soul)


@pytest.mark.parametrize(
    ("asked", "words"), [("%soul?", "--view"), ("%%agent?", "-o NAME"), ("%agent?", "--history"), ("?%soul", "--view")]
)
def test_a_question_mark_shows_the_help(typed, asked, words):
    out = typed.ok(asked)
    assert words in out
    assert "%%" not in out.replace("%%agent", "")


def test_traits_are_the_defaults_and_flags_win(typed):
    with WireServer([json_reply(HELLO), json_reply(HELLO)]) as server:
        typed.ok(f"%config SoulMagics.base_url = '{server.base_url}'\n%config SoulMagics.model = 'm-1'")
        typed.ok("%%agent kip -o one\nhi")
        typed.ok("%%agent kip -m mirror -o two\nhi")
        typed.ok(f"%%agent kip --base-url {server.base_url} -m m-2\nhi")
    assert (typed["one"].text, typed["two"].model) == ("hello", "mirror")
    assert [request.json["model"] for request in server.requests] == ["m-1", "m-2"]


@pytest.mark.parametrize("setting", ["memory = 'maybe'", "max_turns = 0", "timeout_seconds = 0", "view = 'film'", "style = 'x'"])
def test_a_trait_refuses_what_it_cannot_be(typed, setting):
    before = dict(typed.magics.trait_values())
    typed(f"%config SoulMagics.{setting}")
    assert dict(typed.magics.trait_values()) == before


def test_config_lists_the_traits(typed):
    out = typed.ok("%config SoulMagics")
    assert all(f"SoulMagics.{name}=" in out for name in ("base_url", "max_turns", "memory", "model", "style", "timeout_seconds", "view"))


# --- completion ----------------------------------------------------------------------------------


def completed(shell, line):
    """Return the lines that are offered for one that is begun."""
    with provisionalcompleter():
        return {line[: found.start] + found.text for found in shell.Completer.completions(line, len(line))}


@pytest.mark.parametrize(
    ("line", "word"),
    [
        ("%soul --v", "--view"),
        ("%soul --view wi", "widget"),
        ("%soul ki", "kip"),
        ("%%agent --mem", "--memory"),
        ("%%agent kip -m mir", "mirror"),
        ("%%agent kip --model anth", "anthropic:"),
        ("%%agent kip --memory as", "ask"),
        ("%%agent kip --tool ti", "tide"),
        ("%agent --his", "--history"),
    ],
)
def test_what_can_stand_at_the_cursor_is_offered(typed, tmp_path, monkeypatch, line, word):
    typed.ok("def tide(): ...")
    typed.ok("%soul kip;")
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert line[: line.rindex(" ") + 1] + word in completed(typed.shell, line)


def test_directories_are_offered(typed):
    assert "%soul kip/" in completed(typed.shell, "%soul ki")


def test_other_lines_are_left_alone(typed):
    typed.ok("%soul kip;")
    assert not [line for line in completed(typed.shell, "%timeit --v") if "--view" in line]
    assert "x = kip" not in completed(typed.shell, "x = ki")


# --- drawing -------------------------------------------------------------------------------------


def test_small_events_do_not_slow_a_reply_down():
    import time

    drawn = []
    live = CellLive(lambda *args, **facts: drawn.append(facts), "kip", "soul x")
    begun = time.monotonic()
    for n in range(2_000):
        live.show(ReasoningDelta("hm"))
        live.show(UsageReport(Usage(n, n, 2 * n)))
        live.show(ToolCallDelta(0, arguments="{"))
        live.show(TextDelta("a"))
    assert time.monotonic() - begun < 1
    assert len(drawn) < 30


def test_a_notice_is_drawn_at_once():
    drawn = []
    live = CellLive(lambda data, **facts: drawn.append(data), "kip", "soul x")
    live.show(TextDelta("a"))
    live.show(Notice("careful"))
    assert "careful" in drawn[-1]["text/html"]
