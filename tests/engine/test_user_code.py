"""Whatever user code does is one failed attempt, and never ends the worker."""

import asyncio
import contextvars
import functools
from typing import Any

import pytest

from holdfast.engine.context import Context
from holdfast.model.errors import LeaseLost
from holdfast.model.lifecycle import State
from holdfast.model.retry import Never
from holdfast.model.task import RunIn
from tests.engine.rig import Rig


class Unshowable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text")


class Exiting(Exception):
    def __str__(self) -> str:
        raise SystemExit(3)


def recurse() -> None:
    recurse()


ERRORS: dict[str, Any] = {
    "exception": ValueError("wrong"),
    "system exit": SystemExit(1),
    "keyboard interrupt": KeyboardInterrupt(),
    "generator exit": GeneratorExit(),
    "stop iteration": StopIteration(1),
    "stop async iteration": StopAsyncIteration(),
    "cancelled": asyncio.CancelledError(),
    "timeout": TimeoutError(),
    "lease lost": LeaseLost("so it says"),
    "text that raises": Unshowable(),
    "text that exits": Exiting(),
    "group": ExceptionGroup("several", [ValueError("one"), ExceptionGroup("more", [OSError("two")])]),
    "base group": BaseExceptionGroup("several", [KeyboardInterrupt()]),
    "NUL": ValueError("a\x00b"),
    "surrogate": ValueError("a\ud800b"),
    "long": ValueError("x" * 1_000_000),
    "lines": ValueError("one\ntwo\r\nthree"),
}


@pytest.mark.parametrize("run_in", ["async", "thread"])
@pytest.mark.parametrize("name", ERRORS)
async def test_whatever_a_handler_raises_is_one_failed_attempt(name: str, run_in: RunIn) -> None:
    async def raises_async() -> None:
        raise ERRORS[name]

    def raises_blocking() -> None:
        raise ERRORS[name]

    rig = Rig(concurrency=1)
    bad = rig.task(raises_async if run_in == "async" else raises_blocking, retry=Never())
    good = rig.task(_good)
    jobs = await rig.add(bad), await rig.add(good)
    assert await rig.drain() == 0
    record = await rig.job(jobs[0])
    assert (record.state, record.failures, record.run) == (State.DLQ, 1, 1)
    assert record.reason is not None
    record.reason.encode()
    assert "\x00" not in record.reason + (record.error or "")
    assert "\n" not in record.reason
    assert len(record.reason) < 400
    assert len((record.error or "").encode()) <= rig.settings.error_bytes
    assert await rig.state(jobs[1]) is State.SUCCESS


async def _good() -> int:
    return 1


@pytest.mark.parametrize("run_in", ["async", "thread"])
async def test_a_recursion_without_end_is_one_failed_attempt(run_in: RunIn) -> None:
    async def recurse_async() -> None:
        recurse()

    rig = Rig()
    job = await rig.add(rig.task(recurse_async if run_in == "async" else recurse, retry=Never()))
    assert await rig.drain() == 0
    assert (await rig.job(job)).reason == "RecursionError: maximum recursion depth exceeded"


RESULTS: dict[str, Any] = {
    "object": object(),
    "not a number": float("nan"),
    "NUL": "a\x00",
    "surrogate": "\udfff",
    "too large": "x" * 3_000_000,
    "too deep": functools.reduce(lambda inner, _: [inner], range(80), list[Any]()),
    "a big integer": 2**70,
}


@pytest.mark.parametrize("run_in", ["async", "thread"])
@pytest.mark.parametrize("name", RESULTS)
async def test_a_result_that_cannot_be_stored_is_a_failure_that_says_so(name: str, run_in: RunIn) -> None:
    async def gives_async() -> Any:
        return RESULTS[name]

    def gives_blocking() -> Any:
        return RESULTS[name]

    rig = Rig()
    job = await rig.add(rig.task(gives_async if run_in == "async" else gives_blocking, retry=Never()))
    assert await rig.drain() == 0
    record = await rig.job(job)
    assert record.state is State.DLQ
    assert (record.reason or "").startswith("TypeError: the result cannot be stored: result")


@pytest.mark.parametrize("keep_result", [True, False])
@pytest.mark.parametrize("run_in", ["async", "thread"])
async def test_a_handler_that_gives_back_a_coroutine_has_not_done_its_work(
    run_in: RunIn, keep_result: bool
) -> None:
    def wrapped() -> Any:
        return _good()

    async def wrapped_async() -> Any:
        return _good()

    rig = Rig()
    function = wrapped_async if run_in == "async" else wrapped
    job = await rig.add(rig.task(function, keep_result=keep_result, retry=Never()))
    assert await rig.drain() == 0
    record = await rig.job(job)
    assert record.state is State.DLQ
    assert "returned a coroutine" in (record.reason or "")


@pytest.mark.parametrize("run_in", ["async", "thread"])
async def test_context_variables_of_one_job_are_not_seen_by_the_next(run_in: RunIn) -> None:
    variable: contextvars.ContextVar[str] = contextvars.ContextVar("variable", default="unset")

    def look() -> str:
        before = variable.get()
        variable.set("set by a job")
        return before

    async def look_async() -> str:
        return look()

    rig = Rig(concurrency=1)
    task = rig.task(look_async if run_in == "async" else look)
    jobs = [await rig.add(task) for _ in range(5)]
    variable.set("set outside")
    await rig.drain()
    assert [(await rig.job(job)).result for job in jobs] == [b'"unset"'] * 5


