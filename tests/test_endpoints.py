"""From a model's name to its endpoint; keys and addresses on the way."""

import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolnexus_nb.errors import MissingKeyError, ModelError, ToolnexusError
from toolnexus_nb.providers import NAMES, Endpoint, endpoint

KEYS = {"OPENAI_API_KEY": "k-openai", "ANTHROPIC_API_KEY": "k-anthropic", "OPENROUTER_API_KEY": "k-openrouter"}


def error_of(*arguments, **options):
    with pytest.raises(ModelError) as caught:
        endpoint(*arguments, **{"environ": {}, **options})
    return str(caught.value)


# --- names ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("openai:gpt-4o", Endpoint("openai", "https://api.openai.com/v1", "gpt-4o", "k-openai")),
        ("anthropic:claude-x", Endpoint("anthropic", "https://api.anthropic.com", "claude-x", "k-anthropic")),
        ("openrouter:x/y:free", Endpoint("openai", "https://openrouter.ai/api/v1", "x/y:free", "k-openrouter")),
        ("ollama:llama3.2:1b", Endpoint("openai", "http://127.0.0.1:11434/v1", "llama3.2:1b")),
        ("lmstudio:qwen", Endpoint("openai", "http://127.0.0.1:1234/v1", "qwen")),
        ("llamacpp:any", Endpoint("openai", "http://127.0.0.1:8080/v1", "any")),
        ("llamacpp:", Endpoint("openai", "http://127.0.0.1:8080/v1", "")),
        ("llamacpp", Endpoint("openai", "http://127.0.0.1:8080/v1", "")),
        ("local", Endpoint("openai", "", "", embedded="local")),
        ("local:models/my.gguf", Endpoint("openai", "", "models/my.gguf", embedded="local")),
        ("mirror", Endpoint("openai", "", "", embedded="mirror")),
        (" OpenAI: gpt-4o ", Endpoint("openai", "https://api.openai.com/v1", "gpt-4o", "k-openai")),
    ],
)
def test_a_name_leads_to_its_place(name, expected):
    assert endpoint(name, environ=KEYS) == expected


def test_every_name_is_understood():
    for name in NAMES:
        endpoint(f"{name}:m" if name != "mirror" else name, environ=KEYS)


def test_a_style_overrides_the_dialect_of_a_place():
    assert endpoint("ollama:m", style="anthropic", environ={}) == Endpoint("anthropic", "http://127.0.0.1:11434/v1", "m")
    assert endpoint("mirror", style="anthropic", environ={}).style == "anthropic"


def test_an_unknown_style_is_refused():
    assert error_of("local", style="opnai") == "style 'opnai': there is no such dialect: use openai or anthropic"


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("gpt-4o", "model 'gpt-4o': no endpoint is named: use openai:gpt-4o, or --base-url URL"),
        ("claude-x", "model 'claude-x': no endpoint is named: use anthropic:claude-x, or --base-url URL"),
        ("x/y", "model 'x/y': no endpoint is named: use openrouter:x/y, or --base-url URL"),
        ("llama3.2:1b", "model 'llama3.2:1b': no endpoint is named: use ollama:llama3.2:1b, or --base-url URL"),
        ("opnai:x", "model 'opnai:x': no endpoint is named opnai: did you mean openai:x?"),
        ("antropic:x", "model 'antropic:x': no endpoint is named antropic: did you mean anthropic:x?"),
        ("mirorr", "model 'mirorr': no endpoint is named mirorr: did you mean mirror?"),
        ("openai", "model 'openai': no endpoint is named: use openai:NAME"),
        ("openai:", "model 'openai:': no model is named: use openai:NAME"),
        ("mirror:x", "model 'mirror:x': the mirror has no models: use mirror"),
        (
            "",
            "no model is named: use -m openai:NAME, -m local, or another of " + ", ".join(NAMES),
        ),
    ],
)
def test_a_name_that_leads_nowhere_says_what_would(name, words):
    assert error_of(name) == words


def test_a_transport_of_the_caller_needs_neither_place_nor_key():
    assert endpoint("m-archivist", needs_key=False, environ=KEYS) == Endpoint("openai", "http://transport.invalid/v1", "m-archivist")
    assert endpoint("anthropic:m", needs_key=False, environ={}) == Endpoint("anthropic", "https://api.anthropic.com", "m")


