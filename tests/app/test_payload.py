import math
from collections import OrderedDict, deque
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from uuid import UUID

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from holdfast.model.errors import InvalidJob, PayloadTooLarge, Undecodable
from holdfast.model.payload import decode, decoder, encode, encode_fields

BIG = 1_000_000


class Colour(Enum):
    RED = "red"


class Point(BaseModel):
    x: int
    when: datetime | None = None


class Text(str):
    __slots__ = ()


class Nested(BaseModel):
    points: list[Point]


def nested(depth: int) -> object:
    value: object = 1
    for _ in range(depth):
        value = [value]
    return value


def itself() -> object:
    value: list[object] = []
    value.append(value)
    return value


def stored(value: object) -> bytes:
    return encode(value, limit=BIG, field="x")


@pytest.mark.parametrize(
    ("value", "place", "words"),
    [
        (math.nan, "x", "nan"),
        ({"a": [1, math.inf]}, "x['a'][1]", "inf"),
        (-math.inf, "x", "-inf"),
        (Decimal("NaN"), "x", "NaN"),
        ([Decimal("-Infinity")], "x[0]", "Infinity"),
        ("a\0b", "x", "NUL"),
        ({"a\0": 1}, "x['a\\x00']", "NUL"),
        ("\ud800", "x", "surrogate"),
        (["é", "\udfff"], "x[1]", "surrogate"),
        (2**63, "x", "64 bits"),
        ({"n": -(2**63) - 1}, "x['n']", "64 bits"),
        (datetime(2026, 1, 1), "x", "no time zone"),  # noqa: DTZ001
        (Point(x=1, when=datetime(2026, 1, 1)), "x", "no time zone"),  # noqa: DTZ001
        (Nested(points=[Point(x=1, when=datetime(2026, 1, 1))]), "x", "no time zone"),  # noqa: DTZ001
        (itself(), "x", "contains itself"),
        ({1: "a"}, "x[1]", "come back as a string"),
        ({"a": {date(2026, 1, 1): 1}}, "x['a'][datetime.date(2026, 1, 1)]", "come back as a string"),
        ({(1, 2): 3}, "x[(1, 2)]", "cannot be a key"),
        ({None: 3}, "x[None]", "cannot be a key"),
        ({True: 3}, "x[True]", "cannot be a key"),
        (object(), "x", "builtins.object cannot be stored"),
        ([deque([1])], "x", "collections.deque cannot be stored"),
        (lambda: None, "x", "cannot be stored"),
        (1j, "x", "cannot be stored"),
    ],
)
def test_what_some_store_would_change_is_refused_and_its_place_named(
    value: object, place: str, words: str
) -> None:
    with pytest.raises(InvalidJob) as refusal:
        stored(value)
    assert refusal.value.field == place
    assert words in str(refusal.value)


def test_nesting_of_64_is_taken_and_of_65_is_not() -> None:
    assert stored(nested(64))
    with pytest.raises(InvalidJob, match="deeper than 64"):
        stored(nested(65))
    with pytest.raises(InvalidJob, match="deeper than 64"):
        stored(nested(100_000))


def test_the_size_limit_counts_encoded_bytes_and_is_inclusive() -> None:
    assert encode("é" * 4, limit=10, field="x") == '"éééé"'.encode()
    with pytest.raises(PayloadTooLarge, match=r"x: 12 bytes .* limit of 10"):
        encode("é" * 5, limit=10, field="x")


def test_each_of_several_fields_is_named() -> None:
    with pytest.raises(InvalidJob, match=r"arguments\.day"):
        encode_fields({"a": 1, "day": object()}, limit=BIG, field="arguments")
    with pytest.raises(InvalidJob, match=r"arguments\.n: .*64 bits"):
        encode_fields({"a": 1, "n": 2**64}, limit=BIG, field="arguments")
    with pytest.raises(PayloadTooLarge, match="arguments: 9 bytes"):
        encode_fields({"a": "x"}, limit=8, field="arguments")


def test_sets_are_stored_in_one_order_when_asked_for() -> None:
    names = {f"name-{number}" for number in range(50)}
    packed = encode_fields({"names": names}, limit=BIG, field="arguments", sort=True)
    assert msgspec.json.decode(packed)["names"] == sorted(names)


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (date(2026, 2, 3), date),
        (time(4, 5, 6), time),
        (datetime(2026, 2, 3, tzinfo=UTC), datetime),
        (timedelta(days=1, microseconds=1), timedelta),
        (UUID(int=5), UUID),
        (Decimal("1.10"), Decimal),
        (b"\0\xff", bytes),
        (Colour.RED, Colour),
        ({1: "a"}, dict[int, str]),
        ([Point(x=1, when=datetime(2026, 2, 3, tzinfo=UTC))], list[Point]),
        (Nested(points=[Point(x=2)]), Nested | None),
        ({3, 4}, set[int]),
        ((1, "a"), tuple[int, str]),
        (Text("like text"), str),
        (OrderedDict(a=1), dict[str, int]),
        (2**63 - 1, int),
        (-(2**63), int),
        ({"any": ["thing"]}, object),
    ],
)
def test_typed_values_come_back_as_they_were(value: object, kind: object) -> None:
    packed = encode(value, limit=BIG, field="x", typed_keys=True)
    assert decode(decoder(kind), packed, "x") == value


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0")),
    lambda inner: (
        st.lists(inner, max_size=5)
        | st.dictionaries(
            st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=5),
            inner,
            max_size=5,
        )
    ),
    max_leaves=20,
)


@given(json_values)
def test_every_json_value_comes_back_as_it_was(value: object) -> None:
    assert decode(decoder(object), stored(value), "x") == value


@pytest.mark.parametrize(
    ("packed", "kind", "place"),
    [
        (b'{"a":"1"}', dict[str, int], "x[...]"),
        (b"[1,2", list[int], "x"),
        (b"NaN", float, "x"),
        (b"\xff", str, "x"),
        (b"[" * 100_000, object, "x"),
        (b'{"x":"secret"}', Point, "x"),
    ],
)
def test_what_does_not_fit_is_undecodable_and_its_content_is_not_told(
    packed: bytes, kind: object, place: str
) -> None:
    with pytest.raises(Undecodable) as failure:
        decode(decoder(kind), packed, "x")
    assert failure.value.field == place
    assert "secret" not in str(failure.value)


def test_a_type_that_cannot_be_stored_is_refused_before_any_value_is() -> None:
    with pytest.raises(TypeError, match="deque"):
        decoder(list[deque[int]])
