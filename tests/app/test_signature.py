from __future__ import annotations

import inspect
from collections import deque
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from enum import Enum
from typing import Any, NamedTuple, NoReturn, TypedDict
from uuid import UUID

import msgspec
import pytest
from pydantic import BaseModel, Field

from holdfast.engine.context import Context
from holdfast.model.errors import ConfigurationError, InvalidJob, PayloadTooLarge, Undecodable
from holdfast.model.signature import Signature


class Colour(Enum):
    RED = "red"


@dataclass
class Box:
    width: int
    colour: Colour = Colour.RED


class Row(TypedDict, total=False):
    name: str
    size: int


class Pair(NamedTuple):
    left: int
    right: str


class Packed(msgspec.Struct):
    amount: Decimal


class Order(BaseModel):
    number: int = Field(alias="no")


def everything(
    box: Box,
    row: Row,
    pair: Pair,
    packed: Packed,
    order: Order,
    orders: list[Order] | None,
    when: datetime,
    days: dict[UUID, date],
    maybe: int | str | None = None,
) -> dict[int, Box]:
    raise NotImplementedError


def shape(a: int, /, b: int, c: int = 3, *, d: int, e: list[int] = []) -> None:  # noqa: B006
    raise NotImplementedError


def with_context(ctx: Context, day: date) -> None:
    raise NotImplementedError


def with_typed_context(ctx: Context[Box], day: date) -> None:
    raise NotImplementedError


def unannotated(a, b=2):  # type: ignore[no-untyped-def]
    raise NotImplementedError


def test_all_promised_types_come_back_equal() -> None:
    signature = Signature(everything)
    args = (
        Box(3),
        Row(name="a"),
        Pair(1, "b"),
        Packed(Decimal("1.50")),
        Order(no=4),
        [Order(no=5)],
        datetime(2026, 1, 2, tzinfo=UTC),
        {UUID(int=7): date(2026, 1, 2)},
    )
    assert signature.decode(signature.encode(args, {})) == ([*args, None], {})
    assert signature.decode_result(signature.encode_result({1: Box(2)}, 1000)) == {1: Box(2)}


@pytest.mark.parametrize(
    ("args", "kwargs"),
    [((1, 2), {"d": 4}), ((1,), {"d": 4, "b": 2}), ((1, 2, 3), {"d": 4}), ((1,), {"c": 3, "b": 2, "d": 4})],
)
def test_positions_and_names_are_bound_as_python_does(args: tuple[int, ...], kwargs: dict[str, int]) -> None:
    signature = Signature(shape)
    assert signature.decode(signature.encode(args, kwargs)) == ([1, 2, 3], {"d": 4, "e": []})


def test_the_same_call_gives_the_same_bytes_however_it_is_written() -> None:
    signature = Signature(shape)
    assert signature.encode((1, 2), {"c": 5, "d": 4}) == signature.encode((1,), {"d": 4, "c": 5, "b": 2})


@pytest.mark.parametrize(
    ("args", "kwargs", "words"),
    [
        ((), {}, "missing a required argument: 'a'"),
        ((1, 2, 3, 4), {"d": 4}, "too many positional arguments"),
        ((1, 2), {"d": 4, "x": 5}, "unexpected keyword argument 'x'"),
        ((1, 2), {"d": 4, "b": 5}, "multiple values for argument 'b'"),
        ((), {"a": 1, "b": 2, "d": 4}, "positional"),
        ((1, 2), {}, "missing a required"),
    ],
)
def test_a_call_that_does_not_fit_says_why_and_what_would(
    args: tuple[int, ...], kwargs: dict[str, int], words: str
) -> None:
    with pytest.raises(InvalidJob, match="arguments: ") as refusal:
        Signature(shape).encode(args, kwargs)
    assert words in str(refusal.value)
    assert "(a: int, /, b: int" in str(refusal.value).replace("'", "")


def test_arguments_of_the_wrong_type_are_refused_by_name() -> None:
    with pytest.raises(InvalidJob, match=r"arguments\.b: Expected `int`, got `str`"):
        Signature(shape).encode((1, "2"), {"d": 4})
    with pytest.raises(InvalidJob, match=r"arguments\.day: "):
        Signature(with_context).encode(("soon",), {})
    with pytest.raises(PayloadTooLarge):
        Signature(unannotated).encode(("x" * 100,), {}, limit=100)


def test_text_that_reads_as_a_naive_datetime_or_a_nan_is_refused_like_the_value_itself() -> None:
    class Visit(BaseModel):
        when: datetime

    def handler(
        at: datetime | None = None, share: Decimal = Decimal(0), visits: list[Visit] | None = None
    ) -> None:
        raise AssertionError

    signature = Signature(handler, names={"Visit": Visit})
    for name, value, place in (
        ("at", "2026-01-02T03:04:05", "arguments.at"),
        ("share", "NaN", "arguments.share"),
        ("share", "-Infinity", "arguments.share"),
        ("visits", [{"when": "2026-01-02T03:04:05"}], "arguments.visits"),
    ):
        with pytest.raises(InvalidJob) as caught:
            signature.encode((), {name: value})
        assert caught.value.field == place
    assert signature.encode((), {"at": "2026-01-02T03:04:05Z", "share": "1.5"})


def test_a_default_is_filled_in_when_the_job_is_run_not_when_it_is_stored() -> None:
    stored = Signature(unannotated).encode((1,), {})
    assert stored == b'{"a":1}'
    args, _ = Signature(shape).decode(b'{"a":1,"b":2,"d":4}')
    assert args == [1, 2, 3]


