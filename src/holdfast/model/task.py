"""Tasks: handlers by name, with what applies to their jobs; and calls of them, ready to be stored."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias, cast

from holdfast.model.errors import ConfigurationError, InvalidJob
from holdfast.model.flow import LimitRecord, Scope
from holdfast.model.key_rules import NO_KEYS, KeyRules, key_rules
from holdfast.model.limits import Limit
from holdfast.model.names import check_name
from holdfast.model.options import (
    NO_OPTIONS,
    OnFailure,
    Options,
    check_expires,
    check_lease,
    check_on_failure,
    check_priority,
    check_timeout,
    several,
)
from holdfast.model.payload import PAYLOAD_LIMIT
from holdfast.model.records import NewJob
from holdfast.model.retry import RetryStrategy, check_retry
from holdfast.model.signature import Function, Signature
from holdfast.model.timing import Seconds

RunIn: TypeAlias = Literal["async", "thread", "process"]

DEFAULT_QUEUE = "default"
KEY_TTL = 86_400 * 1_000_000


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class TaskDefinition:
    """A handler and what applies to its jobs; durations in microseconds, None where the settings decide.

    With `dead_letter` False a job whose attempts are used up rests as failed, outside the dead-letter queue.
    """

    name: str
    function: Function
    signature: Signature
    run_in: RunIn
    aliases: tuple[str, ...] = ()
    queue: str = DEFAULT_QUEUE
    priority: int = 0
    retry: RetryStrategy | None = None
    timeout: int | None = None
    lease: int | None = None
    keep_result: bool = True
    dead_letter: bool = True
    limit: Limit | None = None
    key_limit: Limit | None = None
    keys: KeyRules = NO_KEYS
    expires: int | None = None

    @property
    def limits(self) -> list[LimitRecord]:
        """What the task says about how many of its jobs may run."""
        said = (Scope.TASK, self.limit), (Scope.EACH_KEY, self.key_limit)
        return [limit.record(scope, self.name, declared=True) for scope, limit in said if limit is not None]

    def options_of(self, options: Options, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Options:
        """The options of a call, with those that the task takes from its arguments, or gives to all."""
        if self.keys is NO_KEYS and self.expires is None:
            return options
        return options.over(Options(expires=self.expires, **self.keys.found(self.signature, args, kwargs)))

    @property
    def takes_context(self) -> bool:
        """Whether the first parameter is the context."""
        return self.signature.takes_context

    @property
    def where(self) -> str:
        return f"{self.function.__module__}.{self.function.__qualname__}"

    def encode_arguments(
        self, args: tuple[Any, ...], kwargs: dict[str, Any], limit: int = PAYLOAD_LIMIT
    ) -> bytes:
        """The call's arguments as stored; InvalidJob names the one that does not fit."""
        return self.signature.encode(args, kwargs, limit)

    def decode_arguments(self, payload: bytes) -> tuple[list[Any], dict[str, Any]]:
        """Stored arguments, ready for the call; Undecodable if they do not fit."""
        return self.signature.decode(payload)

    def encode_result(self, value: object, limit: int) -> bytes:
        return self.signature.encode_result(value, limit)

    def decode_result(self, stored: bytes) -> Any:
        return self.signature.decode_result(stored)


def define(
    function: Function,
    *,
    name: str | None = None,
    aliases: Sequence[str] = (),
    queue: str = DEFAULT_QUEUE,
    priority: int = 0,
    retry: RetryStrategy | None = None,
    timeout: Seconds | None = None,
    lease: Seconds | None = None,
    run_in: RunIn | None = None,
    keep_result: bool = True,
    dead_letter: bool = True,
    limit: Limit | None = None,
    key_limit: Limit | None = None,
    limit_by: str | None = None,
    fair_by: str | None = None,
    sequence_by: str | None = None,
    on_failure: OnFailure | None = None,
    expires: Seconds | None = None,
    names: Mapping[str, Any] | None = None,
) -> TaskDefinition:
    """A definition from what a user wrote, checked; ConfigurationError names what is wrong.

    `names` are names beside the function's globals in which annotations may be found.
    """
    if not inspect.isroutine(function) or not hasattr(function, "__name__"):
        raise ConfigurationError(f"a task is a function, not {function!r}")
    where = f"{function.__module__}.{function.__qualname__}"
    try:
        return TaskDefinition(
            name=check_name(function.__name__ if name is None else name, "name"),
            aliases=tuple(check_name(alias, "aliases") for alias in several(aliases, "aliases")),
            queue=check_name(queue, "queue"),
            priority=check_priority(priority),
            retry=None if retry is None else check_retry(retry),
            timeout=check_timeout(timeout),
            lease=check_lease(lease),
            run_in=_run_in(function, run_in),
            keep_result=keep_result,
            dead_letter=dead_letter,
            function=function,
            signature=(signature := Signature(function, names=names, keeps_result=keep_result)),
            limit=_limit(limit, "limit"),
            key_limit=_limit(key_limit, "key_limit"),
            keys=key_rules(signature, limit_by, fair_by, sequence_by, check_on_failure(on_failure)),
            expires=check_expires(expires),
        )
    except InvalidJob as error:
        raise ConfigurationError(f"task {where}: {error}") from None


