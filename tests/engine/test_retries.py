"""What follows a failure; a strategy is user code too."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from holdfast.model.lifecycle import State
from holdfast.model.retry import Again, ByException, Custom, Failure, Fixed, Immediate, Never, Retry
from holdfast.model.timing import FAR, SECOND
from tests.engine.rig import Rig


def failing(error: BaseException) -> Callable[[], Any]:
    async def fails() -> None:
        raise error

    return fails


class Strategy:
    """Answers with whatever it was made with, or raises it."""

    def __init__(self, answer: Any) -> None:
        self._answer = answer

    def decide(self, failure: Failure, random: float) -> Again | None:
        if isinstance(self._answer, BaseException):
            raise self._answer
        answer: Again | None = self._answer
        return answer


class Afterless:
    after = 1.0

    def __repr__(self) -> str:
        return "Afterless()"


@pytest.mark.parametrize(
    "answer",
    [
        ValueError("broken"),
        SystemExit(1),
        KeyboardInterrupt(),
        "soon",
        5,
        True,
        Again(float("nan")),
        Again(float("inf")),
        Again("later"),  # type: ignore[arg-type]
        Afterless(),
    ],
    ids=repr,
)
async def test_a_strategy_that_raises_or_gives_nonsense_ends_the_job_with_a_reason(answer: Any) -> None:
    rig = Rig()
    job = await rig.add(rig.task(failing(OSError("disk")), retry=Strategy(answer)))
    assert await rig.drain() == 0
    record = await rig.job(job)
    assert (record.state, record.failures) == (State.DLQ, 1)
    assert (record.reason or "").startswith("OSError: disk; not retried, because its retry strategy failed: ")


@pytest.mark.parametrize(
    ("after", "delay"),
    [(2.5, 2_500_000), (-5, 0), (1e30, FAR), (timedelta(seconds=3), 3_000_000)],
    ids=str,
)
async def test_a_strange_but_clear_wait_is_taken_at_its_word(after: Any, delay: int) -> None:
    rig = Rig()
    job = await rig.add(rig.task(failing(OSError()), retry=Strategy(Again(after))))
    async with rig.serving():
        notice = await rig.seen.wait("settled", job=job)
    assert notice.facts["move"].delay == delay


async def test_a_stored_strategy_that_cannot_be_read_means_no_retry() -> None:
    rig = Rig()
    job = await rig.add(rig.task(failing(OSError("disk"))), retry=Fixed(3))
    rig.memory._shelves["default"].jobs[job].retry = b"\xff nonsense"
    assert await rig.drain() == 0
    record = await rig.job(job)
    assert (record.state, record.reason) == (State.DLQ, "OSError: disk")


async def test_a_strategy_stored_with_the_job_comes_before_that_of_the_task() -> None:
    rig = Rig()
    job = await rig.add(rig.task(failing(OSError()), retry=Never()), retry=Fixed(3, wait=7))
    await rig.drain()
    assert await rig.state(job) is State.RETRY
    rig.clock.advance(7)
    await rig.drain()
    assert (await rig.job(job)).failures == 2


async def test_a_handler_can_ask_to_be_tried_again_and_say_whether_it_counts() -> None:
    rig = Rig()
    errors = [Retry(60, count=False, reason="busy"), Retry(30), ValueError("at last")]

    async def asks() -> None:
        raise errors.pop(0)

    job = await rig.add(rig.task(asks, retry=Fixed(1, wait=5)))
    await rig.drain()
    first = await rig.job(job)
    assert (first.state, first.failures, first.reason) == (State.RETRY, 0, "Retry: busy")
    assert first.due == rig.clock() + 60 * SECOND
    rig.clock.advance(60)
    await rig.drain()
    second = await rig.job(job)
    assert (second.state, second.failures, second.due) == (State.RETRY, 1, rig.clock() + 30 * SECOND)
    rig.clock.advance(30)
    await rig.drain()
    last = await rig.job(job)
    assert (last.state, last.failures, last.run) == (State.DLQ, 2, 3)


async def test_immediate_retries_without_limit_and_leaves_the_due_time() -> None:
    rig = Rig()
    runs = 0

    async def tries() -> None:
        nonlocal runs
        runs += 1
        if runs <= 20:
            raise ValueError(runs)

    job = await rig.add(rig.task(tries, retry=Immediate()))
    due = (await rig.job(job)).due
    await rig.drain()
    record = await rig.job(job)
    assert (record.state, record.run, record.failures, record.due) == (State.SUCCESS, 21, 0, due)


async def test_rules_by_exception_see_the_real_exception() -> None:
    rig = Rig()
    by_type = ByException({OSError: Fixed(3, wait=9)}, Never())
    jobs = [
        await rig.add(rig.task(failing(error), name=name, retry=by_type))
        for name, error in {"a": FileNotFoundError(), "b": ValueError()}.items()
    ]
    await rig.drain()
    assert [await rig.state(job) for job in jobs] == [State.RETRY, State.DLQ]


async def test_a_custom_function_decides() -> None:
    rig = Rig()
    custom = Custom(lambda failure: 1.5 if failure.failures < 2 else None)
    job = await rig.add(rig.task(failing(OSError()), retry=custom))
    await rig.drain()
    rig.clock.advance(1.5)
    await rig.drain()
    assert (await rig.job(job)).state is State.DLQ


async def test_a_task_may_opt_out_of_the_dead_letter_queue() -> None:
    rig = Rig()
    job = await rig.add(rig.task(failing(OSError()), retry=Never(), dead_letter=False))
    await rig.drain()
    assert await rig.state(job) is State.FAILED
