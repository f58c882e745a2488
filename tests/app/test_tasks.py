import sys
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any
from uuid import UUID

import pytest

from holdfast import Holdfast
from holdfast.model.errors import ConfigurationError, InvalidJob
from holdfast.model.options import NO_OPTIONS, Options
from holdfast.model.retry import Custom, Exponential, Never, decode_retry
from holdfast.model.settings import Settings
from holdfast.model.task import CLOSING, Call, Registry, define

HOSTILE = [
    "",
    "x" * 201,
    "x" * 300,
    "quo'te",
    'quo"te',
    "co:lon",
    "bra{ce}",
    "line\nend",
    "nul\0",
    "right\u202eleft",
    "spa ce",
    "-minus",
    "ünicode",
    "\ud800",
    5,
    None,
    b"bytes",
]


async def waits(a: int) -> int:
    return a


def works(a: int) -> int:
    return a


def yields() -> Iterator[int]:
    yield 1


async def yields_later() -> AsyncIterator[int]:
    yield 1


def test_a_task_is_called_like_its_function_and_runs_where_it_can() -> None:
    assert (define(waits).name, define(waits).run_in) == ("waits", "async")
    assert (define(works).name, define(works).run_in) == ("works", "thread")
    assert define(works, run_in="process").run_in == "process"
    assert define(waits, run_in="process").run_in == "process"


def test_defaults_are_those_of_the_documentation() -> None:
    task = define(works)
    assert (task.queue, task.priority, task.timeout, task.lease) == ("default", 0, None, None)
    assert task.retry is None
    assert Settings().retry_strategy == Exponential(max_retries=3, base=2.0)
    assert task.keep_result
    assert task.dead_letter


@pytest.mark.parametrize(
    ("function", "options", "words"),
    [
        (waits, {"run_in": "thread"}, "run_in: 'thread' does not fit; an async function"),
        (works, {"run_in": "async"}, "run_in: 'async' does not fit; a plain function"),
        (works, {"run_in": "fibre"}, "run_in"),
        (works, {"priority": 32_768}, "priority: 32768"),
        (works, {"priority": True}, "priority: True"),
        (works, {"timeout": -1}, "timeout: -1"),
        (works, {"timeout": 0}, "timeout: it must be more than 0"),
        (works, {"timeout": "soon"}, "timeout: 'soon'"),
        (works, {"lease": 0.001}, "lease: 0.001"),
        (works, {"queue": "a b"}, "queue"),
        (works, {"aliases": "old"}, "aliases: give a list"),
        (works, {"aliases": ["o d"]}, "aliases"),
        (yields, {}, "cannot yield"),
        (yields_later, {}, "cannot yield"),
        (lambda: None, {}, "name: '<lambda>'"),
        (partial(works, 1), {}, "a task is a function"),
        (object(), {}, "a task is a function"),
    ],
)
def test_a_wrong_definition_names_the_function_and_the_option(
    function: Any, options: dict[str, Any], words: str
) -> None:
    with pytest.raises(ConfigurationError) as refusal:
        define(function, **options)
    assert words in str(refusal.value)


@pytest.mark.parametrize("name", HOSTILE[:-1])
def test_hostile_names_are_refused_alike_everywhere(name: Any) -> None:
    if name is not None:
        with pytest.raises(ConfigurationError, match="name: "):
            define(works, name=name)
        for field in ("queue", "key"):
            with pytest.raises(InvalidJob, match=rf"^{field}: "):
                Options.of(**{field: name})
    with pytest.raises(InvalidJob, match=r"^tags: "):
        Options.of(tags=[name])


def test_two_functions_of_one_name_are_refused_and_both_are_named() -> None:
    registry = Registry()
    registry.add(define(works))
    with pytest.raises(ConfigurationError) as refusal:
        registry.add(define(waits, name="works"))
    assert f"{__name__}.works" in str(refusal.value)
    assert f"{__name__}.waits" in str(refusal.value)
    with pytest.raises(ConfigurationError):
        registry.add(define(waits, aliases=["works"]))
    assert registry.find("waits") is None


