from collections.abc import Callable
from datetime import timedelta

import pytest

from holdfast import (
    ConfigurationError,
    Custom,
    Exponential,
    Failure,
    Fixed,
    Holdfast,
    Linear,
    Retry,
    RetryStrategy,
)


def minutes(failure: Failure) -> timedelta:
    return timedelta(minutes=failure.failures)


@pytest.mark.parametrize(
    ("strategy", "waits"),
    [
        (Exponential(base=timedelta(minutes=1), cap=timedelta(minutes=3), jitter=0), [60, 120, 180]),
        (Linear(step=timedelta(minutes=1), cap=timedelta(seconds=90), jitter=0), [60, 90, 90]),
        (Fixed(wait=timedelta(minutes=1)), [60, 60, 60]),
        (Custom(minutes), [60, 120, 180]),
    ],
)
async def test_a_strategy_takes_its_durations_as_timedelta(strategy: RetryStrategy, waits: list[int]) -> None:
    app = Holdfast("memory://")

    @app.task(retry=strategy)
    async def fail() -> None:
        raise ValueError

    async with app.testing() as testing:
        await fail.enqueue()
        for wait in waits:
            await testing.drain()
            testing.advance(timedelta(seconds=wait - 1))
            await testing.drain()
            assert [each.state for each in testing.jobs(fail)] == ["retry"]
            testing.advance(1)
        await testing.drain()
        assert [each.run for each in testing.jobs(fail)] == [4]


async def test_a_strategy_with_timedeltas_can_be_stored_with_one_job() -> None:
    app = Holdfast("memory://")

    @app.task
    async def fail() -> None:
        raise ValueError

    async with app.testing() as testing:
        await fail.using(retry=Fixed(max_retries=1, wait=timedelta(hours=1))).enqueue()
        await testing.drain()
        testing.advance(timedelta(hours=1))
        await testing.drain()
        [job] = testing.jobs(fail)
        assert (job.state, job.run) == ("dlq", 2)


async def test_the_other_durations_are_taken_as_timedelta_too() -> None:
    app = Holdfast("memory://")
    second = timedelta(seconds=1)

    @app.task(timeout=second, lease=second)
    async def later(first: bool) -> None:
        if first:
            raise Retry(after=second)

    async with app.testing() as testing:
        job = await later.using(delay=second, key="k", key_ttl=second, timeout=second, lease=second).enqueue(
            True
        )
        await app.edit(job.id, version=job.version, delay=2 * second)
        testing.advance(second)
        await testing.drain()
        assert [each.run for each in testing.jobs(later)] == [0]
        testing.advance(second)
        await testing.drain()
        assert [each.state for each in testing.jobs(later)] == ["retry"]
        with pytest.raises(TimeoutError):
            await job.result(timeout=timedelta(milliseconds=1))


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: Exponential(base=timedelta(seconds=-1)),
        lambda: Exponential(max_retries=2.5),  # type: ignore[arg-type]
        lambda: Exponential(factor=timedelta(seconds=2)),  # type: ignore[arg-type]
        lambda: Fixed(wait="soon"),  # type: ignore[arg-type]
    ],
)
def test_what_is_no_duration_or_no_count_is_refused(wrong: Callable[[], object]) -> None:
    with pytest.raises(ConfigurationError, match=r"retry\.\w+: .* is not a .*number from 0 to 1e9"):
        wrong()
