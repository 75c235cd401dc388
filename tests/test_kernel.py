"""%soul and %%agent in a real kernel: what is sent to the front end, and Stop at every moment."""

from __future__ import annotations

import pytest
from conftest import PERSONA
from kernel import FINISH, MOMENTS, Kernel, in_a_tool, said, stopped
from wire_server import WireServer, sse

pytestmark = pytest.mark.kernel

WIDGET = "application/vnd.jupyter.widget-view+json"


@pytest.fixture(scope="module")
def kernel(tmp_path_factory):
    """A kernel with the extension loaded; its working directory holds the persona `kip`."""
    folder = tmp_path_factory.mktemp("kernel")
    (folder / "kip").mkdir()
    for name, text in PERSONA.items():
        (folder / "kip" / name).write_text(text, encoding="utf-8")
    with Kernel(folder) as kernel:
        kernel.folder = folder
        done = kernel.run("%load_ext toolnexus_nb\n%config SoulMagics.model = 'mirror'\n%xmode Verbose")
        assert done.status == "ok"
        yield kernel


def value(kernel, expression):
    """Return what an expression prints in the kernel."""
    return kernel.run(f"print({expression})").text.strip()


# --- what is sent --------------------------------------------------------------------------------


def test_a_run_is_a_heading_and_its_segments(kernel):
    cell = kernel.run("%%agent kip -o run\nhello")
    assert cell.status == "ok"
    assert {kind for _, kind, _ in cell.messages} == {"status", "execute_input", "display_data", "update_display_data"}
    heading, reply = cell.page
    assert "<strong>kip</strong> · mirror · soul " in heading["data"]["text/html"]
    assert "I am <strong>no language model</strong>" in reply["data"]["text/html"]
    assert reply["data"]["text/plain"].startswith("This is the mirror. I am **no language model**")
    assert "✓ done · mirror" in reply["data"]["text/plain"]


def test_the_last_message_has_the_whole_text_and_says_what_the_run_was(kernel):
    cell = kernel.run("%%agent kip -o run\nhello")
    last = cell.displays[-1][2]
    assert last == cell.page[-1]
    about = last["metadata"]["toolnexus_nb"]
    assert list(about) == ["model", "status", "limit", "soul_digest", "turns", "usage"]
    told = [about["model"], about["status"], about["soul_digest"], about["turns"], about["usage"]["prompt"], about["usage"]["total"]]
    assert value(kernel, "[run.model, run.status, run.soul_digest, run.turns, run.usage.prompt, run.usage.total]") == str(told)
    assert value(kernel, "run.text") in last["data"]["text/plain"]


def test_a_fast_stream_is_drawn_at_most_twenty_times_a_second(kernel):
    words = [f"word{n} " for n in range(400)]
    pieces = [piece for n, word in enumerate(words) for piece in (said(word), *([0.04] if n % 10 == 0 else []))]
    with WireServer([sse(*pieces, FINISH)]) as server:
        cell = kernel.run(f"%%agent kip --base-url {server.base_url} -m m-1 -o run\nhello")
    times = [at for at, _, _ in cell.displays]
    assert times[-1] - times[0] > 1
    # The heading comes with the first segment, a closed segment with the next one, the end at once.
    assert max(sum(at <= other < at + 1 for other in times) for at in times) <= 20
    assert "".join(words).strip() in cell.text.replace("\n", "")
    assert value(kernel, "run.text") == "".join(words).strip()


def test_a_long_reply_is_sent_in_pieces_and_not_again_and_again(kernel):
    paragraphs = [f"Paragraph {n}. " + "All work and no play. " * 20 + "\n\n" for n in range(40)]
    with WireServer([sse(*(said(part) for part in paragraphs), FINISH)]) as server:
        cell = kernel.run(f"%%agent kip --base-url {server.base_url} -m m-1\nhello")
    assert len(cell.page) > 10
    assert [n for n in range(40) if f"Paragraph {n}. " not in cell.text] == []


def test_small_events_do_not_slow_a_reply_down(kernel):
    thoughts = ({"choices": [{"index": 0, "delta": {"reasoning_content": "hm "}}]} for _ in range(300))
    with WireServer([sse(*thoughts, said("so"), FINISH)]) as server:
        cell = kernel.run(f"%%agent kip --base-url {server.base_url} -m m-1\nhello")
    assert cell.ended - cell.messages[0][0] < 3
    assert "reasoning, 900 characters" in cell.page[-1]["data"]["text/html"]


