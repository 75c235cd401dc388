"""A conversation with one frozen soul: continued, reset, saved, loaded, undone."""

from __future__ import annotations

import json

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolnexus_nb import Agent, Options, Session, Spec, from_dir
from toolnexus_nb.conversation import Message, Notice, Reasoning, Usage
from toolnexus_nb.embedded.mirror import MirrorTransport
from toolnexus_nb.errors import ModelError, SessionError
from toolnexus_nb.session import load, undo

KEY = "sk-fake-Q7mZ2xKpW9vT4bNc8dLr"


class Heard(MirrorTransport):
    """The mirror, with the bodies it was sent kept."""

    def __init__(self):
        self.bodies = []

    def handle_request(self, request):
        self.bodies.append(json.loads(request.read()))
        return super().handle_request(request)


def streamed(session, prompt, *, cell="", **options):
    """Run one prompt in a session and return its events and the Run."""
    stream, events = session.stream(prompt, Options(**{"transport": MirrorTransport(), "model": "m", **options}), cell), []
    while True:
        try:
            events.append(next(stream))
        except StopIteration as end:
            return events, end.value


def say(session, prompt, **options):
    return streamed(session, prompt, **options)[1]


def events_of(session, prompt, **options):
    return streamed(session, prompt, **options)[0]


def texts(body):
    return [message["content"] for message in body["messages"] if message["role"] == "user"]


def test_each_prompt_continues_the_one_before(kip):
    session, transport = Session(from_dir(kip)), Heard()
    first, second = say(session, "one", transport=transport), say(session, "two", transport=transport)
    assert [texts(body) for body in transport.bodies] == [["one"], ["one", "two"]]
    assert session.messages == second.messages
    assert (session.model, session.runs, session.turns, session.usage) == ("mirror", 2, 2, first.usage + second.usage)


def test_the_soul_stays_as_it_was_while_the_disk_moves_on(kip):
    session, transport = Session(from_dir(kip)), Heard()
    say(session, "one", transport=transport)
    (kip / "SOUL.md").write_text("You are another.\n")
    say(session, "two", transport=transport)
    assert len({body["messages"][0]["content"] for body in transport.bodies}) == 1
    assert session.stale() == ["SOUL.md"]


def test_a_soul_given_as_text_is_never_stale():
    from toolnexus_nb import Agent, Spec

    assert Session(Agent("a", Spec(soul="You are Kip."))).stale() == []


@pytest.mark.parametrize("prompt", ["/cut", "/error no", "/length"])
def test_a_turn_that_failed_stays_in_the_history_and_can_be_continued(kip, prompt):
    session, transport = Session(from_dir(kip)), Heard()
    broken = say(session, prompt)
    assert say(session, "again", transport=transport).status == "done"
    assert session.messages[: len(broken.messages)] == broken.messages
    assert texts(transport.bodies[0]) == [prompt, "again"]


def test_a_turn_without_any_reply_is_one_user_message_with_the_next(kip):
    session, transport = Session(from_dir(kip)), Heard()
    assert say(session, "one", transport=httpx.MockTransport(lambda _: httpx.Response(400))).status == "error"
    assert say(session, "two", transport=transport).status == "done"
    assert texts(transport.bodies[0]) == ["one\n\ntwo"]


def test_reset_forgets_the_conversation_and_keeps_what_can_be_undone(kip):
    session = Session(from_dir(kip))
    say(session, "/memory add likes tea")
    session.reset()
    assert (session.messages, session.usage, session.turns, session.runs) == ((), Usage(), 0, 0)
    assert session.undo().text == "likes tea"


def test_the_request_is_the_next_one_and_is_not_sent(kip):
    session, transport = Session(from_dir(kip)), Heard()
    say(session, "one")
    body = session.request("two", Options(transport=transport, model="m")).body
    assert texts(body) == ["one", "two"]
    assert transport.bodies == []
    assert [message.text for message in session.messages if message.role == "user"] == ["one"]


# --- undo ----------------------------------------------------------------------------------------


