"""What is refused of limits and batches, and by which error."""

from typing import Any

import pytest

from holdfast import ConfigurationError, Holdfast, InvalidJob, JobGone, Limit


@pytest.mark.parametrize(
    "said",
    [
        {},
        {"concurrency": 0},
        {"concurrency": True},
        {"rate": 1.5},
        {"rate": 1, "per": 0},
        {"rate": 1, "per": -1},
        {"rate": 1, "per": "x"},
        {"rate": 1, "burst": 0},
        {"concurrency": 1, "burst": 2},
        {"concurrency": 1, "per": 60},
    ],
)
def test_a_limit_that_says_nothing_or_nonsense_is_refused(said: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError):
        Limit(**said)


async def test_the_job_at_the_end_of_a_batch_has_no_key_of_its_own() -> None:
    app = Holdfast("memory://")

    @app.task
    async def report() -> None: ...

    async with app:
        with pytest.raises(InvalidJob, match="key"):
            app.batch(report.using(key="k").call())


async def test_a_job_that_ends_no_batch_is_no_batch() -> None:
    app = Holdfast("memory://")

    @app.task
    async def alone() -> None: ...

    async with app:
        job = await alone.enqueue()
        with pytest.raises(JobGone, match="no batch"):
            await app.batches.get(job.id)
        with pytest.raises(JobGone, match="no batch"):
            await app.batches.cancel(job.id)
        stored = await app.get(job.id)
        assert stored is not None
        assert stored.state == "scheduled"
