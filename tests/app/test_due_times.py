"""Each due time is fired once, whatever is done to its schedule meanwhile."""

import asyncio
from datetime import timedelta

import pytest

from holdfast import OutcomeUnknown, StoreUnavailable, at, every
from holdfast.engine.notices import Notice
from holdfast.model.plan import Plan, ScheduleInfo
from tests.app.test_schedules import MINUTE, START, Office, damage


@pytest.fixture
def office() -> Office:
    return Office()


async def test_run_is_one_more_in_the_very_moment_of_a_due_time(office: Office) -> None:
    schedules = office.app.schedules
    async with office.app.testing(START) as testing:
        await schedules.put("often", every(minutes=10), office.report.call(), overlap="allow")
        testing.advance(10 * MINUTE)
        runs = [await schedules.run("often") for _ in range(2)]
        testing.fire_due()
        jobs = [job.id for job in testing.jobs(office.report)]
        assert len(set(jobs)) == 3
        assert set(runs) < set(jobs)


async def test_a_single_time_that_was_fired_is_over_when_it_is_put_again_after_another(
    office: Office,
) -> None:
    schedules, call = office.app.schedules, office.report.call()
    first, second = START + MINUTE, START + 5 * MINUTE
    async with office.app.testing(START) as testing:
        await schedules.put("launch", at(first), call)
        testing.advance(2 * MINUTE)
        await testing.drain()
        (job,) = testing.jobs(office.report)
        assert await office.app.delete(job.id)
        later = await schedules.put("launch", at(second), call)
        assert later.next_due == second
        again = await schedules.put("launch", at(first), call)
        assert again.next_due is None
        await schedules.put("launch", at(second), call)
        testing.advance(4 * MINUTE)
        await testing.drain()
        assert office.dues == [first, second]


async def test_a_single_time_that_has_passed_unfired_is_fired_after_an_edit(office: Office) -> None:
    schedules, call = office.app.schedules, office.report.call()
    async with office.app.testing(START) as testing:
        await schedules.put("launch", at(START + timedelta(days=1)), call)
        await schedules.put("launch", at(START - timedelta(days=1)), call)
        await testing.drain()
        assert office.dues == [START - timedelta(days=1)]


async def test_code_that_replaces_what_it_cannot_read_leaves_it_paused(office: Office) -> None:
    schedules = office.app.schedules
    async with office.app.testing(START) as testing:
        await schedules.pause("often")
        await damage(office, "often", b'"every"', b'"moon"')
        await testing.drain()
        found = await schedules.get("often")
        assert found is not None
        assert found.paused
        testing.advance(20 * MINUTE)
        await testing.drain()
        assert office.dues == []


@pytest.mark.parametrize("error", [StoreUnavailable("gone"), OutcomeUnknown("no answer")], ids=repr)
async def test_a_worker_waits_for_a_store_that_is_away_when_it_declares(
    office: Office, error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    declare, faults = office.app.schedules.declare, [error, error]

    async def seldom(plan: Plan, version: int | None = None) -> ScheduleInfo:
        if faults:
            raise faults.pop()
        return await declare(plan, version)

    monkeypatch.setattr(office.app.schedules, "declare", seldom)
    told: list[Notice] = []
    office.app.notices.listen(told.append)
    async with office.app, asyncio.timeout(20), office.app.worker():
        assert [each.name for each in await office.app.schedules.list()] == ["often"]
    assert faults == []
    assert [notice.kind for notice in told].count("start_failed") == 2
