"""A handler's parameters and return type, compiled: from a call to stored bytes, and back to a call."""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable, Mapping
from typing import Any, cast

import msgspec

from holdfast.model.errors import ConfigurationError, InvalidJob, Undecodable
from holdfast.model.payload import (
    PAYLOAD_LIMIT,
    UntypedKey,
    check_fields,
    decode,
    decoder,
    encode,
    encode_fields,
    has_secrets,
    has_sets,
    reads_more_than_json,
    schema_of,
)

_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
_VARIADIC = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)

Function = Callable[..., Any]


class _Default:
    def __repr__(self) -> str:
        return "..."


_DEFAULT = _Default()


class Signature:
    """What a handler takes, without its context, and what it returns.

    The parameters become one struct type, made once, so that reading a call is one pass of compiled code. Its
    fields have names of our own, because a parameter may be called like anything.
    """

    def __init__(
        self, function: Function, *, names: Mapping[str, Any] | None = None, keeps_result: bool = True
    ) -> None:
        self._where = f"{function.__module__}.{function.__qualname__}"
        self._python = inspect.signature(function)
        hints = self._hints(function, names)
        parameters = list(self._python.parameters.values())
        self.takes_context = bool(parameters) and is_context(hints.get(parameters[0].name))
        if self.takes_context:
            del parameters[0]
            self._python = self._python.replace(parameters=parameters)
        self._check_parameters(parameters, hints)
        self._positional = tuple(each.name for each in parameters if each.kind in _POSITIONAL)
        self._keywords = tuple(each.name for each in parameters if each.kind not in _POSITIONAL)
        self._all = self._positional + self._keywords
        self._required = frozenset(each.name for each in parameters if each.default is each.empty)
        self._by_name = frozenset(each.name for each in parameters if each.kind != each.POSITIONAL_ONLY)
        struct = self._kind = self._struct(parameters, hints)
        self._arguments = self._compile(struct, "a parameter")
        self._is_secret = has_secrets(struct)
        self._sort = has_sets(struct) or self._is_secret
        self._check_read = reads_more_than_json(struct)
        returned = hints.get("return", Any) if keeps_result else Any
        returned = Any if returned in {typing.NoReturn, typing.Never} else returned
        self._result = self._compile(returned, "the return type (keep_result=False keeps none)")
        self._returns_secret = has_secrets(returned)

    def encode(self, args: tuple[Any, ...], kwargs: dict[str, Any], limit: int = PAYLOAD_LIMIT) -> bytes:
        """The call as stored, after the same check as when it is run. InvalidJob names what is wrong."""
        bound = self._bind(args, kwargs)
        odd: UntypedKey | None = None
        try:
            stored = encode_fields(bound, limit=limit, field="arguments", sort=self._sort)
        except UntypedKey as refusal:
            odd = refusal
            stored = encode_fields(bound, limit=limit, field="arguments", sort=self._sort, typed_keys=True)
        try:
            values = decode(self._arguments, stored, "arguments")
        except Undecodable as error:
            raise InvalidJob(error.field, error.problem) from None
        if odd is not None or self._check_read:
            read = dict(zip(self._all, msgspec.structs.astuple(values), strict=True))
            if odd is not None and any(read[name] != value for name, value in bound.items()):
                raise odd
            bound = {name: read[name] for name in bound}
            check_fields(bound, "arguments")
        if self._is_secret:  # those that were given plain are marked now
            typed = odd is not None
            stored = encode_fields(bound, limit=limit, field="arguments", sort=True, typed_keys=typed)
        return stored

    def decode(self, stored: bytes) -> tuple[list[Any], dict[str, Any]]:
        """The stored call, ready to be made. Undecodable if it does not fit the parameters."""
        values = msgspec.structs.astuple(decode(self._arguments, stored, "arguments"))
        if not self._keywords:
            return list(values), {}
        split = len(self._positional)
        return list(values[:split]), dict(zip(self._keywords, values[split:], strict=True))

    def named(self, stored: bytes) -> dict[str, Any]:
        """The stored arguments by name, defaults included."""
        args, kwargs = self.decode(stored)
        return dict(zip(self._all, [*args, *kwargs.values()], strict=True))

    def encode_result(self, value: object, limit: int) -> bytes:
        """The result as stored; InvalidJob names what in it cannot be."""
        if self._returns_secret:
            value = self._with_secrets(value, limit)
        try:
            return encode(value, limit=limit, field="result")
        except UntypedKey as odd:
            stored = encode(value, limit=limit, field="result", typed_keys=True)
            try:
                comes_back = self.decode_result(stored) == value
            except Undecodable:
                comes_back = False
            if not comes_back:
                raise odd from None
            return stored

    def _with_secrets(self, value: object, limit: int) -> Any:
        """The value as the return type says, so that what it calls secret is."""
        try:
            return self.decode_result(encode(value, limit=limit, field="result", typed_keys=True))
        except Undecodable as error:
            raise InvalidJob(error.field, error.problem) from None

    def decode_result(self, stored: bytes) -> Any:
        """The stored result as the return type says. Undecodable if it does not fit."""
        return decode(self._result, stored, "result")

    @property
    def schema(self) -> dict[str, Any]:
        """The JSON schema of the arguments by name."""
        return msgspec.json.schema(self._kind, schema_hook=schema_of)

    @property
    def parameters(self) -> tuple[str, ...]:
        """The names of the parameters, without the context."""
        return self._all

    def bound(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
        """The arguments of a call that fits, by name, with those that it leaves to their defaults."""
        call = self._python.bind(*args, **kwargs)
        call.apply_defaults()
        return call.arguments

    def _bind(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
        """The arguments by name, always in the order of the parameters: equal calls must give equal bytes."""
        if not kwargs and len(args) == len(self._all) and not self._keywords:
            return dict(zip(self._positional, args, strict=True))
        given = dict(zip(self._positional, args, strict=False))
        if (
            len(args) > len(self._positional)
            or not kwargs.keys() <= self._by_name
            or not given.keys().isdisjoint(kwargs)
            or not self._required <= given.keys() | kwargs.keys()
        ):
            raise self._misfit(args, kwargs)
        given.update(kwargs)
        return {name: given[name] for name in self._all if name in given}

    def _misfit(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> InvalidJob:
        try:
            self._python.bind(*args, **kwargs)
        except TypeError as error:
            return InvalidJob("arguments", f"{error}; {self._where} takes {self._shown()}")
        return InvalidJob("arguments", f"they do not fit {self._where}{self._shown()}")

    def _shown(self) -> inspect.Signature:
        """Without the values of defaults, of which one may be a secret."""
        shown = [
            each if each.default is each.empty else each.replace(default=_DEFAULT)
            for each in self._python.parameters.values()
        ]
        return self._python.replace(parameters=shown)

    def _hints(self, function: Function, names: Mapping[str, Any] | None) -> dict[str, Any]:
        try:
            return typing.get_type_hints(function, localns=dict(names or {}), include_extras=True)
        except (NameError, AttributeError, TypeError, SyntaxError) as error:
            raise ConfigurationError(
                f"task {self._where}: an annotation cannot be resolved: {error}; define it before the task"
            ) from None

    def _check_parameters(self, parameters: list[inspect.Parameter], hints: dict[str, Any]) -> None:
        for each in parameters:
            if each.kind in _VARIADIC:
                raise ConfigurationError(
                    f"task {self._where}: {each} cannot be checked at enqueue; name the parameters, or take "
                    "a list or a dict"
                )
            if is_context(hints.get(each.name)):
                raise ConfigurationError(f"task {self._where}: Context must be the first parameter")

    def _struct(self, parameters: list[inspect.Parameter], hints: dict[str, Any]) -> Any:
        fields: list[tuple[str, Any, Any]] = []
        for index, each in enumerate(parameters):
            kind = hints.get(each.name, Any)
            if each.default is each.empty:
                fields.append((f"p{index}", kind, msgspec.field()))
            else:
                # A factory gives back the very object that a plain call would use.
                fields.append((f"p{index}", kind, msgspec.field(default_factory=_giver(each.default))))
        return msgspec.defstruct(
            "Arguments",
            fields,
            rename={f"p{index}": each.name for index, each in enumerate(parameters)},
            forbid_unknown_fields=True,
            kw_only=True,
        )

    def _compile(self, kind: Any, part: str) -> msgspec.json.Decoder[Any]:
        try:
            return decoder(kind)
        except (TypeError, ValueError, NameError, RecursionError) as error:
            raise ConfigurationError(
                f"task {self._where}: {part} cannot be stored as JSON: {error}"
            ) from None


def _giver(value: object) -> Callable[[], object]:
    return lambda: value


def is_context(annotation: object) -> bool:
    kind = cast(object, typing.get_origin(annotation)) or annotation
    return isinstance(kind, type) and getattr(kind, "__holdfast_context__", False) is True
