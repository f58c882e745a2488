"""Promises of `extend`."""

from typing import Any

from holdfast.model.lifecycle import STARTED, SUCCEEDED, Ending, State
from holdfast.model.records import Edit, Extension, Held, JobRecord, Move
from holdfast.model.timing import SECOND
from holdfast.testing.conformance.case import LEASE, LONG, Case, Promises, ended, new_job, promise


def extension(job: JobRecord, lease: int = LEASE, **fields: Any) -> Extension:
    return Extension(job=job.id, token=job.token, lease=lease, **fields)


class ExtendPromises(Promises):
    """Who keeps a lease, and what is stored along the way."""

    @promise
    async def test_an_extended_lease_outlives_its_first_end(self, case: Case) -> None:
        job = await case.add_and_claim(lease=LEASE)
        for _ in range(3):
            case.advance(1.2)
            assert await case.jobs.extend("ann", [extension(job)]) == [Held.HELD]
        assert await case.jobs.expired(10) == []
        assert (await case.reload(job)).lease_until != job.lease_until

    @promise
    async def test_a_lease_is_never_shortened(self, case: Case) -> None:
        job = await case.add_and_claim(lease=LONG)
        assert await case.jobs.extend("ann", [extension(job, SECOND)]) == [Held.HELD]
        assert (await case.reload(job)).lease_until == job.lease_until

    @promise
    async def test_an_expired_lease_cannot_be_extended(self, case: Case) -> None:
        job = await case.add_and_claim(lease=LEASE)
        case.advance(2.5)
        assert await case.jobs.extend("ann", [extension(job, LONG, elapsed=1, progress=0.5)]) == [Held.LOST]
        assert await case.reload(job) == job
        assert [found.id for found in await case.jobs.expired(10)] == [job.id]

    @promise
    async def test_the_wrong_worker_or_token_loses(self, case: Case) -> None:
        job = await case.add_and_claim()
        wrong = Extension(job=job.id, token=job.token + 1, lease=2 * LONG)
        assert await case.jobs.extend("bob", [extension(job, 2 * LONG)]) == [Held.LOST]
        assert await case.jobs.extend("ann", [wrong]) == [Held.LOST]
        assert await case.reload(job) == job

    @promise
    async def test_an_ended_attempt_or_an_unknown_job_loses(self, case: Case) -> None:
        job = await case.add_and_claim()
        await case.move("ann", ended(job))
        unknown = Extension(job=new_job().id, token=1, lease=LONG)
        assert await case.jobs.extend("ann", [extension(job), unknown]) == [Held.LOST, Held.LOST]

    @promise
    async def test_each_extension_is_answered_on_its_own_in_order(self, case: Case) -> None:
        await case.jobs.add([new_job() for _ in range(3)])
        one, two, three = await case.claim(limit=3)
        await case.move("ann", ended(two))
        three = await ask_to_stop(case, three)
        answers = await case.jobs.extend("ann", [extension(job, 2 * LONG) for job in (three, two, one)])
        assert answers == [Held.CANCEL_ASKED, Held.LOST, Held.HELD]

    @promise
    async def test_a_job_asked_to_stop_keeps_its_lease(self, case: Case) -> None:
        job = await case.add_and_claim(lease=LONG)
        await ask_to_stop(case, job)
        assert await case.jobs.extend("ann", [extension(job, 2 * LONG)]) == [Held.CANCEL_ASKED]
        stored = await case.reload(job)
        assert stored.lease_until is not None
        assert job.lease_until is not None
        assert stored.lease_until > job.lease_until

    @promise
    async def test_a_long_job_is_shown_running_late_without_raising_the_version(self, case: Case) -> None:
        job = await case.add_and_claim()
        case.advance(1)
        await case.jobs.extend("ann", [extension(job, elapsed=400_000)])
        stored = await case.reload(job)
        assert (stored.state, stored.version) == (State.RUNNING, job.version)
        assert stored.started is not None
        assert job.token + 500_000 <= stored.started < job.token + 1_000_000
        await case.move("ann", ended(job, elapsed=1))
        [attempt] = await case.jobs.history(job.id)
        assert attempt.started == stored.started

    @promise
    async def test_without_elapsed_a_claimed_job_stays_claimed(self, case: Case) -> None:
        job = await case.add_and_claim()
        await case.jobs.extend("ann", [extension(job)])
        stored = await case.reload(job)
        assert (stored.state, stored.started) == (State.CLAIMED, None)

    @promise
    async def test_a_running_job_keeps_its_first_start(self, case: Case) -> None:
        job = await case.add_and_claim()
        await case.move("ann", Move(job=job.id, token=job.token, path=STARTED, elapsed=0))
        started = (await case.reload(job)).started
        case.advance(1)
        await case.jobs.extend("ann", [extension(job, elapsed=10)])
        assert (await case.reload(job)).started == started

    @promise
    async def test_progress_is_kept_until_the_next_report(self, case: Case) -> None:
        job = await case.add_and_claim()
        reports: list[tuple[dict[str, Any], tuple[float | None, str | None]]] = [
            ({"progress": 0.25, "progress_note": "begun"}, (0.25, "begun")),
            ({}, (0.25, "begun")),
            ({"progress": 0.5}, (0.5, None)),
            ({"progress_note": "odd"}, (None, "odd")),
        ]
        for report, shown in reports:
            await case.jobs.extend("ann", [extension(job, LEASE, **report)])
            stored = await case.reload(job)
            assert (stored.progress, stored.progress_note) == shown

    @promise
    async def test_progress_stays_with_the_finished_job(self, case: Case) -> None:
        job = await case.add_and_claim()
        await case.jobs.extend("ann", [extension(job, progress=0.9, elapsed=0)])
        await case.move("ann", ended(job, SUCCEEDED, Ending.SUCCESS))
        assert (await case.reload(job)).progress == 0.9


async def ask_to_stop(case: Case, job: JobRecord) -> JobRecord:
    asked = await case.jobs.edit(job.id, (await case.reload(job)).version, Edit(ask_cancel=True))
    assert asked is not None
    return asked