class Registry:
    """The tasks of an application, by name and alias. A stored name is looked up here, never imported."""

    def __init__(self) -> None:
        self._by_name: dict[str, TaskDefinition] = {}
        self._limits: dict[tuple[Scope, str], LimitRecord] = {}
        self._names = frozenset({CLOSING.name})

    def add(self, definition: TaskDefinition) -> None:
        """Makes the task known; ConfigurationError if one of its names belongs to another function."""
        for name in (definition.name, *definition.aliases):
            known = self._by_name.get(name)
            if known is not None and not _is_same(known, definition):
                raise ConfigurationError(
                    f"two tasks are called {name!r}: {known.where} and {definition.where}; give one of them "
                    "another name with @app.task(name=...)"
                )
        for name in (definition.name, *definition.aliases):
            self._by_name[name] = definition
        self._names = frozenset({CLOSING.name, *self._by_name})

    def declare(self, limit: LimitRecord) -> None:
        """Makes a limit known that is not a task's own; ConfigurationError if there is one already."""
        place = limit.scope, limit.name
        if self._limits.setdefault(place, limit) != limit:
            raise ConfigurationError(
                f"{limit.scope} {limit.name!r} has two limits; declare one", setting="limit"
            )

    @property
    def limits(self) -> list[LimitRecord]:
        """All limits that are written in code."""
        return [*(limit for each in self for limit in each.limits), *self._limits.values()]

    def find(self, name: str) -> TaskDefinition | None:
        return self._by_name.get(name) or (CLOSING if name == CLOSING.name else None)

    @property
    def names(self) -> frozenset[str]:
        """All names and aliases: what a worker with this registry can run."""
        return self._names

    @property
    def queues(self) -> tuple[str, ...]:
        """The queues that the tasks name, sorted, the default one among them."""
        return tuple(sorted({DEFAULT_QUEUE, *(each.queue for each in self)}))

    def __iter__(self) -> Iterator[TaskDefinition]:
        return iter(dict.fromkeys(self._by_name.values()))


@dataclass(frozen=True, slots=True)
class Call:
    """One job to be: a task, its encoded arguments and options."""

    definition: TaskDefinition
    payload: bytes
    options: Options = NO_OPTIONS
    key_ttl: int = KEY_TTL
    """How long a key is held if the options do not say."""

    def in_batch(self, batch: str) -> Call:
        """The same call, whose job belongs to a batch if that is still waiting for others."""
        return replace(self, options=replace(self.options, before=batch))

    def to_new_job(self, id: str) -> NewJob:
        """The job under this new id, or under the one that the options ask for."""
        definition, options = self.definition, self.options
        if options is NO_OPTIONS:
            return NewJob(
                id=id,
                task=definition.name,
                queue=definition.queue,
                payload=self.payload,
                priority=definition.priority,
                lease=definition.lease,
                fresh=True,
            )
        return NewJob(
            id=options.id or id,
            task=definition.name,
            queue=options.queue or definition.queue,
            payload=self.payload,
            priority=definition.priority if options.priority is None else options.priority,
            due=options.at,
            delay=options.delay or 0,
            key=options.key,
            key_ttl=self.key_ttl if options.key_ttl is None else options.key_ttl,
            tags=options.tags or (),
            lease=options.lease or definition.lease,
            timeout=options.timeout,
            retry=options.retry,
            fresh=options.id is None,
            flow=options.flow,
        )


def check_call(value: object) -> Call:
    """The call itself, or InvalidJob for what is none."""
    if isinstance(value, Call):
        return value
    raise InvalidJob("call", f"{ascii(value)[:60]} is not a call; give what task.call(...) returns")


def check_calls(values: object) -> list[Call]:
    """The same for several."""
    if isinstance(values, Iterable):
        return [check_call(each) for each in cast("Iterable[object]", values)]
    raise InvalidJob("calls", "give a list, for instance [task.call(...)]")


def _limit(value: object, field: str) -> Limit | None:
    if value is not None and not isinstance(value, Limit):
        raise InvalidJob(field, f"{ascii(value)[:60]} is not a Limit, for instance Limit(concurrency=5)")
    return value


def _run_in(function: Function, wanted: str | None) -> RunIn:
    is_async = inspect.iscoroutinefunction(function)
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise InvalidJob("function", "a task returns its result; it cannot yield")
    if wanted is None:
        return "async" if is_async else "thread"
    if wanted == "process":
        return "process"
    if wanted == "async" and is_async:
        return "async"
    if wanted == "thread" and not is_async:
        return "thread"
    kind = "an async function runs in 'async'" if is_async else "a plain function runs in 'thread'"
    raise InvalidJob("run_in", f"{wanted!a} does not fit; {kind} or 'process'")


def _is_same(one: TaskDefinition, other: TaskDefinition) -> bool:
    """Whether both are one function, perhaps defined again by a reload of its module."""
    if one.function is other.function:
        return True
    first, second = getattr(one.function, "__code__", None), getattr(other.function, "__code__", None)
    if first is None or second is None:
        return False
    return (first.co_filename, first.co_firstlineno, first.co_qualname) == (
        second.co_filename,
        second.co_firstlineno,
        second.co_qualname,
    )


async def _nothing() -> None:
    """What is done at the end of a batch that wants nothing done."""


CLOSING = define(_nothing, name="holdfast.batch")
"""The task at the end of a batch for which no other was given; every worker knows it."""


def closing_call(given: Call | None) -> Call:
    """The call at the end of a batch."""
    return Call(CLOSING, CLOSING.encode_arguments((), {})) if given is None else check_call(given)
