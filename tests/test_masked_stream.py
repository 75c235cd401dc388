"""A text that arrives in pieces is masked as the whole would be, and nothing of a secret is shown on the way."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from toolnexus_nb.masked_stream import MaskedStream
from toolnexus_nb.masking import mask

# Put together here, so that no line of this file looks like a key to a scanner.
KEY = "sk-" + "proj-Zk93Lm20Qp41Rs52Tu63Vw74"
BODY = "MIIEpAIBAAKCAQEA7bWq1Zr9xYtU3vO2mN8kLpQwErTy"
BLOCK = f"-----BEGIN RSA PRIVATE KEY-----\n{BODY}\n{BODY[::-1]}\n-----END RSA PRIVATE KEY-----"
TEXTS = [
    "the password is `hunter2xyz9`: keep it",
    f"my key:\n\n{BLOCK}\n\nand that is all",
    f"use {KEY} or Authorization: Bearer abcdef1234567890abcdef, then go on",
    "see https://ava:hunter2xyz9@example.org/x\nAPI key: zk93lm20qp41\n",
    "A plain paragraph about tokens and keys, with nothing to hide in it.\n" * 5,
]
SECRETS = ["hunter2xyz9", BODY, BODY[::-1], KEY, "abcdef1234567890abcdef", "zk93lm20qp41"]


def pieces(text, cuts):
    edges = [0, *sorted(cuts), len(text)]
    return [text[a:b] for a, b in pairwise(edges)]


@given(st.sampled_from(TEXTS), st.data())
def test_any_cut_gives_the_whole_text_masked_and_no_piece_of_a_secret(text, data):
    cuts = data.draw(st.lists(st.integers(0, len(text)), max_size=40))
    stream = MaskedStream()
    shown = [stream.add(piece) for piece in pieces(text, cuts)]
    for at in range(len(shown) + 1):
        so_far = "".join(shown[:at])
        assert [secret[i : i + 6] for secret in SECRETS for i in range(len(secret) - 5) if secret[i : i + 6] in so_far] == []
    assert "".join([*shown, stream.end()]) == mask(text)


@given(st.sampled_from(TEXTS))
def test_one_character_at_a_time(text):
    stream = MaskedStream()
    assert "".join([*map(stream.add, text), stream.end()]) == mask(text)


@given(st.text(alphabet=st.sampled_from("abc dé\n.,"), max_size=300))
def test_ordinary_text_is_never_held_for_longer_than_a_word(text):
    stream, shown = MaskedStream(), ""
    for character in text:
        shown += stream.add(character)
        assert text.startswith(shown)
    assert " " not in text[len(shown) :].rstrip(" ")


def test_a_text_of_many_pieces_takes_linear_time():
    stream = MaskedStream()
    assert sum(len(stream.add("word ")) for _ in range(20_000)) + len(stream.end()) == 100_000