def test_writes_are_undone_from_the_last(kip):
    session, before = Session(from_dir(kip)), (kip / "MEMORY.md").read_bytes()
    say(session, "/memory add likes tea\n/memory user add is called Ünal")
    assert session.undo().file == "USER.md"
    assert not (kip / "USER.md").exists()
    assert session.undo().file == "MEMORY.md"
    assert (kip / "MEMORY.md").read_bytes() == before
    with pytest.raises(SessionError, match=r"^nothing to undo: no memory has been written$"):
        session.undo()


def test_a_file_changed_since_is_left_alone_and_can_be_undone_later(kip):
    session = Session(from_dir(kip))
    say(session, "/memory add likes tea")
    written = (kip / "MEMORY.md").read_bytes()
    (kip / "MEMORY.md").write_bytes(written + b"- by hand\n")
    with pytest.raises(SessionError, match=r"^MEMORY.md changed since: "):
        session.undo()
    (kip / "MEMORY.md").write_bytes(written)
    assert session.undo().text == "likes tea"


# --- save and load -------------------------------------------------------------------------------


def eventful(kip):
    """Return a session with calls, an error, reasoning and text outside ASCII."""
    session = Session(from_dir(kip))
    say(session, '/reason hm\n/call memory {"action": "add", "text": "Ünal 🜁"}\n/call nothing {"a"')
    say(session, "/cut")
    return session


def test_what_was_saved_is_loaded(kip, tmp_path):
    session = eventful(kip)
    session.save(tmp_path / "talk.json")
    again = load(tmp_path / "talk.json")
    assert again.messages == session.messages
    assert Reasoning("hm") in [block for message in again.messages for block in message.reasoning]
    assert (again.model, again.usage, again.turns, again.runs) == (session.model, session.usage, session.turns, session.runs)
    assert (again.agent.name, again.agent.home, again.agent.spec.tools) == ("kip", "", ())
    assert again.agent.spec.digest == session.agent.spec.digest


def test_a_loaded_conversation_continues_with_its_own_soul_and_memory(kip, tmp_path):
    session = eventful(kip)
    session.save(tmp_path / "talk.json")
    (kip / "SOUL.md").write_text("You are another.\n")
    again, transport = load(tmp_path / "talk.json", kip), Heard()
    say(again, "/memory add from the second day", transport=transport)
    assert transport.bodies[0]["messages"][0]["content"] == session.agent.spec.prompt
    assert (kip / "MEMORY.md").read_text(encoding="utf-8").endswith("- from the second day\n")
    assert again.undo().text == "from the second day"


def test_loaded_twice_it_saves_the_same_bytes(kip, tmp_path):
    eventful(kip).save(tmp_path / "one.json")
    load(tmp_path / "one.json").save(tmp_path / "two.json")
    assert (tmp_path / "two.json").read_bytes() == (tmp_path / "one.json").read_bytes()


def test_no_key_is_saved(kip, tmp_path):
    session = Session(from_dir(kip))
    echo = httpx.MockTransport(lambda request: httpx.Response(400, json={"error": {"message": request.headers["authorization"]}}))
    run = say(session, "hi", transport=echo, api_key=KEY)
    session.save(tmp_path / "talk.json")
    told = (tmp_path / "talk.json").read_text() + repr((run, session, run.messages))
    assert run.status == "error"
    assert not [KEY[at : at + 6] for at in range(len(KEY) - 5) if KEY[at : at + 6] in told]


def test_a_lone_surrogate_survives_saving(tmp_path, kip):
    session = Session(from_dir(kip))
    session.messages = (Message("user", "half \ud83d"),)
    session.save(tmp_path / "talk.json")
    assert load(tmp_path / "talk.json").messages == session.messages


def test_what_cannot_be_written_is_one_line(tmp_path, kip):
    with pytest.raises(SessionError, match=r"cannot be written: .*: name another file$"):
        Session(from_dir(kip)).save(tmp_path / "nowhere" / "talk.json")


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (None, "cannot be read: No such file or directory"),
        (b"", "not a saved session"),
        (b"{}", "not a saved session"),
        (b"[]", "not a saved session"),
        (b"null", "not a saved session"),
        (b'"x"', "not a saved session"),
        (b"\xff\xfe", "not a saved session"),
        (b"[" * 100_000, "not a saved session"),
        (b'{"format": "toolnexus_nb session", "version": 3}', "not a saved session: its version is 3, this program reads 2"),
        (b'{"format": "toolnexus_nb session", "version": 1, "name": "x"}', "not a saved session"),
    ],
)
def test_what_is_no_session_is_one_line(tmp_path, content, words):
    if content is not None:
        (tmp_path / "talk.json").write_bytes(content)
    with pytest.raises(SessionError, match=words) as caught:
        load(tmp_path / "talk.json")
    assert "\n" not in str(caught.value)


