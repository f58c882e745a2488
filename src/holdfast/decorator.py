"""The types of `@app.task`: what each kind of handler becomes."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping, Sequence
from collections.abc import Set as AbstractSet
from datetime import date, time, timedelta
from decimal import Decimal
from enum import Enum
from typing import Any, ClassVar, Concatenate, ParamSpec, Protocol, TypeAlias, TypedDict, TypeVar, overload
from uuid import UUID

import msgspec

from holdfast.engine.context import Context
from holdfast.model.limits import Limit
from holdfast.model.options import OnFailure
from holdfast.model.retry import RetryStrategy
from holdfast.model.secret import Secret
from holdfast.model.task import RunIn
from holdfast.model.timing import Seconds
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
    | Secret[Any]
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


class TaskOptions(TypedDict, total=False):
    """What `@app.task(...)` takes beside `keep_result`; `define` has the defaults."""

    name: str | None
    aliases: Sequence[str]
    queue: str
    priority: int
    retry: RetryStrategy | None
    timeout: Seconds | None
    lease: Seconds | None
    run_in: RunIn | None
    dead_letter: bool
    limit: Limit | None
    key_limit: Limit | None
    limit_by: str | None
    fair_by: str | None
    sequence_by: str | None
    on_failure: OnFailure | None
    expires: Seconds | None


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
