"""A conversation with one frozen soul: continued, reset, saved, loaded, undone."""

from __future__ import annotations

import json

import httpx
import pytest

from toolnexus_nb import Options, Session, from_dir
from toolnexus_nb.conversation import Message, Reasoning, Usage
from toolnexus_nb.embedded.mirror import MirrorTransport
from toolnexus_nb.errors import SessionError
from toolnexus_nb.session import load

KEY = "sk-fake-Q7mZ2xKpW9vT4bNc8dLr"


class Heard(MirrorTransport):
    """The mirror, with the bodies it was sent kept."""

    def __init__(self):
        self.bodies = []

    def handle_request(self, request):
        self.bodies.append(json.loads(request.read()))
        return super().handle_request(request)


def say(session, prompt, **options):
    """Run one prompt in a session and return the Run."""
    stream = session.stream(prompt, Options(**{"transport": MirrorTransport(), "model": "m", **options}))
    while True:
        try:
            next(stream)
        except StopIteration as end:
            return end.value


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
    with pytest.raises(SessionError, match=r"^nothing to undo: this session has written no memory$"):
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
    assert (again.agent.name, again.agent.home, again.agent.spec.does) == ("kip", str(kip), session.agent.spec.does)
    assert again.agent.spec.digest == session.agent.spec.digest


def test_a_loaded_conversation_continues_with_its_own_soul_and_memory(kip, tmp_path):
    session = eventful(kip)
    session.save(tmp_path / "talk.json")
    (kip / "SOUL.md").write_text("You are another.\n")
    again, transport = load(tmp_path / "talk.json"), Heard()
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
        (b'{"format": "toolnexus_nb session", "version": 2}', "not a session of version 1"),
        (b'{"format": "toolnexus_nb session", "version": 1, "name": "x"}', "not a saved session"),
    ],
)
def test_what_is_no_session_is_one_line(tmp_path, content, words):
    if content is not None:
        (tmp_path / "talk.json").write_bytes(content)
    with pytest.raises(SessionError, match=words) as caught:
        load(tmp_path / "talk.json")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "spoil",
    [
        {"messages": [{"role": "user"}]},
        {"messages": [7]},
        {"messages": None},
        {"usage": {"prompt": 1, "more": 2}},
        {"turns": "many"},
        {"usage": []},
    ],
)
def test_a_session_that_was_tampered_with_is_one_line(kip, tmp_path, spoil):
    Session(from_dir(kip)).save(tmp_path / "talk.json")
    state = json.loads((tmp_path / "talk.json").read_text()) | spoil
    (tmp_path / "talk.json").write_text(json.dumps(state))
    with pytest.raises(SessionError, match="not a saved session"):
        load(tmp_path / "talk.json")
