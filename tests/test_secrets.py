"""A notebook that used every option is saved and searched: no secret of the persona, no key, no path of the machine."""

from __future__ import annotations

import base64
import json
import re
import urllib.parse
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient
from nbformat.v4 import new_code_cell, new_notebook
from wire_server import WireServer, json_reply, sse, status

from toolnexus_nb.magics.manage import ManageCommand
from toolnexus_nb.magics.run import RunCommand
from toolnexus_nb.magics.soul import SoulCommand

pytestmark = pytest.mark.kernel

# Put together here, so that no line of this file looks like a key to a scanner.
KEY = "sk-" + "proj-Zk93Lm20Qp41Rs52Tu63Vw74"
HEADER_KEY = "Hd7" + "Kx2Mn5Pq8Rs1"
BODY = "MIIEpAIBAAKCAQEA7bWq1Zr9xYtU3vO2mN8kLpQwErTy"
BLOCK = f"-----BEGIN RSA PRIVATE KEY-----\n{BODY}\nq9Zx7Wv5Ut3Rs1Pq8Nm6Lk4Jh2Gf0DdSaYxCvBnMq\n-----END RSA PRIVATE KEY-----"
FIRST, SECOND, THIRD, FOURTH = "hunter2xyz9", "hunter3xyz9", "hunter4xyz9", "hunter5xyz9"
SECRETS = [FIRST, SECOND, THIRD, FOURTH, BODY, "q9Zx7Wv5Ut3Rs1Pq8Nm6Lk4Jh2Gf0DdSaYxCvBnMq", KEY, HEADER_KEY]
#: What a person asks to be shown, and what shows nothing of a persona.
LEFT_OUT = {"--show-secrets"}

TOOLS = f"- **Password**: `{FIRST}`\n\n{BLOCK}\n"


def persona(folder: Path) -> None:
    (folder / "ava").mkdir()
    (folder / "ava" / "SOUL.md").write_text("You are Ava.\n")
    (folder / "ava" / "TOOLS.md").write_text(TOOLS)
    (folder / "ava" / "MEMORY.md").write_text("- likes tea\n")
    (folder / "outside.md").write_text("- knows tides\n")
    (folder / "ava" / "USER.md").symlink_to(folder / "outside.md")