def test_soul_sends_the_live_view_and_its_static_twin(kernel):
    cell = kernel.run("%soul kip")
    assert cell.status == "ok"
    assert "comm_open" in {kind for _, kind, _ in cell.messages}
    live, twin = [content["data"] for _, _, content in cell.displays]
    assert (list(live), live["text/plain"]) == ([WIDGET, "text/plain"], "")
    assert sorted(twin) == ["text/html", "text/plain"]
    assert "found 3 of 7" in twin["text/plain"]
    assert "found 3 of 7" in twin["text/html"]


@pytest.mark.parametrize("line", ["soul = %soul kip", "%soul kip;", "soul = %soul kip;"])
def test_what_is_bound_or_ends_in_a_semicolon_shows_nothing(kernel, line):
    cell = kernel.run(line)
    assert (cell.status, cell.displays) == ("ok", [])


def test_the_view_can_be_chosen(kernel):
    assert [list(content["data"]) for _, _, content in kernel.run("%soul kip --view html").displays] == [["text/html", "text/plain"]]
    assert kernel.run("%soul kip --view text").displays == []


def test_a_run_on_its_own_has_the_same_face_and_metadata(kernel):
    kernel.run("%%agent kip -o run\nhello")
    ((_, kind, content),) = kernel.run("run").displays
    assert kind == "execute_result"
    assert "no language model" in content["data"]["text/html"]
    assert content["metadata"]["toolnexus_nb"]["model"] == "mirror"


def test_what_the_cell_printed_before_stays(kernel):
    cell = kernel.run("def tide(port: str) -> str:\n    print('looking'); return 'high'")
    cell = kernel.run('%%agent kip --tool tide\n/call tide {"port": "Brest"}')
    assert "looking\n" in [content["text"] for _, kind, content in cell.messages if kind == "stream"]
    assert "⚙ tide: high" in cell.text
    assert not [kind for _, kind, _ in cell.messages if kind == "clear_output"]


# --- errors --------------------------------------------------------------------------------------


def test_a_bad_argument_is_one_line(kernel):
    cell = kernel.run("%soul kpi")
    assert (cell.reply["status"], cell.reply["ename"], cell.reply["evalue"]) == (
        "error",
        "UsageError",
        "kpi: no such directory: did you mean kip?",
    )
    assert "Traceback" not in cell.text


def test_a_failed_run_shows_what_it_has_and_ends_in_one_line(kernel):
    cell = kernel.run("%%agent kip -o run\n/cut\nhello")
    assert cell.reply["ename"] == "RunFailed"
    assert cell.reply["traceback"] == [f"RunFailed: {cell.reply['evalue']}"]
    assert "This is the mirror." in cell.page[-1]["data"]["text/plain"]
    assert cell.page[-1]["metadata"]["toolnexus_nb"]["status"] == "error"
    assert value(kernel, "run.status") == "error"


# --- a person is asked ---------------------------------------------------------------------------


@pytest.mark.parametrize(("answer", "written"), [("y", True), ("n", False), (None, False)], ids=["yes", "no", "nobody there"])
def test_memory_is_written_when_the_person_says_so(kernel, answer, written):
    memory = kernel.folder / "kip" / "MEMORY.md"
    memory.write_text(PERSONA["MEMORY.md"])
    cell = kernel.run("%%agent kip --memory ask\n/memory add likes tea", answer=answer)
    assert cell.status == "ok"
    assert "+- likes tea" in cell.text
    assert ("tea" in memory.read_text()) is written
    memory.write_text(PERSONA["MEMORY.md"])


# --- Stop ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("moment", "text"), MOMENTS.items(), ids=[moment.__name__ for moment in MOMENTS])
def test_stop_ends_a_run_within_a_second_and_keeps_what_arrived(kernel, moment, text):
    cell, seconds, hung_up = stopped(kernel, moment)
    assert seconds < 1
    assert hung_up is not False
    assert (cell.reply["ename"], cell.reply["traceback"]) == (
        "KeyboardInterrupt",
        ["KeyboardInterrupt: stopped; what had arrived is kept"],
    )
    assert "■ interrupted: what had arrived is kept" in cell.page[-1]["data"]["text/plain"]
    assert cell.page[-1]["metadata"]["toolnexus_nb"]["status"] == "interrupted"
    assert value(kernel, "(run.status, run.text)") == str(("interrupted", text))


def test_after_stop_the_conversation_goes_on(kernel):
    stopped(kernel, in_a_tool)
    cell = kernel.run("%%agent -c -m mirror -o run\nand then?")
    assert cell.status == "ok"
    assert value(kernel, "run.status") == "done"
