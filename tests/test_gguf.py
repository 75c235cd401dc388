"""gguf: whether the head of a model file holds a chat template, on files written here byte by byte."""

import struct
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolnexus_nb.embedded import local
from toolnexus_nb.embedded.gguf import HEAD_BYTES, has_chat_template

TEMPLATE = "tokenizer.chat_template"


def string(text):
    data = text.encode()
    return struct.pack("<Q", len(data)) + data


def pair(key, kind, value):
    return string(key) + struct.pack("<I", kind) + value


def array(kind, count, members):
    return struct.pack("<IQ", kind, count) + members


def head(*pairs, count=None, version=3, magic=b"GGUF"):
    return struct.pack("<4sIQQ", magic, version, 0, len(pairs) if count is None else count) + b"".join(pairs)


#: One pair of each type of the format.
EVERY = (
    *(pair(f"int{kind}", kind, bytes(size)) for kind, size in ((0, 1), (1, 1), (2, 2), (3, 2), (4, 4), (5, 4), (10, 8), (11, 8))),
    *(pair(f"other{kind}", kind, bytes(size)) for kind, size in ((6, 4), (7, 1), (12, 8))),
    pair("general.name", 8, string("x")),
    pair("tokenizer.ggml.scores", 9, array(6, 3, bytes(12))),
    pair("tokenizer.ggml.tokens", 9, array(8, 2, string("a") + string(TEMPLATE))),
    pair("empty", 9, array(4, 0, b"")),
)


@pytest.mark.parametrize("version", [2, 3])
def test_a_template_is_found_behind_values_of_every_type(version):
    assert has_chat_template(head(*EVERY, pair(TEMPLATE, 8, string("{{ x }}")), version=version)) is True


@pytest.mark.parametrize(
    "data",
    [
        head(),
        head(*EVERY),
        head(*EVERY, pair(TEMPLATE, 8, string(" \n"))),
        head(pair(f"{TEMPLATE}.tool_use", 8, string("{{ x }}"))),
        head(pair("general.name", 8, string(TEMPLATE))),
        head() + pair(TEMPLATE, 8, string("behind the metadata")),
    ],
    ids=["empty", "every type", "blank", "another name", "a value of that name", "behind the metadata"],
)
def test_a_model_without_a_template_is_known(data):
    assert has_chat_template(data) is False


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"GGUF",
        head(magic=b"GGML"),
        head(version=1),
        head(version=0x03000000),
        head(count=1),
        head(count=2**64 - 1),
        head(pair("x", 13, bytes(8))),
        head(pair("x", 9, array(9, 1, array(0, 1, b"x")))),
        head(pair("x", 9, array(0, 2**64 - 1, b""))),
        head(pair("x", 9, array(8, 2**64 - 1, string("a")))),
        head(struct.pack("<Q", 2**64 - 1) + b"x"),
        head(pair(TEMPLATE, 8, struct.pack("<Q", 9) + b"cut off")),
    ],
)
def test_what_cannot_be_told_is_none(data):
    assert has_chat_template(data) is None


@given(st.binary(max_size=200), st.integers(0, 2**64 - 1))
def test_whatever_follows_the_magic_is_an_answer(rest, count):
    assert has_chat_template(rest) is None
    assert has_chat_template(head(count=count) + rest) in (True, False, None)


@given(st.integers(0, 400))
def test_a_head_that_is_cut_anywhere_is_never_called_a_base_model(cut):
    whole = head(*EVERY, pair(TEMPLATE, 8, string("{{ x }}")))
    assert has_chat_template(whole[: min(cut, len(whole) - 1)]) is None


def test_a_hostile_head_takes_seconds_at_most():
    started = time.perf_counter()
    assert has_chat_template(head(pair("x", 9, array(8, 2**40, bytes(HEAD_BYTES // 8))))) is None
    assert time.perf_counter() - started < 10


def test_the_packaged_model_has_a_template():
    assert has_chat_template(local.packaged_file().read_bytes()[:4_000_000]) is True