def test_a_default_is_the_very_object_that_a_plain_call_uses() -> None:
    _, kwargs = Signature(shape).decode(b'{"a":1,"b":2,"d":4}')
    assert kwargs["e"] is inspect.signature(shape).parameters["e"].default


@pytest.mark.parametrize(
    ("stored", "words"),
    [
        (b'{"a":1}', "missing required field"),
        (b'{"a":1,"b":2,"d":4,"z":0}', "unknown field `z`"),
        (b'{"a":1,"b":2,"d":"x"}', "arguments.d: Expected `int`"),
        (b"[1]", "Expected `object`"),
        (b"{", "truncated"),
        (b"\x80\x04.", "malformed"),
    ],
)
def test_stored_arguments_that_do_not_fit_are_undecodable(stored: bytes, words: str) -> None:
    with pytest.raises(Undecodable) as failure:
        Signature(shape).decode(stored)
    assert words in str(failure.value)


def test_the_context_is_known_by_its_annotation_and_is_no_argument() -> None:
    for function in (with_context, with_typed_context):
        signature = Signature(function)
        assert signature.takes_context
        assert signature.named(signature.encode((date(2026, 1, 2),), {})) == {"day": date(2026, 1, 2)}
    assert not Signature(shape).takes_context


def test_parameters_may_have_any_name() -> None:
    def odd(self: int, p0: int, __struct_fields__: int, ctx: int) -> None:
        raise NotImplementedError

    signature = Signature(odd)
    assert signature.decode(signature.encode((1, 2, 3, 4), {})) == ([1, 2, 3, 4], {})


def test_untyped_dict_keys_are_refused_and_typed_ones_are_kept() -> None:
    def keyed(values: dict[int, str]) -> dict[int, str]:
        raise NotImplementedError

    signature = Signature(keyed)
    assert signature.decode(signature.encode(({1: "a"},), {})) == ([{1: "a"}], {})
    with pytest.raises(InvalidJob, match=r"arguments\.values\[...\]: Expected `str`, got `int`"):
        signature.encode(({1: 5},), {})
    with pytest.raises(InvalidJob, match=r"result\[1\]"):
        signature.encode_result({1: 5}, 1000)
    with pytest.raises(InvalidJob, match=r"arguments\.a\[1\]: a key of type int"):
        Signature(unannotated).encode(({1: "a"},), {})
    with pytest.raises(InvalidJob, match=r"result\[1\]"):
        Signature(unannotated).encode_result({1: "a"}, 1000)


def test_sets_of_equal_calls_give_equal_bytes() -> None:
    def takes(names: set[str]) -> None:
        raise NotImplementedError

    names = [f"name-{number}" for number in range(40)]
    stored = Signature(takes).encode((set(names),), {})
    assert msgspec.json.decode(stored)["names"] == sorted(names)


def test_dicts_keep_the_order_in_which_they_were_written() -> None:
    def takes(values: dict[str, int]) -> None:
        raise NotImplementedError

    signature = Signature(takes)
    args, _ = signature.decode(signature.encode(({"b": 1, "a": 2},), {}))
    assert list(args[0]) == ["b", "a"]


def variadic(*numbers: int) -> None:
    raise NotImplementedError


def keywords(**numbers: int) -> None:
    raise NotImplementedError


def late_context(day: date, ctx: Context) -> None:
    raise NotImplementedError


def unknown_type(queue: deque[int]) -> None:
    raise NotImplementedError


def unknown_result() -> deque[int]:
    raise NotImplementedError


def unresolved(value: Missing) -> None:  # type: ignore[name-defined]  # noqa: F821
    raise NotImplementedError


def mixed(value: Order | int) -> None:
    raise NotImplementedError


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (variadic, "*numbers"),
        (keywords, "**numbers"),
        (late_context, "Context must be the first parameter"),
        (unknown_type, "deque"),
        (unknown_result, "keep_result=False"),
        (unresolved, "Missing"),
        (mixed, "custom type"),
    ],
)
def test_what_cannot_be_checked_is_refused_at_decoration(function: Any, words: str) -> None:
    with pytest.raises(ConfigurationError) as refusal:
        Signature(function)
    assert words in str(refusal.value)
    assert function.__name__ in str(refusal.value)


def test_a_result_that_is_not_kept_may_be_anything() -> None:
    assert Signature(unknown_result, keeps_result=False).encode((), {}) == b"{}"


def test_a_function_that_never_returns_can_be_a_task() -> None:
    def raises() -> NoReturn:
        raise NotImplementedError

    assert Signature(raises).encode((), {}) == b"{}"


def test_a_result_must_fit_the_return_type_when_it_is_read() -> None:
    def counts() -> int:
        raise NotImplementedError

    signature = Signature(counts)
    assert signature.decode_result(signature.encode_result(5, 10)) == 5
    with pytest.raises(Undecodable, match="result: Expected `int`"):
        signature.decode_result(b'"five"')
    with pytest.raises(PayloadTooLarge, match="result"):
        signature.encode_result("x" * 20, 10)


def test_types_of_the_defining_function_are_found_when_its_names_are_given() -> None:
    @dataclass
    class Local:
        size: int

    def takes(value: Local) -> None:
        raise NotImplementedError

    signature = Signature(takes, names={"Local": Local})
    assert signature.decode(signature.encode((Local(1),), {})) == ([Local(1)], {})


def test_a_call_that_does_not_fit_is_told_the_parameters_without_their_defaults() -> None:
    def connect(host: str, *, password: str = "c4n4ry") -> None:
        raise NotImplementedError

    with pytest.raises(InvalidJob, match=r"takes \(host: 'str', \*, password: 'str' = \.\.\.\)") as raised:
        Signature(connect).encode((), {})
    assert "c4n4ry" not in str(raised.value)