def message(role, **facts):
    return {"role": role, "text": "x", "tool_calls": [], "tool_call_id": "", "is_error": False, "reasoning": [], **facts}


CALL = {"id": "c1", "name": "memory", "arguments_json": "{}"}


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        ({"messages": [{"role": "user"}]}, "not a saved session"),
        ({"messages": [7]}, "message 1 is a number"),
        ({"messages": None}, "its messages is missing, not a list"),
        ({"messages": [message("system")]}, "message 1 has the role 'system'"),
        ({"messages": [message("user", text=7)]}, "its text is a number, not text"),
        ({"messages": [message("user", tool_calls=[CALL])]}, "message 1 calls tools, and is of the user"),
        ({"messages": [message("tool", tool_call_id="c9")]}, "message 1 answers a call that nobody made"),
        ({"messages": [message("assistant", tool_calls=[CALL])]}, "its last call is not answered"),
        ({"messages": [message("assistant", tool_calls=[CALL]), message("user")]}, "message 2 comes before a call is answered"),
        ({"messages": [message("assistant", tool_calls=["x"])]}, "not a saved session"),
        ({"messages": [message("assistant", extra=[])]}, "its extra is a list, not an object"),
        ({"usage": {"prompt": True}}, "its prompt is no count"),
        ({"usage": {"prompt": -1}}, "its prompt is no count"),
        ({"usage": {"prompt": 1.5}}, "its prompt is no count"),
        ({"turns": "many"}, "its turns is no count"),
        ({"usage": []}, "its usage is a list, not an object"),
        ({"soul": None}, "its soul is missing, not text"),
        ({"name": ["x"]}, "its name is a list, not text"),
    ],
)
def test_a_session_that_was_tampered_with_is_one_line(kip, tmp_path, spoil, words):
    Session(from_dir(kip)).save(tmp_path / "talk.json")
    state = json.loads((tmp_path / "talk.json").read_text()) | spoil
    (tmp_path / "talk.json").write_text(json.dumps(state))
    with pytest.raises(SessionError, match="not a saved session") as caught:
        load(tmp_path / "talk.json")
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("number", ["1e400", "NaN", "-Infinity", "9" * 5000])
def test_a_number_that_json_cannot_say_is_refused(kip, tmp_path, number):
    Session(from_dir(kip)).save(tmp_path / "talk.json")
    text = (tmp_path / "talk.json").read_text().replace('"turns": 0', f'"turns": {number}')
    (tmp_path / "talk.json").write_text(text)
    with pytest.raises(SessionError, match="not a saved session"):
        load(tmp_path / "talk.json")


_VALUES = st.recursive(st.none() | st.booleans() | st.integers() | st.text(max_size=3), lambda inner: st.lists(inner, max_size=3))


@given(_VALUES, st.sampled_from(["name", "model", "soul", "messages", "usage", "turns", "runs"]))
def test_whatever_a_field_holds_the_file_is_read_or_refused_in_one_line(tmp_path_factory, value, name):
    path = tmp_path_factory.mktemp("talk") / "talk.json"
    Session(Agent("kip", Spec(soul="You are Kip."))).save(path)
    path.write_text(json.dumps(json.loads(path.read_text()) | {name: value}))
    try:
        assert isinstance(load(path), Session)
    except SessionError as error:
        assert str(error).startswith(str(path))
        assert "\n" not in str(error)


# --- where a file may be written -----------------------------------------------------------------


def test_a_loaded_session_writes_no_memory_unless_a_directory_is_named(kip, tmp_path):
    eventful(kip).save(tmp_path / "talk.json")
    state = json.loads((tmp_path / "talk.json").read_text())
    (tmp_path / "talk.json").write_text(json.dumps(state | {"home": str(kip)}))
    before = (kip / "MEMORY.md").read_bytes()
    run = say(load(tmp_path / "talk.json"), "/memory add from a stranger")
    assert run.tool_calls[-1].result.text == "unknown tool: memory: there is none"
    assert (kip / "MEMORY.md").read_bytes() == before