# --- a server by its address ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"model": "m:1"}, Endpoint("openai", "http://h:1/v1", "m:1", "k-openai")),
        ({"model": "local"}, Endpoint("openai", "http://h:1/v1", "local", "k-openai")),
        ({"model": "m", "style": "anthropic"}, Endpoint("anthropic", "http://h:1/v1", "m", "k-anthropic")),
        ({"model": "anthropic:m"}, Endpoint("anthropic", "http://h:1/v1", "m", "k-anthropic")),
        ({"model": "openrouter:a/b:free"}, Endpoint("openai", "http://h:1/v1", "a/b:free", "k-openrouter")),
        ({"model": "ollama:m"}, Endpoint("openai", "http://h:1/v1", "m")),
        ({"model": "m", "api_key": "mine"}, Endpoint("openai", "http://h:1/v1", "m", "mine")),
        ({"model": "m", "environ": {}}, Endpoint("openai", "http://h:1/v1", "m")),
    ],
)
def test_any_name_goes_to_a_base_url(options, expected):
    assert endpoint(**{"base_url": " http://h:1/v1/ ", "environ": KEYS, **options}) == expected


@pytest.mark.parametrize(
    "url", ["h:1/v1", "ftp://h", "http://", "//h", "localhost", "http://h/a b", "http://h/\x00", "http://h:port", "http://[::1"]
)
def test_an_address_that_is_none_is_refused_in_one_line(url):
    words = error_of("m", base_url=url)
    assert words.startswith(f"base URL {url!r}: not a")
    assert words.endswith("address: write it like http://127.0.0.1:8080/v1")


def test_a_password_in_an_address_is_refused_and_not_shown():
    words = error_of("m", base_url="https://ann:pa55word@h/v1?key=t0ken")
    assert words == "base URL 'https://h/v1': it holds a user name or password: give a key as api_key or in the environment"


# --- keys -------------------------------------------------------------------------------------


@pytest.mark.parametrize("environ", [{}, {"ANTHROPIC_API_KEY": ""}, {"ANTHROPIC_API_KEY": " \n"}, {"OPENAI_API_KEY": "k"}])
def test_a_missing_key_is_one_line_that_names_the_variable(environ):
    with pytest.raises(MissingKeyError, match=r"^no API key for anthropic: set ANTHROPIC_API_KEY, or use -m local$"):
        endpoint("anthropic:m", environ=environ)


def test_a_given_key_comes_before_the_environment():
    assert endpoint("openai:m", api_key=" mine\n", environ=KEYS).api_key == "mine"


def test_the_environment_is_read_at_call_time(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "first\n")
    assert endpoint("openai:m").api_key == "first"
    monkeypatch.setattr(os, "environ", {"OPENAI_API_KEY": "second"})
    assert endpoint("openai:m").api_key == "second"


@pytest.mark.parametrize("key", ["k-se\ncret", "k-se\x00cret", "k-sécret", "k-se\u200bcret"])
def test_a_key_no_header_can_carry_is_refused_and_not_shown(key):
    for options in ({"api_key": key}, {"environ": {"OPENAI_API_KEY": key}}):
        words = error_of("openai:m", **options)
        assert words.startswith(f"the API key in {'api_key' if 'api_key' in options else 'OPENAI_API_KEY'}: ")
        assert "k-s" not in words
        assert "\n" not in words


def test_the_key_is_not_in_the_repr():
    assert "k-openai" not in repr(endpoint("openai:m", environ=KEYS))


# --- anything at all --------------------------------------------------------------------------


@given(
    st.text(max_size=20) | st.sampled_from(NAMES).map("{}:x".format),
    st.text(max_size=20) | st.text(max_size=8).map("http://{}".format),
    st.booleans(),
)
def test_whatever_is_named_it_is_an_endpoint_or_one_line(model, base_url, needs_key):
    try:
        endpoint(model, base_url=base_url, needs_key=needs_key, environ={})
    except ToolnexusError as error:
        assert len(str(error).splitlines()) == 1
