"""What may be stored as argument or result: JSON, checked so that every store gives it back unchanged."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any, Literal, cast, get_args
from uuid import UUID

import msgspec
from msgspec import inspect

from holdfast.model.errors import InvalidJob, PayloadTooLarge, Undecodable
from holdfast.model.sealed import check_read
from holdfast.model.secret import MARK, TO_STORE, Secret, inner_of, is_secret, marked, schema_hook, unmarked

PAYLOAD_LIMIT = 262_144
DEEPEST = 64
_LOWEST, _HIGHEST = -(2**63), 2**63 - 1
_SCALARS = (datetime, date, time, timedelta, UUID, Decimal, bytes)
_SIMPLE: frozenset[type[object]] = frozenset({str, int, float, bool, type(None), *_SCALARS})
_PLACE = re.compile(r" - at `(?:key` in `)?\$(?P<path>.*?)`\Z", re.DOTALL)


class UntypedKey(InvalidJob):
    """A dict key that is not a string: it comes back as itself only if the annotation says what it is."""


class _Refused(Exception):
    """Carries the path from the bad value outwards, so that the good case builds no path."""

    def __init__(self, message: str, kind: type[InvalidJob] = InvalidJob) -> None:
        super().__init__(message)
        self.kind = kind
        self.steps: list[str] = []

    def as_error(self, field: str) -> InvalidJob:
        path = "".join(reversed(self.steps))
        return self.kind(field + (path if len(path) <= 100 else path[:97] + "..."), str(self))


def encode(value: object, *, limit: int, field: str, typed_keys: bool = False) -> bytes:
    """The value as JSON; InvalidJob or PayloadTooLarge, naming the part of `field`, if it cannot be stored.

    Keys of dicts must be strings, unless `typed_keys` says that the caller checks what they come back as.
    """
    plain = value if type(value) in _SIMPLE else _plain(value, field)
    try:
        _check(plain, 0, typed_keys)
    except _Refused as refusal:
        raise refusal.as_error(field) from None
    return _pack(plain, limit, field)


def encode_fields(
    values: Mapping[str, object], *, limit: int, field: str, typed_keys: bool = False, sort: bool = False
) -> bytes:
    """Named values as one JSON object; each is checked as by `encode`, as `field.name`.

    `sort` puts sets and dicts into an order that is the same everywhere.
    """
    return _pack(_checked(values, field, typed_keys=typed_keys, sort=sort), limit, field)


def check_fields(values: Mapping[str, object], field: str) -> None:
    """Refuses what `encode_fields` would refuse, for values that were read from JSON."""
    _checked(values, field, typed_keys=True, sort=False)


def _checked(
    values: Mapping[str, object], field: str, *, typed_keys: bool, sort: bool
) -> Mapping[str, object]:
    plain: Mapping[str, Any] = values
    if not _SIMPLE.issuperset(map(type, values.values())):
        order: Literal["deterministic"] | None = "deterministic" if sort else None
        try:
            plain = msgspec.to_builtins(values, builtin_types=_SCALARS, enc_hook=_simplify, order=order)
        except (TypeError, ValueError, RecursionError):
            plain = {name: _plain(value, f"{field}.{name}") for name, value in values.items()}
    for name, value in plain.items():
        try:
            _check(value, 0, typed_keys)
        except _Refused as refusal:
            raise refusal.as_error(f"{field}.{name}") from None
    return plain


def decoder(kind: Any) -> msgspec.json.Decoder[Any]:
    """A compiled, strict decoder for a type; TypeError if the type cannot be stored."""
    for each in (kind, *_in_secrets(kind)):
        unknown = next((node for node in _kinds(each) if _is_unknown(node)), None)
        if unknown is not None:
            raise TypeError(f"{unknown.cls!r} is not a type that can be stored")
    return msgspec.json.Decoder(kind, dec_hook=_restore)


def schema_of(kind: Any) -> dict[str, Any]:
    """The JSON schema of a type that msgspec does not know: a pydantic model, or `object`, which is anything."""
    if is_secret(kind):
        return {**schema_hook(kind)}
    described = getattr(kind, "model_json_schema", None)
    return {} if described is None else cast("dict[str, Any]", described())


def has_sets(kind: Any) -> bool:
    """Whether values of the type contain sets, whose order differs from process to process."""
    return any(isinstance(each, inspect.SetType | inspect.FrozenSetType) for each in _kinds(kind))


def reads_more_than_json(kind: Any) -> bool:
    """Whether text may be read as what would be refused as a value: a naive datetime, a Decimal NaN."""
    texts = inspect.DateTimeType | inspect.DecimalType | inspect.CustomType
    return any(isinstance(each, texts) for each in _kinds(kind))


def has_secrets(kind: Any) -> bool:
    """Whether values of the type contain secrets, which may be given plain and must be stored marked."""
    return any(isinstance(each, inspect.CustomType) and each.cls is Secret for each in _kinds(kind))


def decode(compiled: msgspec.json.Decoder[Any], stored: bytes, field: str) -> Any:
    """What was stored; Undecodable, naming the part of `field`, if it does not fit the type."""
    try:
        return compiled.decode(stored)
    except msgspec.ValidationError as error:
        raise Undecodable(*_placed(str(error), field)) from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        check_read(stored, field)
        raise Undecodable(field, str(error)) from None


def _kinds(kind: Any) -> Iterator[Any]:
    """Every type that a type is made of."""
    waiting: list[Any] = [inspect.type_info(kind)]
    seen: set[int] = set()
    while waiting:
        node = waiting.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        yield node
        for name in node.__struct_fields__:
            value = getattr(node, name)
            parts = cast("tuple[object, ...]", value) if isinstance(value, tuple) else (value,)
            waiting.extend(part for part in parts if isinstance(part, inspect.Type | inspect.Field))


def _is_unknown(node: Any) -> bool:
    if not isinstance(node, inspect.CustomType):
        return False
    return node.cls not in {object, Secret} and not hasattr(node.cls, "model_validate")


def _in_secrets(kind: Any) -> Iterator[Any]:
    """What is inside the secrets that an annotation names: msgspec does not look there."""
    fields: Any = getattr(kind, "__annotations__", {}) if hasattr(kind, "__struct_fields__") else {}
    parts: tuple[Any, ...] = (*get_args(kind), *fields.values())
    for part in parts:
        yield from [part] if is_secret(kind) else []
        yield from _in_secrets(part)


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


def _pack(plain: object, limit: int, field: str) -> bytes:
    packed = msgspec.json.encode(plain)
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
                if type(place) is not str:
                    _check_key(place, typed_keys)
                _check(place, depth, typed_keys)
                _check(item, depth, typed_keys)
        else:
            for place in range(len(value)):
                _check(value[place], depth, typed_keys)
    except _Refused as refusal:
        if place == MARK:  # what is inside is not to be quoted
            said = "what the Secret keeps cannot be stored; try it without Secret to see why"
            raise _Refused(said, refusal.kind) from None
        refusal.steps.append(f"[{ascii(place)[:60]}]")
        raise


def _check_key(key: object, typed_keys: bool) -> None:
    if isinstance(key, bool) or not isinstance(key, (int, float, *_SCALARS)):
        raise _Refused(f"{type(key).__name__} cannot be a key in JSON; use strings")
    if not typed_keys:
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
    if kind is Secret:
        return marked(value)
    if hasattr(kind, "model_dump"):
        _check_inside(value.model_dump(), 0)
        return value.model_dump(mode="json", by_alias=True, round_trip=True, context=TO_STORE)
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
    """Refuses, in a pydantic model's Python form, what its JSON form would let pass as another text."""
    if isinstance(value, datetime):
        if value.utcoffset() is None:
            raise ValueError(f"{value!r} has no time zone; use for instance datetime.now(UTC)")
    elif hasattr(value, "get_secret_value"):
        raise ValueError(f"{type(value).__name__} would be stored as asterisks; use holdfast.Secret")
    elif depth <= DEEPEST and isinstance(value, dict | list | tuple | set | frozenset):
        items = cast("dict[object, object] | list[object]", value)
        for item in items.values() if isinstance(items, dict) else items:
            _check_inside(item, depth + 1)


def _restore(kind: Any, value: object) -> object:
    """Types that msgspec does not know: secrets, pydantic models, and `object`, which is anything."""
    if kind is object:
        return value
    if is_secret(kind):
        return _secret(inner_of(kind), unmarked(value))
    validate = getattr(kind, "model_validate", None)
    if validate is None:
        raise TypeError(f"{kind!r} cannot be read from JSON")
    try:
        return validate(value)
    except ValueError as error:
        raise ValueError(_without_input(error)) from None


def _secret(kind: Any, value: object) -> Secret[Any]:
    try:
        return Secret(msgspec.convert(value, kind, dec_hook=_restore, str_keys=True))
    except msgspec.ValidationError:  # its text may quote the value
        raise ValueError(f"Expected a Secret of `{getattr(kind, '__name__', kind)}`") from None


def _without_input(error: ValueError) -> str:
    """A pydantic error without the values that it would quote: payloads never reach a log."""
    errors = getattr(error, "errors", None)
    if errors is None:
        return type(error).__name__
    found = errors(include_url=False, include_input=False, include_context=False)
    return "; ".join(f"{'.'.join(str(part) for part in each['loc'])}: {each['msg']}" for each in found)