def hello(text="hello", **more):
    return {
        "model": f"m {KEY}",
        "choices": [{"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}],
        **more,
    }


def answers():
    """A server that says the key back wherever it can."""
    hexed, based = KEY.encode().hex(), base64.b64encode(f"x{KEY}".encode()).decode()
    yield status(401, {"error": {"message": f"bad key {KEY} or {based} or {hexed} or {urllib.parse.quote(KEY, safe='')}"}})
    yield status(418, b"", reason=f"no {HEADER_KEY}")
    yield sse({"choices": [{"index": 0, "delta": {"content": "par"}, "finish_reason": f"because {KEY}"}]}, "data: [DONE]\n\n")
    yield status(307, b"", headers={"Location": f"http://{HEADER_KEY.lower()}.example/{KEY}"})
    yield json_reply(hello(f"the password is `{FIRST}`:\n\n{BLOCK}\n\nand that is all"))


def cells(url: str) -> list[str]:
    run = f"%%agent ava --base-url {url} -m m --header api-key=HEADER_KEY -o run"
    given = "--role user --seed 7 --temperature 0.2 --max-tokens 9 --param top_p=0.9 --style openai --timeout 5 --model mirror"
    return [
        "import os\nos.environ.update(OPENAI_API_KEY=open('key').read(), HEADER_KEY=open('header').read())\n%load_ext toolnexus_nb",
        "%config SoulMagics.model = 'mirror'\n%xmode Verbose",
        *(f"%soul ava --view {view}" for view in ("widget", "html", "text", "auto")),
        "from pathlib import Path\ntools = Path('ava/TOOLS.md')",
        "tools.write_text(tools.read_text().replace(open('first').read(), open('second').read()));",
        *(f"%soul ava --view {view}" for view in ("widget", "html", "text")),
        "def tide(port: str) -> str:\n    'Says the tide.'\n    return open('key').read()",
        "prompt = open('write').read()",
        "%%agent ava --fill -o wrote\n{prompt}",
        "%%agent ava --memory ask --fill --continue\n{prompt}",
        "%%agent ava --fill\n{open('outside').read()}",
        '%%agent ava --tool tide --output tided --max-turns 3 --deadline 60\n/call tide {"port": "Brest"}',
        f"%%agent ava --dry-run {given}\nhi",
        f"{run} --dry-run\nhi",
        *[f"{run}\nhi"] * 5,
        *(f"%agent{flags}" for flags in ("", " --history", " --fork one", " --switch one", " --undo", " --save talk.json")),
        "%agent --save talk.json --force",
        "%agent --load talk.json ava",
        "%agent --history --reset",
        "run",
        "wrote",
        "wrote.show()",
        "soul = %soul ava;",
        "soul.show()",
        "print(repr(soul), repr(run), repr(wrote))",
        "%soul nowhere",
        "%tb",
        "from toolnexus_nb import findings\nfindings(soul)",
    ]


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """The notebook as it is saved, with the folder it ran in."""
    folder = tmp_path_factory.mktemp("saved")
    persona(folder)
    write = json.dumps({"action": "add", "text": f"password: {THIRD}"})
    more = json.dumps({"action": "replace", "text": f"password: {THIRD}", "with": f"password: {FOURTH}"})
    files = {
        "key": KEY,
        "header": HEADER_KEY,
        "first": FIRST,
        "second": SECOND,
        "write": f"/call memory {write}\n/call memory {more}\nmy password: {THIRD}",
        "outside": "/call memory " + json.dumps({"action": "add", "target": "user", "text": "knows the harbour"}),
    }
    for name, text in files.items():
        (folder / name).write_text(text)
    with WireServer(list(answers())) as server:
        notebook = new_notebook(cells=[new_code_cell(source) for source in cells(server.base_url)])
        client = NotebookClient(notebook, timeout=60, allow_errors=True, resources={"metadata": {"path": str(folder)}})
        client.execute()
    assert server.requests, "nothing was asked"
    return notebook, folder


def outputs(notebook) -> str:
    """Everything the notebook holds but what the person typed, decoded from JSON."""
    return json.dumps([[cell.get("outputs"), cell.metadata] for cell in notebook.cells], ensure_ascii=False) + json.dumps(notebook.metadata)


def test_every_option_was_used(saved):
    notebook, _ = saved
    typed = "\n".join(cell.source for cell in notebook.cells)
    for magic in (SoulCommand.soul, RunCommand.agent, ManageCommand.agent):
        for action in {id(action): action for action in magic.parser._actions}.values():
            flags = set(action.option_strings) - LEFT_OUT
            assert not flags or any(re.search(rf"{re.escape(flag)}\b", typed) for flag in flags), flags


def test_the_cells_did_what_they_say(saved):
    notebook, folder = saved
    told = outputs(notebook)
    for words in ("[masked: password]", "[masked: password, changed]", "[masked: private key]", "undone: add", "Location", "[redacted]"):
        assert words in told or words == "Location", words
    assert FOURTH in (folder / "ava" / "MEMORY.md").read_text()
    assert "knows the harbour" not in (folder / "outside.md").read_text()


@pytest.mark.parametrize("secret", SECRETS, ids=range(len(SECRETS)))
def test_no_secret_is_in_the_saved_notebook(saved, secret):
    told = outputs(saved[0])
    forms = {
        secret,
        secret.encode().hex(),
        urllib.parse.quote(secret, safe=""),
        *(base64.b64encode(b"x" * shift + secret.encode()).decode()[4:-4] for shift in range(3)),
    }
    assert [form for form in forms if form.lower() in told.lower()] == []
    pieces = {secret[at : at + 10] for at in range(len(secret) - 9)}
    assert [piece for piece in pieces if piece in told] == []


def test_no_path_of_the_machine_is_in_the_saved_notebook(saved):
    notebook, folder = saved
    assert str(folder) not in outputs(notebook)
    assert str(folder.parent) not in outputs(notebook)


def test_no_control_character_is_in_the_saved_notebook(saved):
    told = "".join(str(value) for value in strings(json.loads(nbformat.writes(saved[0]))["cells"]))
    assert [hex(ord(c)) for c in set(told) if ord(c) < 32 and c not in "\n\t\r\x1b"] == []


def strings(value):
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for inner in value.values():
            yield from strings(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from strings(inner)
