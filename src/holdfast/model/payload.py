"""What may be stored as argument or result: JSON, checked so that every store gives it back unchanged."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any, NoReturn, cast
from uuid import UUID

import msgspec

from holdfast.model.errors import InvalidJob, PayloadTooLarge, Undecodable

PAYLOAD_LIMIT = 262_144
DEEPEST = 64
_LOWEST, _HIGHEST = -(2**63), 2**63 - 1
_SCALARS = (datetime, date, time, timedelta, UUID, Decimal, bytes)
_PLACE = re.compile(r" - at `(?:key` in `)?\$(?P<path>.*?)`\Z", re.DOTALL)


class UntypedKey(InvalidJob):
    """A dict key that is not a string: it comes back as itself only if the annotation says what it is."""


class _Refused(Exception):
    """Carries the path from the bad value outwards, so that the good case builds no path."""

    def __init__(self, message: str, kind: type[InvalidJob] = InvalidJob) -> None:
        super().__init__(message)
        self.kind = kind
        self.steps: list[str] = []


def encode(value: object, *, limit: int, field: str, typed_keys: bool = False) -> bytes:
    """The value as JSON; InvalidJob or PayloadTooLarge, naming the part of `field`, if it cannot be stored.

    Keys of dicts must be strings, unless `typed_keys` says that the caller checks what they come back as.
    """
    plain = _plain(value, field)
    _examine(plain, field, typed_keys)
    return _pack(plain, limit, field)


def encode_fields(values: Mapping[str, object], *, limit: int, field: str, typed_keys: bool = False) -> bytes:
    """Named values as one JSON object; each is checked as by `encode`, as `field.name`."""
    try:
        plain = msgspec.to_builtins(values, builtin_types=_SCALARS, enc_hook=_simplify)
    except (TypeError, ValueError, RecursionError):
        plain = {name: _plain(value, f"{field}.{name}") for name, value in values.items()}
    for name, value in plain.items():
        _examine(value, f"{field}.{name}", typed_keys)
    return _pack(plain, limit, field)


def decoder(kind: Any) -> msgspec.json.Decoder[Any]:
    """A compiled, strict decoder for a type; TypeError if the type cannot be stored."""
    return msgspec.json.Decoder(kind, dec_hook=_restore)


def decode(compiled: msgspec.json.Decoder[Any], stored: bytes, field: str) -> Any:
    """What was stored; Undecodable, naming the part of `field`, if it does not fit the type."""
    try:
        return compiled.decode(stored)
    except msgspec.ValidationError as error:
        raise Undecodable(*_placed(str(error), field)) from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Undecodable(field, str(error)) from None


def _placed(message: str, field: str) -> tuple[str, str]:
    found = _PLACE.search(message)
    if found is None:
        return field, message
    return field + found["path"], message[: found.start()]


def _plain(value: object, field: str) -> Any:
    try:
        return msgspec.to_builtins(value, builtin_types=_SCALARS, enc_hook=_simplify)
    except RecursionError:
        raise InvalidJob(field, f"it is nested deeper than {DEEPEST} levels, or contains itself") from None
    except (TypeError, ValueError) as error:
        raise InvalidJob(field, str(error)) from None


def _examine(plain: object, field: str, typed_keys: bool) -> None:
    try:
        _check(plain, 0, typed_keys)
    except _Refused as refusal:
        path = "".join(reversed(refusal.steps))
        raise refusal.kind(field + path, str(refusal)) from None


def _pack(plain: object, limit: int, field: str) -> bytes:
    try:
        packed = msgspec.json.encode(plain)
    except TypeError as error:
        raise InvalidJob(field, str(error)) from None
    if len(packed) > limit:
        raise PayloadTooLarge(
            field,
            f"{len(packed)} bytes as JSON are more than the limit of {limit}; "
            "store the data elsewhere and pass its name or id",
        )
    return packed


def _check(value: object, depth: int, typed_keys: bool) -> None:
    kind = type(value)
    if kind is str:
        text = cast(str, value)
        if "\0" in text or not text.isascii():
            _check_text(text)
    elif kind is int:
        if not _LOWEST <= cast(int, value) <= _HIGHEST:
            raise _Refused("the integer does not fit into 64 bits; pass it as a string")
    elif kind is bool or value is None:
        return
    elif kind is float:
        if not math.isfinite(cast(float, value)):
            raise _Refused(f"{value} cannot be stored as JSON; pass None or a string")
    elif kind is dict or kind is list or kind is tuple:
        _check_container(cast("dict[object, object] | list[object]", value), depth, typed_keys)
    elif isinstance(value, datetime):
        if value.utcoffset() is None:
            raise _Refused(f"{value!r} has no time zone; use for instance datetime.now(UTC)")
    elif isinstance(value, Decimal) and not value.is_finite():
        raise _Refused(f"{value} cannot be stored; pass None or a string")


def _check_container(value: dict[object, object] | list[object], depth: int, typed_keys: bool) -> None:
    depth += 1
    if depth > DEEPEST:
        raise _Refused(f"it is nested deeper than {DEEPEST} levels")
    place: object = None
    try:
        if isinstance(value, dict):
            for place, item in value.items():
                if type(place) is not str and not typed_keys:
                    _refuse_key(place)
                _check(place, depth, typed_keys)
                _check(item, depth, typed_keys)
        else:
            for place in range(len(value)):
                _check(value[place], depth, typed_keys)
    except _Refused as refusal:
        refusal.steps.append(f"[{ascii(place)[:60]}]")
        raise


def _refuse_key(key: object) -> NoReturn:
    raise _Refused(
        f"a key of type {type(key).__name__} would come back as a string; annotate it, for instance as "
        "dict[int, str], or use strings",
        UntypedKey,
    )


def _check_text(text: str) -> None:
    if "\0" in text:
        raise _Refused("the text contains a NUL character, which databases refuse; remove it")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise _Refused(
            "the text contains half of a surrogate pair, which is not Unicode; remove it"
        ) from None


def _simplify(value: Any) -> object:
    """Values that msgspec does not know: pydantic models, and subclasses of the plain types."""
    kind = cast("type[object]", type(value))
    if hasattr(kind, "model_dump"):
        _check_inside(value.model_dump(), 0)
        return value.model_dump(mode="json", by_alias=True, round_trip=True)
    if isinstance(value, str):
        return str(value)
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        return float(value)
    raise TypeError(
        f"{kind.__module__}.{kind.__qualname__} cannot be stored; use JSON types, date, time, datetime, "
        "timedelta, UUID, Decimal, Enum, dataclass, TypedDict, NamedTuple, msgspec.Struct or a pydantic model"
    )


def _check_inside(value: object, depth: int) -> None:
    """Refuses, in a pydantic model's Python form, the datetimes that its JSON form would let pass as text."""
    if isinstance(value, datetime):
        if value.utcoffset() is None:
            raise ValueError(f"{value!r} has no time zone; use for instance datetime.now(UTC)")
    elif depth <= DEEPEST and isinstance(value, dict | list | tuple | set | frozenset):
        items = cast("dict[object, object] | list[object]", value)
        for item in items.values() if isinstance(items, dict) else items:
            _check_inside(item, depth + 1)


def _restore(kind: Any, value: object) -> object:
    """Types that msgspec does not know: pydantic models, and plain classes that take no part in JSON."""
    validate = getattr(kind, "model_validate", None)
    if validate is None:
        raise TypeError(f"{kind!r} cannot be read from JSON")
    try:
        return validate(value)
    except ValueError as error:
        raise ValueError(_without_input(error)) from None


def _without_input(error: ValueError) -> str:
    """A pydantic error without the values that it would quote: payloads never reach a log."""
    errors = getattr(error, "errors", None)
    if errors is None:
        return type(error).__name__
    found = errors(include_url=False, include_input=False, include_context=False)
    return "; ".join(f"{'.'.join(str(part) for part in each['loc'])}: {each['msg']}" for each in found)
