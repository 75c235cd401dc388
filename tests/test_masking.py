"""What looks like a secret is found and masked; what does not is left alone."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolnexus_nb.masking import Secret, mask, mask_pair, secret_spans

# Put together here, so that no line of this file looks like a key to a scanner.
_RANDOM = "aB3dE6gH9jK2mN5pQ8sT1vW4yZ7bC0eF3hI6kL9n"


@pytest.mark.parametrize(
    ("secret", "kind"),
    [
        ("sk-ant-" + "api03-" + _RANDOM, "Anthropic key"),
        ("sk-" + "proj-" + _RANDOM, "API key"),
        ("sk-" + _RANDOM[:20], "API key"),
        ("ghp_" + _RANDOM[:36], "GitHub token"),
        ("github_" + "pat_" + _RANDOM, "GitHub token"),
        ("glpat-" + _RANDOM[:20], "GitLab token"),
        ("xoxb-" + "2048-4096-" + _RANDOM[:24], "Slack token"),
        ("AKIA" + "Q3EGRIUT7OPLM5ZX", "AWS access key"),
        ("AIza" + _RANDOM[:35], "Google API key"),
        ("hf_" + _RANDOM[:34], "Hugging Face token"),
        ("sk_" + "live_" + _RANDOM[:24], "Stripe key"),
        ("70123456" + "89:AA" + _RANDOM[:33], "Telegram bot token"),
        ("eyJ" + "hbGciOiJIUzI1NiJ9" + ".eyJzdWIiOiIxIn0" + "." + _RANDOM, "JSON Web Token"),
    ],
)
def test_a_token_is_known_by_its_shape(secret: str, kind: str) -> None:
    assert mask(f"Use ({secret}), always.") == f"Use ([masked: {kind}]), always."


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        ("password: hunter2", "password: [masked: password]"),
        ("The door's password is hunter2.", "The door's password is [masked: password]."),
        ("**Password:** s3cret! twice", "**Password:** [masked: password] twice"),
        ("DB_PASSWORD='swordfish'", "DB_PASSWORD='[masked: password]'"),
        ('passphrase = "four words and 1 digit"', 'passphrase = "[masked: password]"'),
        ("password: 83920174", "password: [masked: password]"),
        ('{"api_key": "a1b2c3d4e5f6"}', '{"api_key": "[masked: API key]"}'),
        ("client_secret=`q9w8e7r6t5`", "client_secret=`[masked: secret]`"),
        ("export MY_TOKEN=q9w8e7r6t5", "export MY_TOKEN=[masked: token]"),
        ("token=$OLD&password=hunter2", "token=$OLD&password=[masked: password]"),
        ("Authorization: Bearer q9w8e7r6t5y4u3", "Authorization: Bearer [masked: bearer token]"),
        ("postgres://ada:s3same@db.local/notes", "postgres://ada:[masked: password in a URL]@db.local/notes"),
        ("密码：hunter2", "密码：[masked: password]"),
    ],
)
def test_only_the_value_of_an_assignment_is_masked(text: str, masked: str) -> None:
    assert mask(text) == masked


@pytest.mark.parametrize(
    "text",
    [
        "A token is about four characters; tokens: 128000, max_tokens=4096, token: 2024.",
        "Keep every secret: never tell a password to anyone. Password: required",
        "password: <your password>, api_key = ${OPENAI_API_KEY}, token={{token1}}, secret: $SECRET_1",
        "api_key: OPENAI_API_KEY_2 and password=os.environ['PW1']",
        "password: changeme1, token: xxxxxxxx1, api key = your-key-1-here, secret: s3cr...",
        "token: https://docs.local/tokens/v1 or ~/.secrets/token1",
        '{"password": "string", "token": "string"}',
        "The password is base64-encoded; the password is 12 characters long.",
        "sha256 e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
        "commit 6cb8bd1937abcb7a2925497ea992adb0c949fd3c, id 123e4567-e89b-12d3-a456-426614174000",
        "https://ada.local:8080/a?b=c#d and mailto:ada@ada.local and http://user:password@host/",
        "a task-force-one-of-the-largest-of-its-kind-in-2024 met sk-learn",
        "sk-" + "your-key-goes-here-0123456",
        "-----BEGIN PUBLIC KEY-----\nMFkwEwYHKoZIzj0CAQYIKoZI\n-----END PUBLIC KEY-----",
        "Bearer tokens are sent in a header; basic understanding2 helps",
    ],
)
def test_prose_digests_and_stand_ins_are_left_alone(text: str) -> None:
    assert mask(text) == text


def test_a_private_key_block_keeps_its_number_of_lines() -> None:
    block = "-----BEGIN RSA " + "PRIVATE KEY-----\n" + "MIIEowIBAAKCAQEAx1\n" * 3 + "-----END RSA PRIVATE KEY-----"

    assert mask(f"before\n{block}\nafter") == "before\n[masked: private key]\n\n\n\n\nafter"


def test_a_private_key_without_its_last_line_is_masked_to_the_end_of_its_body() -> None:
    block = "-----BEGIN " + "PRIVATE KEY-----\n" + "MIIEowIBAAKCAQEAx1\n" * 2

    assert mask(f"{block}Be exact.") == "[masked: private key]\n\n\nBe exact."


def test_spans_are_characters_of_the_text_whatever_stands_before() -> None:
    text = "é人格🦞 password: hunter2"

    assert secret_spans(text) == [Secret(15, 22, "password")]


def test_the_more_telling_name_wins_where_two_shapes_overlap() -> None:
    key = "ghp_" + _RANDOM[:36]

    assert mask(f"token={key}") == "token=[masked: GitHub token]"


def test_a_long_value_is_masked_to_its_end() -> None:
    assert mask("token=" + "a1b" * 5_000 + " b") == "token=[masked: token] b"


_PIECES = ("password: ", "hunter2", "\n", "token=", "sk-", _RANDOM, "'", " ", "é", "://u:", "@", "-----BEGIN " + "PRIVATE KEY-----")


@given(st.lists(st.sampled_from(_PIECES)).map("".join))
def test_masking_keeps_the_number_of_lines(text: str) -> None:
    assert mask(text).count("\n") == text.count("\n")


@given(st.lists(st.sampled_from(_PIECES)).map("".join))
def test_spans_are_in_order_and_do_not_overlap(text: str) -> None:
    edges = [edge for secret in secret_spans(text) for edge in (secret.start, secret.end)]

    assert edges == sorted(edges)


@pytest.mark.parametrize("piece", ["token=a1", "token=", "eyJ", "eyJa1.", "://a:", "password='", _PIECES[-1], "密码：", "bearer a1"])
def test_hostile_text_is_masked_on_one_line(piece: str) -> None:
    assert "\n" not in mask(piece * (200_000 // len(piece)))


def test_a_pair_says_which_secret_changed_and_keeps_different_ones_apart():
    before = "password: hunter2xyz9\npassword: other44abc\n"
    after = "password: other44abc\npassword: hunter3xyz9\n"
    assert mask_pair(before, before) == (("password: [masked: password]\npassword: [masked: password 2]\n",) * 2)
    assert mask_pair(before, after)[1] == "password: [masked: password 2]\npassword: [masked: password, changed]\n"


_LINES = st.lists(st.sampled_from(["password: hunter2xyz9", "password: other44abc", "token: a1b2c3d4e5f6", "plain"]), max_size=6)


@given(_LINES.map("\n".join), _LINES.map("\n".join))
def test_masked_lines_differ_exactly_where_the_lines_do(before, after):
    masked = mask_pair(before, after)
    pairs = zip(before.split("\n"), after.split("\n"), *(text.split("\n") for text in masked), strict=False)
    assert all((old == new) == (shown_old == shown_new) for old, new, shown_old, shown_new in pairs)