def test_a_session_file_is_its_owners_alone_and_names_no_path(kip, tmp_path):
    session = Session(from_dir(kip))
    say(session, "hello")
    (tmp_path / "talk.json").write_text('{"format": "toolnexus_nb session"}')
    (tmp_path / "talk.json").chmod(0o644)
    session.save(tmp_path / "talk.json")
    assert (tmp_path / "talk.json").stat().st_mode & 0o777 == 0o600
    assert str(tmp_path) not in (tmp_path / "talk.json").read_text()


@pytest.mark.parametrize("name", ["kip/SOUL.md", "link.json", "kip", "dangling.json"])
def test_what_is_no_session_is_not_replaced_without_force(kip, tmp_path, name):
    (tmp_path / "link.json").symlink_to(kip / "SOUL.md")
    (tmp_path / "dangling.json").symlink_to(tmp_path / "nowhere.json")
    before = (kip / "SOUL.md").read_bytes()
    with pytest.raises(SessionError, match=r"exists and is not a saved session: name another file, or add --force"):
        Session(from_dir(kip)).save(tmp_path / name)
    assert (kip / "SOUL.md").read_bytes() == before


def test_force_replaces_it(kip, tmp_path):
    (tmp_path / "notes.json").write_text("mine")
    Session(from_dir(kip)).save(tmp_path / "notes.json", force=True)
    assert load(tmp_path / "notes.json").agent.name == "kip"


# --- a cell run again ----------------------------------------------------------------------------


def prompts(session):
    return [message.text for message in session.messages if message.role == "user"]


def test_a_cell_run_again_replaces_its_own_turn_and_those_behind_it(kip):
    session = Session(from_dir(kip))
    for prompt, cell in (("one", "a"), ("two", "b"), ("three", "c")):
        say(session, prompt, cell=cell)
    kept = session.fork()
    notices = [event.text for event in events_of(session, "two again", cell="b") if isinstance(event, Notice)]
    assert notices == ["this cell's earlier turn is replaced and 1 later turn is dropped; %agent --fork NAME, before, keeps a branch"]
    assert (prompts(session), session.runs, session.turns) == (["one", "two again"], 2, 2)
    assert (prompts(kept), kept.runs) == (["one", "two", "three"], 3)
    say(session, "three", cell="c")
    say(session, "three!", cell="c")
    assert prompts(session) == ["one", "two again", "three!"]
    assert texts(session.request("two!", Options(transport=MirrorTransport(), model="m"), "b").body) == ["one", "two!"]


def test_without_a_cell_every_prompt_is_a_turn_of_its_own(kip):
    session = Session(from_dir(kip))
    say(session, "one")
    say(session, "one more")
    assert prompts(session) == ["one", "one more"]


def test_what_keeps_a_run_from_starting_leaves_the_conversation_as_it_was(kip):
    session = Session(from_dir(kip))
    say(session, "one", cell="a")
    with pytest.raises(ModelError):
        say(session, "again", cell="a", model="nowhere", transport=None)
    assert prompts(session) == ["one"]


def test_a_prompt_that_got_no_answer_is_not_sent_twice(kip):
    session, transport = Session(from_dir(kip)), Heard()
    assert say(session, "hello", transport=httpx.MockTransport(lambda _: httpx.Response(401))).status == "error"
    say(session, "hello", transport=transport)
    assert texts(transport.bodies[0]) == ["hello"]
    assert prompts(session) == ["hello"]


def test_writes_of_sessions_that_share_a_list_are_undone_in_order(kip):
    before, edits = (kip / "MEMORY.md").read_bytes(), []
    say(Session(from_dir(kip), edits=edits), "/memory add one")
    second = Session(from_dir(kip), edits=edits)
    say(second, "/memory add two")
    say(Session(from_dir(kip), edits=edits), "no write")
    assert [second.undo().text, undo(edits).text] == ["two", "one"]
    assert (kip / "MEMORY.md").read_bytes() == before
