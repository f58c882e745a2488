"""What is shown of arguments, results and event data: never a secret, never too much, and never an error."""

from time import perf_counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast import Secret
from holdfast.model.encryption import parse_keys
from holdfast.model.redaction import CUT, LONGEST, MOST, Redactor, redact_names, redact_text, revealed
from holdfast.model.sealed import Kind, unread
from holdfast.stores.sealed.keyring import Keyring
from tests.sealed.keys import NEW, NEW_ID

REDACT = Redactor().redact


@pytest.mark.parametrize(
    "name",
    [
        "password",
        "user_password",
        "dbPassword",
        "PASSWORD",
        "API-Key",
        "apiKey",
        "APIKey",
        "x-api-key",
        "token",
        *(
            "tokens",
            "Tokens",
            "access_tokens",
            "refreshTokens",
            "authtoken",
            "authToken",
            "user_access_tokens",
        ),
        *(
            "pass",
            "db_pass",
            "dbPass",
            "passwd",
            "db_passwd",
            "passWord",
            "PassWord",
            "passwds",
            "dbpassword",
        ),
        *("secretkey", "accesskey", "privatekey", "aws_secretkey", "secretKey", "accessKey", "PRIVATEKEY"),
    ],
)
def test_what_is_named_like_a_secret_is_hidden(name: str) -> None:
    assert REDACT({"a": [{name: "hunter2", "other": 1}]}) == {"a": [{name: "***", "other": 1}]}
    assert REDACT({name: {"deep": "hunter2"}}) == {name: "***"}
    assert REDACT({name: 1234}) == {name: "***"}


@pytest.mark.parametrize(
    "name",
    [
        "author",
        "tokenizer",
        "max_tokens",
        "monkey",
        "keyboard",
        "passenger",
        "passport",
        "compass",
        "bypass",
        "key",
    ],
)
def test_what_only_sounds_alike_is_shown(name: str) -> None:
    assert REDACT({name: "shown"}) == {name: "shown"}


def test_yes_no_and_nothing_are_no_secrets() -> None:
    assert REDACT({"password": None, "token": True}) == {"password": None, "token": True}


def test_secrets_are_hidden_by_their_mark_and_revealed_without_it() -> None:
    stored = b'{"card":{"$secret":"4111"},"list":[{"$secret":{"a":{"$secret":1}}}],"odd":{"$secret":1,"b":2}}'
    assert Redactor().shown(stored) == {
        "card": "***",
        "list": ["***"],
        "odd": {"$secret": "***", "b": 2},
    }
    assert revealed(stored) == {"card": "4111", "list": [{"a": 1}], "odd": {"$secret": 1, "b": 2}}
    assert REDACT({"a": Secret("4111")}) == {"a": "***"}


def test_names_are_added_and_taken_away() -> None:
    redact = Redactor(redact_names("patientName, -token,")).redact
    assert redact({"patient_name": "Ann", "token": "t", "password": "p"}) == {
        "patient_name": "***",
        "token": "t",
        "password": "***",
    }


def test_urls_lose_their_credentials() -> None:
    assert redact_text("see postgresql://ann:p/w@x@db/jobs now") == "see postgresql://***@db/jobs now"
    assert redact_text("https://h/x?a=1&access_token=t&b=2") == "https://h/x?a=1&access_token=***&b=2"
    assert redact_text("mail ann@example.com") == "mail ann@example.com"


def test_what_cannot_be_read_is_told_as_text() -> None:
    sealed = Keyring(parse_keys(NEW)).seal(b"{}", Kind.ARGUMENTS, "space")
    shown = Redactor().shown
    assert shown(sealed) == f"encrypted with key {NEW_ID}"
    assert shown(unread(b"x", "damaged")) == "damaged"
    assert shown(None) is None
    for odd in (b"", b"\xff\xfe", b"[" * 100_000, b"{", b"\x00HF\x01", b"\x00HF!", b"\x00HF!\xff\xffx"):
        assert isinstance(shown(odd), str)


def test_much_is_cut() -> None:
    deep: Any = "end"
    for _ in range(5_000):
        deep = [deep]
    assert CUT in repr(REDACT(deep))
    assert len(repr(REDACT([[0]] * 1_000_000))) < 20 * MOST
    assert len(str(REDACT("x" * 1_000_000))) < LONGEST + 100
    assert CUT in repr(REDACT({str(number): 1 for number in range(100_000)}))


@pytest.mark.parametrize("part", ["a://b:", "a.", "://x", "?key", "&keykey=", "a://b:c@", "%3A%2F%2F"])
def test_no_text_takes_long(part: str) -> None:
    text = "http://" + part * (250_000 // len(part))
    began = perf_counter()
    REDACT([text[:20_000]] * 12 + [text])
    assert perf_counter() - began < 5


json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text() | st.just("password"), inner),
    max_leaves=20,
)


@given(json | st.binary() | st.dictionaries(st.integers(), st.sets(st.integers())))
def test_it_never_raises(value: object) -> None:
    once = REDACT(value)
    assert REDACT(once) == once or once != once  # noqa: PLR0124  NaN is not itself


def test_of_one_among_many_less_is_shown() -> None:
    alone = Redactor().redact(list(range(MOST - 1)))
    among = Redactor().redact(list(range(MOST - 1)), among=200)
    assert isinstance(alone, list)
    assert isinstance(among, list)
    assert (len(alone), len(among)) == (MOST - 1, MOST // 20)
    assert len(str(Redactor().redact("x" * LONGEST, among=200))) < LONGEST // 10
