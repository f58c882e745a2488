"""What type checkers must see behind `@app.task`; read by mypy and pyright, never run."""

# pyright: strict, reportUnnecessaryTypeIgnoreComment=true

from collections.abc import Coroutine
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Any, assert_type

from holdfast import CancelAnswer, Context, Exponential, Holdfast, Job, Page, Secret, Task, WorkerInfo
from holdfast.model.task import Call

app = Holdfast("memory://", lease_seconds=30, state={"pool": 1})


@dataclass
class State:
    pool: int


@app.task
async def add(a: int, b: int = 2) -> int:
    return a + b


@app.task
def shout(text: str, *, times: int = 1) -> str:
    return text * times


@app.task(name="report", queue="slow", retry=Exponential(max_retries=5), timeout=60)
def report(ctx: Context, day: date) -> None:
    ctx.progress(0.5, f"half of {day}")


@app.task(lease=timedelta(minutes=1), run_in="async")
async def stateful(ctx: Context[State], day: date) -> list[int]:
    assert_type(ctx.state, State)
    return [ctx.state.pool, day.year]


@app.task
async def loose(values: dict[str, Any]) -> bool:
    return bool(values)


@app.task(keep_result=False)
async def forgetful(ctx: Context, day: date) -> object:
    return ctx.run + day.year


async def calls_stay_plain(ctx: Context, day: date) -> None:
    coroutine = assert_type(add(1, b=2), Coroutine[Any, Any, int])
    assert_type(await coroutine, int)
    assert_type(shout("x", times=3), str)
    assert_type(report(ctx, day), None)
    await add("x")  # type: ignore[arg-type]
    shout("x", 3)  # type: ignore[call-arg]


async def jobs_carry_the_result(day: date) -> None:
    assert_type(await add.enqueue(1, b=2), Job[int])
    assert_type(await (await add.enqueue(1)).result(timeout=10), int)
    assert_type(await shout.enqueue("x"), Job[str])
    assert_type(shout.enqueue_sync("x", times=2), Job[str])
    assert_type(app.sync.result(shout.enqueue_sync("x")), str)
    assert_type(await report.enqueue(day), Job[None])
    assert_type(await stateful.enqueue(day), Job[list[int]])
    assert_type(await loose.enqueue({"x": 1}), Job[bool])
    assert_type(await forgetful.enqueue(day), Job[None])
    assert_type(await add.using(delay=3, tags=["x"]).enqueue(1), Job[int])
    assert_type(await add.enqueue_in(object(), 1, b=2), Job[int])
    assert_type(report.enqueue_in_sync(object(), day), Job[None])
    assert_type(add.call(1), Call)
    by_position: Task[[int, int], int] = add.using(priority=1)
    assert_type(await by_position.enqueue(1, 2), Job[int])


async def wrong_arguments_are_errors(day: date) -> None:
    await add.enqueue("1")  # type: ignore[arg-type]
    await add.enqueue()  # type: ignore[call-arg]
    await add.enqueue(1, c=3)  # type: ignore[call-arg]
    await add.using(delay="soon").enqueue(1)  # type: ignore[arg-type]
    add.call(1, "2")  # type: ignore[arg-type]
    add.enqueue_sync(None)  # type: ignore[arg-type]
    await report.enqueue("today")  # type: ignore[arg-type]
    await report.enqueue(day, day)  # type: ignore[call-arg]
    await loose.enqueue([1])  # type: ignore[arg-type]
    app.task(run_in="fibre")  # type: ignore[call-overload]
    Holdfast(lease_second=3)  # type: ignore[call-arg]


async def the_application_is_typed(job: Job[int]) -> None:
    assert_type(await app.get(job.id), Job[Any] | None)
    page = await app.find(state="dlq", queue="q", limit=50)
    assert_type(page, Page)
    assert_type(page[0], Job[Any])
    assert_type(page.cursor, str | None)
    assert_type(await app.cancel(job.id), CancelAnswer)
    assert_type(await app.edit(job.id, version=3, priority=1), Job[Any])
    assert_type(await app.workers(), list[WorkerInfo])
    assert_type(await app.enqueue_many([add.call(1), shout.call("x")]), list[Job[Any]])
    assert_type(await app.dlq.replay(queue="q"), int)
    await app.edit(job.id, version="3")  # type: ignore[arg-type]


def the_blocking_face_is_typed(job: Job[int]) -> None:
    assert_type(app.sync.get(job.id), Job[Any] | None)
    assert_type(app.sync.find(state="dlq", limit=5), Page)
    assert_type(app.sync.cancel(job.id), CancelAnswer)
    assert_type(app.sync.dlq.replay(queue="q"), int)
    assert_type(app.sync.queues.pause("q"), None)
    assert_type(app.sync.result(job, timeout=3), int)
    app.sync.find(limit="5")  # type: ignore[arg-type]


@app.task
async def charge(card: Secret[str], limits: Secret[list[int]] | None = None) -> Secret[int]:
    assert_type(card.reveal(), str)
    return Secret(len(card.reveal()))


@app.task
def charge_now(card: Secret[str]) -> Secret[str]:
    return card


async def secrets() -> None:
    job = await charge.enqueue(Secret("4111"), limits=Secret([1]))
    assert_type(job, Job[Secret[int]])
    assert_type((await job.result()).reveal(), int)
    assert_type(await charge_now.enqueue(Secret("4111")), Job[Secret[str]])
    narrow: Secret[bool] = Secret(True)
    wider: Secret[int] = narrow
    assert_type(wider.reveal() + 1, int)
    await charge.enqueue("4111")  # type: ignore[arg-type]
    await charge.enqueue(Secret(4111))  # type: ignore[arg-type]
