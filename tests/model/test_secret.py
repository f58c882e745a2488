"""Values that are not shown, as arguments, results, and parts of them."""

import copy
import json
import pickle
import traceback
from dataclasses import asdict, dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from enum import Enum
from typing import Any
from uuid import UUID

import msgspec
import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast import ConfigurationError, Holdfast, InvalidJob, PayloadTooLarge, Secret, Undecodable
from holdfast.model.secret import schema_hook
from holdfast.model.signature import Signature
from holdfast.model.task import define

CANARY = "canary-4111"


class Colour(Enum):
    RED = CANARY


@dataclass
class Card:
    number: Secret[str]
    holder: str


class Login(msgspec.Struct):
    password: Secret[str]


class Account(pydantic.BaseModel):
    password: Secret[str]
    since: Secret[datetime] | None = None


class Opaque: ...


class Foreign(pydantic.BaseModel):
    password: pydantic.SecretStr


def signature(kind: Any) -> Signature:
    async def handler(value: Any) -> Any: ...

    handler.__annotations__ = {"value": kind, "return": kind}
    return Signature(handler)


def test_nothing_shows_it_but_reveal() -> None:
    secret = Secret(CANARY)
    try:
        raise ValueError(secret, [secret], f"{secret} {secret!r} {secret!s} {secret:>10}")
    except ValueError as error:
        trace = "".join(traceback.TracebackException.from_exception(error, capture_locals=True).format())
    shown = [trace, repr(Card(secret, "Ann")), str(asdict(Card(secret, "Ann"))), str(secret)]
    shown += [Account(password=secret).model_dump_json(), repr(Account(password=secret)), ascii([secret])]
    assert not [text for text in shown if CANARY in text]
    assert secret.reveal() == CANARY
    for encode in (json.dumps, msgspec.json.encode):
        with pytest.raises(TypeError):
            encode(secret)


def test_it_is_a_value() -> None:
    secret = Secret(CANARY)
    assert secret == Secret(CANARY) != Secret("other")
    assert secret != CANARY
    assert len({secret, Secret(CANARY)}) == 1
    for other in (copy.copy(secret), copy.deepcopy(secret), pickle.loads(pickle.dumps(secret))):
        assert other == secret


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (Secret[str], Secret(CANARY)),
        (Secret[Colour], Secret(Colour.RED)),
        (Secret[set[str]], Secret({CANARY})),
        (Secret[dict[int, date]], Secret({1: date(2026, 1, 1)})),
        (Secret[Decimal], Secret(Decimal("1.10"))),
        (Secret[bytes] | None, Secret(b"\x00")),
        (list[Secret[UUID]], [Secret(UUID(int=1))]),
        (Card, Card(Secret(CANARY), "Ann")),
        (Secret[Card], Secret(Card(Secret(CANARY), "Ann"))),
        (Login, Login(Secret(CANARY))),
        (Account, Account(password=Secret(CANARY), since=Secret(datetime(2026, 1, 1, tzinfo=UTC)))),
    ],
)
def test_it_comes_back_as_argument_and_as_result(kind: Any, value: Any) -> None:
    known = signature(kind)
    stored = known.encode((value,), {})
    assert known.decode(stored) == ([value], {})
    assert b"$secret" in stored
    assert known.decode_result(known.encode_result(value, 1_000)) == value


@given(st.text(st.characters(codec="utf-8", exclude_characters="\0")))
def test_a_plain_value_is_stored_like_a_secret_one(text: str) -> None:
    known = signature(Secret[str])
    assert known.encode((text,), {}) == known.encode((Secret(text),), {})
    assert known.encode_result(text, 9_999) == known.encode_result(Secret(text), 9_999)
    assert known.decode(msgspec.json.encode({"value": text})) == ([Secret(text)], {})


def test_parts_may_be_given_plain_as_well() -> None:
    plain: Any = CANARY
    assert b'"number":{"$secret":' in signature(Card).encode((Card(plain, "Ann"),), {})


@pytest.mark.parametrize(("kind", "value"), [
    (Secret[int], Secret(CANARY)),
    (Secret[Colour], Secret("wrong-" + CANARY)),
    (Secret[datetime], Secret(datetime(2026, 1, 1))),  # noqa: DTZ001  that is what is wrong with it
    (Secret[str], Secret({CANARY: object()})),
    (Secret[dict[str, str]], Secret({CANARY: "\0"})),
    (Account, Account.model_construct(password=Secret(17))),
])  # fmt: skip
def test_what_does_not_fit_is_refused_without_being_quoted(kind: Any, value: Any) -> None:
    with pytest.raises(InvalidJob, match=r"arguments\.value") as caught:
        signature(kind).encode((value,), {})
    assert CANARY not in str(caught.value)
    assert "2026" not in str(caught.value)


def test_stored_ones_that_do_not_fit_are_not_quoted() -> None:
    with pytest.raises(Undecodable) as caught:
        signature(Secret[Colour]).decode(b'{"value":{"$secret":"wrong-' + CANARY.encode() + b'"}}')
    assert CANARY not in str(caught.value)
    with pytest.raises(InvalidJob, match="result"):
        signature(Secret[int]).encode_result(CANARY, 1_000)


def test_it_counts_for_the_limit() -> None:
    with pytest.raises(PayloadTooLarge):
        signature(Secret[str]).encode((Secret("x" * 100),), {}, limit=100)


def test_pydantic_ones_of_another_kind_are_refused_because_they_would_be_lost() -> None:
    with pytest.raises(InvalidJob, match="SecretStr would be stored as asterisks"):
        signature(Foreign).encode((Foreign(password=pydantic.SecretStr(CANARY)),), {})


def test_what_cannot_be_stored_cannot_be_secret_either() -> None:
    with pytest.raises(ConfigurationError, match="not a type that can be stored"):
        signature(Secret[Opaque])


async def test_a_secret_is_no_key() -> None:
    app = Holdfast("memory://")

    @app.task(limit_by="card")
    async def charge(card: Secret[str]) -> None: ...

    with pytest.raises(InvalidJob, match="card is a Secret, and keys are shown"):
        charge.call(Secret(CANARY))
    assert define(charge.__wrapped__).name == "charge"


def test_json_schemas_name_it() -> None:
    schema = msgspec.json.schema(Login, schema_hook=schema_hook)
    assert schema["$defs"]["Login"]["properties"]["password"] == {"format": "password", "writeOnly": True}
    assert Account.model_json_schema()["properties"]["password"]["type"] == "string"