def test_the_same_function_may_be_defined_again() -> None:
    registry = Registry()
    for _ in range(2):

        def again() -> None:
            raise NotImplementedError

        registry.add(define(again))
    registry.add(define(works))
    registry.add(define(works, queue="other"))
    assert registry.names == {"again", "works", CLOSING.name}


def test_a_registry_finds_by_name_and_alias_and_never_imports() -> None:
    registry = Registry()
    task = define(works, aliases=["older", "oldest"], queue="slow")
    registry.add(task)
    assert registry.find("works") is registry.find("older") is registry.find("oldest") is task
    assert registry.names == {"works", "older", "oldest", CLOSING.name}
    assert registry.queues == ("default", "slow")
    assert list(registry) == [task]
    before = set(sys.modules)
    assert registry.find("antigravity") is None
    assert registry.find("os.system") is None
    assert set(sys.modules) == before


def test_options_become_what_the_store_is_given() -> None:
    at = datetime(2030, 1, 1, tzinfo=UTC)
    task = define(works, queue="slow", priority=5, lease=60)
    payload = task.encode_arguments((1,), {})
    plain = Call(task, payload).to_new_job("the-id")
    assert (plain.id, plain.queue, plain.priority, plain.lease) == ("the-id", "slow", 5, 60_000_000)
    assert (plain.delay, plain.due, plain.key, plain.tags, plain.timeout) == (0, None, None, (), None)
    options = Options.of(
        at=at,
        priority=-3,
        queue="fast",
        key="order-42",
        key_ttl=timedelta(hours=1),
        id=UUID(int=9),
        tags=["a", "b", "a"],
        retry=Never(),
        timeout=2.5,
        lease=30,
    )
    job = Call(task, payload, options).to_new_job("unused")
    assert job.id == str(UUID(int=9))
    assert (job.queue, job.priority, job.due) == ("fast", -3, 1_893_456_000_000_000)
    assert (job.key, job.key_ttl, job.tags) == ("order-42", 3_600_000_000, ("a", "b"))
    assert (job.timeout, job.lease) == (2_500_000, 30_000_000)
    assert job.retry is not None
    assert decode_retry(job.retry) == Never()


def test_a_key_without_a_ttl_is_held_for_the_default() -> None:
    call = Call(define(works), b"{}", Options.of(key="k"), key_ttl=7)
    assert call.to_new_job("x").key_ttl == 7


def test_later_options_go_over_earlier_ones() -> None:
    earlier = Options.of(delay=5, queue="a", tags=["x"])
    at = datetime(2030, 1, 1, tzinfo=UTC)
    both = Options.of(at=at, tags=[]).over(earlier)
    assert (both.delay, both.queue, both.tags) == (None, "a", ())
    assert both.at is not None
    assert Options.of(delay=0).over(both).at is None
    assert Options.of().over(NO_OPTIONS) == NO_OPTIONS


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"delay": 1, "at": datetime(2030, 1, 1, tzinfo=UTC)}, "delay"),
        ({"delay": -1}, "delay"),
        ({"delay": float("nan")}, "delay"),
        ({"delay": timedelta(days=40_000)}, "delay"),
        ({"delay": True}, "delay"),
        ({"at": datetime(2030, 1, 1)}, "at"),  # noqa: DTZ001
        ({"at": "tomorrow"}, "at"),
        ({"priority": -32_769}, "priority"),
        ({"priority": 1.5}, "priority"),
        ({"key_ttl": 5}, "key_ttl"),
        ({"id": "not-a-uuid"}, "id"),
        ({"tags": "x"}, "tags"),
        ({"tags": [f"t{number}" for number in range(21)]}, "tags"),
        ({"retry": Custom(lambda failure: 1)}, "retry"),
        ({"timeout": 0}, "timeout"),
        ({"lease": 0}, "lease"),
    ],
)
def test_a_wrong_option_is_named(options: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidJob) as refusal:
        Options.of(**options)
    assert refusal.value.field == field


async def test_an_argument_may_be_called_self() -> None:
    app = Holdfast("memory://")

    @app.task
    async def bind(self: str) -> str:
        return self

    assert await bind(self="a") == "a"
    async with app.testing() as testing:
        job = await bind.enqueue(self="b")
        await testing.drain()
        assert await job.result(5) == "b"