async def test_a_listener_that_raises_harms_nobody() -> None:
    rig = Rig()

    def listener(notice: object) -> None:
        raise ValueError("my own fault")

    rig.notices.listen(listener)
    job = await rig.add(rig.task(_good))
    assert await rig.drain() == 0
    assert await rig.state(job) is State.SUCCESS


async def test_a_waiter_that_raises_harms_nobody() -> None:
    class Gone:
        def settled(self, record: object) -> None:
            raise RuntimeError("the loop is closed")

    rig = Rig()
    task = rig.task(_good)
    jobs = [await rig.add(task) for _ in range(3)]
    assert await rig.worker(results=Gone()).run(until_idle=True) == 0
    assert {await rig.state(job) for job in jobs} == {State.SUCCESS}


class Strict:
    """A type of the user's own, whose validator fails with anything but a ValueError."""

    @classmethod
    def model_validate(cls, value: object) -> "Strict":
        if value == "bad":
            raise KeyError("not among the known ones")
        return cls()


async def test_a_validator_that_raises_anything_fails_its_job_and_no_other() -> None:
    async def takes(value: Strict) -> None: ...

    rig = Rig()
    task = rig.task(takes, retry=Never())
    session = await rig.memory.connect("default")
    bad, good = (rig.call(rig.task(_any, name=name), value) for name, value in [("a", "bad"), ("b", "fine")])
    jobs = []
    for call in (bad, good):
        new = call.to_new_job("00000000-0000-7000-8000-00000000000" + call.definition.name)
        jobs.append(type(new)(id=new.id, task=task.name, queue="default", payload=call.payload))
    await session.jobs.add(jobs)
    assert await rig.drain() == 0
    first, second = [await rig.job(job.id) for job in jobs]
    assert (first.state, first.reason) == (State.DLQ, "KeyError: 'not among the known ones'")
    assert second.state is State.SUCCESS


async def _any(value: Any) -> None: ...


async def test_a_payload_that_does_not_fit_and_a_damaged_row_are_dead_lettered_as_undecodable() -> None:
    async def takes(value: int) -> None: ...

    rig = Rig()
    task = rig.task(takes)
    jobs = [await rig.add(task, 1) for _ in range(3)]
    shelf = rig.memory._shelves["default"]
    shelf.jobs[jobs[0]].payload = b'{"value": "text"}'
    shelf.jobs[jobs[1]].damaged = "headers: \x00 not JSON"
    assert await rig.drain() == 0
    records = [await rig.job(job) for job in jobs]
    assert [record.state for record in records] == [State.DLQ, State.DLQ, State.SUCCESS]
    assert [record.reason for record in records[:2]] == [
        "undecodable: arguments.value: Expected `int`, got `str`",
        "undecodable: row: headers: \\x00 not JSON",
    ]


async def test_progress_and_children_come_from_the_context() -> None:
    async def child() -> None: ...

    rig = Rig(lease_seconds=60, heartbeat_seconds=0.1)
    child_task = rig.task(child)
    said, told = asyncio.Event(), asyncio.Event()

    async def parent(ctx: Context) -> str:
        with pytest.raises(ValueError, match="between 0 and 1"):
            ctx.progress(float("nan"))
        ctx.progress(0.5, "half\x00way\n" + "x" * 1000)
        said.set()
        await told.wait()
        return ctx.enqueue(rig.call(child_task))

    job = await rig.add(rig.task(parent))
    async with rig.serving():
        await said.wait()
        # One may be under way that has not heard of it.
        await rig.seen.wait("heartbeat", count=len(rig.seen.of("heartbeat", held=1)) + 2, held=1)
        record = await rig.job(job)
        assert record.progress == 0.5
        assert (record.progress_note or "").startswith("half\\x00way x")
        told.set()
        await rig.seen.wait("settled", count=2)
    result = (await rig.job(job)).result
    assert result is not None
    assert await rig.state(result.decode().strip('"')) is State.SUCCESS


async def test_children_of_a_failed_attempt_are_not_added() -> None:
    rig = Rig()
    child_task = rig.task(_good)

    async def parent(ctx: Context) -> None:
        ctx.enqueue(rig.call(child_task))
        raise ValueError

    await rig.add(rig.task(parent, retry=Never()))
    await rig.drain()
    assert {notice.facts["record"].task for notice in rig.seen.of("settled")} == {"parent"}


async def test_what_is_no_call_cannot_be_enqueued_by_a_handler() -> None:
    async def parent(ctx: Context) -> None:
        given: Any = _good
        ctx.enqueue(given)

    rig = Rig()
    job = await rig.add(rig.task(parent, retry=Never()))
    await rig.drain()
    assert str((await rig.job(job)).reason).startswith("InvalidJob: call: <function _good")


async def test_a_handler_sees_its_job_running_wherever_it_runs() -> None:
    async def on_the_loop(ctx: Context) -> str:
        return ctx.job.state

    def on_a_thread(ctx: Context) -> str:
        return ctx.job.state

    rig = Rig()
    jobs = [await rig.add(rig.task(each)) for each in (on_the_loop, on_a_thread)]
    assert await rig.drain() == 0
    assert [(await rig.job(job)).result for job in jobs] == [b'"running"'] * 2
