"""The types of `@app.task`: what each kind of handler becomes."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping, Sequence
from collections.abc import Set as AbstractSet
from datetime import date, time, timedelta
from decimal import Decimal
from enum import Enum
from typing import Any, ClassVar, Concatenate, ParamSpec, Protocol, TypeAlias, TypeVar, overload
from uuid import UUID

import msgspec

from holdfast.engine.context import Context
from holdfast.task import DecoratedTask


class _Dataclass(Protocol):
    __dataclass_fields__: ClassVar[dict[str, Any]]


class _Pydantic(Protocol):
    def model_dump(self) -> Any: ...


Storable: TypeAlias = (
    bool
    | int
    | float
    | str
    | bytes
    | date
    | time
    | timedelta
    | UUID
    | Decimal
    | Enum
    | Sequence[Any]
    | Mapping[Any, Any]
    | AbstractSet[Any]
    | msgspec.Struct
    | _Dataclass
    | _Pydantic
    | None
)
"""What a plain handler may return. No coroutine is among it, so an async handler fits one overload only."""

P = ParamSpec("P")
T = TypeVar("T")
R = TypeVar("R")
S = TypeVar("S")
V = TypeVar("V", bound=Storable)


class TaskDecorator(Protocol):
    """Takes async and plain functions, with or without a context as first parameter."""

    @overload
    def __call__(
        self, function: Callable[Concatenate[Context[S], P], Coroutine[Any, Any, T]], /
    ) -> DecoratedTask[P, T, Concatenate[Context[S], P], Coroutine[Any, Any, T]]: ...

    @overload
    def __call__(
        self, function: Callable[P, Coroutine[Any, Any, T]], /
    ) -> DecoratedTask[P, T, P, Coroutine[Any, Any, T]]: ...

    @overload
    def __call__(
        self, function: Callable[Concatenate[Context[S], P], V], /
    ) -> DecoratedTask[P, V, Concatenate[Context[S], P], V]: ...

    @overload
    def __call__(self, function: Callable[P, V], /) -> DecoratedTask[P, V, P, V]: ...


class ForgetfulDecorator(Protocol):
    """The same with `keep_result=False`: whatever the function returns, its jobs have no result."""

    @overload
    def __call__(
        self, function: Callable[Concatenate[Context[S], P], R], /
    ) -> DecoratedTask[P, None, Concatenate[Context[S], P], R]: ...

    @overload
    def __call__(self, function: Callable[P, R], /) -> DecoratedTask[P, None, P, R]: ...
