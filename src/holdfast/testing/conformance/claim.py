"""Promises of `tick`: which jobs are claimed, in which order, and how a claimed job looks."""

from holdfast.model.lifecycle import DEAD_LETTERED, REPLAYED, RETRIED, RETURNED, Ending, State
from holdfast.model.records import Edit, Extension, Query
from holdfast.model.timing import SECOND
from holdfast.testing.conformance.case import (
    LEASE,
    LONG,
    QUEUE,
    Case,
    Promises,
    ended,
    new_job,
    promise,
    wanted,
)


class ClaimPromises(Promises):
    """What a claim gives."""

    @promise
    async def test_a_claimed_job_belongs_to_the_worker_for_the_length_of_the_lease(self, case: Case) -> None:
        added = await case.add(priority=4, tags=("x",))
        job = await case.claim_one("ann", lease=LONG)
        assert (job.state, job.worker, job.run, job.version) == (State.CLAIMED, "ann", 1, 2)
        assert job.lease_until is not None
        assert added.created + LONG <= job.lease_until < added.created + LONG + 10 * SECOND
        assert (job.id, job.payload, job.priority, job.tags) == (added.id, b"[1]", 4, ("x",))
        assert await case.reload(job) == job

    @promise
    async def test_the_token_is_at_least_the_stores_clock(self, case: Case) -> None:
        added = await case.add()
        job = await case.claim_one()
        assert added.created <= job.token < added.created + 10 * SECOND

    @promise
    async def test_the_token_grows_with_every_claim_even_at_one_instant(self, case: Case) -> None:
        await case.add()
        tokens: list[int] = []
        for run in range(1, 5):
            job = await case.claim_one()
            assert job.run == run
            tokens.append(job.token)
            await case.move("ann", ended(job, RETURNED, Ending.RELEASED))
        assert tokens == sorted(set(tokens))

    @promise
    async def test_the_token_grows_across_the_dead_letter_queue_and_replay(self, case: Case) -> None:
        job = await case.add_and_claim()
        await case.move("ann", ended(job, DEAD_LETTERED, Ending.FAILED))
        dead = await case.reload(job)
        assert dead.token == job.token
        await case.jobs.edit(job.id, dead.version, Edit(path=REPLAYED))
        again = await case.claim_one("bob")
        assert again.token > job.token
        assert again.run == 2

    @promise
    async def test_a_jobs_own_lease_goes_before_the_wanted_one(self, case: Case) -> None:
        added = await case.add(lease=5 * SECOND)
        job = await case.claim_one(lease=LONG)
        assert job.lease_until is not None
        assert job.lease_until < added.created + LONG
        assert job.lease_until >= added.created + 5 * SECOND

    @promise
    async def test_start_reason_and_progress_of_an_earlier_attempt_are_gone(self, case: Case) -> None:
        job = await case.add_and_claim()
        await case.jobs.extend(
            "ann",
            [
                Extension(
                    job=job.id, token=job.token, lease=LONG, elapsed=0, progress=0.5, progress_note="half way"
                )
            ],
        )
        await case.move(
            "ann", ended(job, RETRIED, Ending.RETRY, delay=0, reason="why", error="trace", failures=1)
        )
        again = await case.claim_one()
        assert (again.started, again.reason, again.progress, again.progress_note) == (None, None, None, None)
        assert (again.failures, again.error) == (1, "trace")

    @promise
    async def test_lowest_priority_number_then_due_time_then_id_is_first(self, case: Case) -> None:
        jobs = [
            new_job(priority=1, due=100),
            new_job(priority=0, due=300),
            new_job(priority=0, due=200),
            new_job(priority=0, due=300),
            new_job(priority=-1, due=900),
        ]
        await case.jobs.add([jobs[index] for index in (3, 0, 1, 4, 2)])
        claimed = [await case.claim_one() for _ in jobs]
        assert [job.id for job in claimed] == [jobs[index].id for index in (4, 2, 1, 3, 0)]

    @promise
    async def test_a_batch_is_claimed_in_the_same_order(self, case: Case) -> None:
        jobs = [new_job(priority=priority, due=100) for priority in (5, 3, 4, 1, 2)]
        await case.jobs.add(jobs)
        claimed = await case.claim(limit=4)
        assert [job.priority for job in claimed] == [1, 2, 3, 4]
        assert [job.priority for job in await case.claim(limit=4)] == [5]

    @promise
    async def test_queues_are_served_in_the_given_order(self, case: Case) -> None:
        await case.jobs.add([new_job(queue=queue, priority=rank) for rank, queue in enumerate("abc")])
        await case.register("ann")
        ticked = await case.tick("ann", want=wanted("c", "a", limit=5))
        assert [job.queue for job in ticked.claimed] == ["c", "a"]
        ticked = await case.tick("ann", want=wanted("c", "a", "b", limit=5))
        assert [job.queue for job in ticked.claimed] == ["b"]

    @promise
    async def test_the_limit_spans_all_queues(self, case: Case) -> None:
        await case.jobs.add([new_job(queue=queue) for queue in "aabb"])
        await case.register("ann")
        ticked = await case.tick("ann", want=wanted("a", "b", limit=3))
        assert [job.queue for job in ticked.claimed] == ["a", "a", "b"]

    @promise
    async def test_only_wanted_tasks_are_claimed(self, case: Case) -> None:
        await case.jobs.add([new_job(task=task, priority=rank) for rank, task in enumerate(["x", "y", "z"])])
        await case.register("ann")
        ticked = await case.tick("ann", want=wanted(tasks=["z", "y"], limit=5))
        assert [job.task for job in ticked.claimed] == ["y", "z"]
        assert (await case.tick("ann", want=wanted(tasks=[], limit=5))).claimed == []
        assert (await case.jobs.find(Query(task="x")))[0].run == 0

    @promise
    async def test_a_tick_that_wants_nothing_claims_nothing(self, case: Case) -> None:
        await case.add()
        await case.register("ann")
        assert (await case.tick("ann")).claimed == []
        assert (await case.tick("ann", want=wanted(limit=0))).claimed == []

    @promise
    async def test_a_job_is_not_claimed_before_it_is_due(self, case: Case) -> None:
        job = await case.add(delay=2 * SECOND)
        assert await case.claim() == []
        case.advance(2.5)
        assert (await case.claim_one()).id == job.id

    @promise
    async def test_a_job_that_becomes_due_late_keeps_its_place_in_the_order(self, case: Case) -> None:
        await case.add(priority=1)
        later = await case.add(priority=0, delay=SECOND)
        case.advance(1.5)
        assert (await case.claim_one()).id == later.id

    @promise
    async def test_next_due_tells_when_the_next_waiting_job_of_the_wanted_queues_is_due(
        self, case: Case
    ) -> None:
        await case.register("ann")
        assert (await case.tick("ann", want=wanted())).next_due is None
        await case.jobs.add(
            [
                new_job(delay=50 * SECOND, task="unknown"),
                new_job(delay=20 * SECOND, queue="unwanted"),
                new_job(delay=30 * SECOND, queue="paused"),
                new_job(delay=60 * SECOND),
            ]
        )
        await case.fleet.pause("paused")
        next_due = (await case.tick("ann", want=wanted(QUEUE, "paused"))).next_due
        assert next_due is not None
        assert 40 * SECOND < next_due <= 50 * SECOND
        assert (await case.tick("ann")).next_due is None

    @promise
    async def test_a_job_that_is_due_already_is_not_the_next_due(self, case: Case) -> None:
        await case.add(task="unknown")
        await case.register("ann")
        assert (await case.tick("ann", want=wanted())).next_due is None

    @promise
    async def test_a_paused_queue_gives_nothing_until_it_is_resumed(self, case: Case) -> None:
        job = await case.add()
        await case.register("ann")
        await case.fleet.pause(QUEUE)
        ticked = await case.tick("ann", want=wanted(QUEUE, "other"))
        assert (ticked.claimed, ticked.paused) == ([], frozenset({QUEUE}))
        await case.fleet.resume(QUEUE)
        ticked = await case.tick("ann", want=wanted(QUEUE, "other"))
        assert ([claimed.id for claimed in ticked.claimed], ticked.paused) == ([job.id], frozenset())

    @promise
    async def test_an_unregistered_worker_claims_nothing(self, case: Case) -> None:
        await case.add()
        ticked = await case.tick("ann", want=wanted())
        assert (ticked.registered, ticked.claimed) == (False, [])

    @promise
    async def test_a_worker_whose_registration_expired_claims_nothing_until_it_beats(
        self, case: Case
    ) -> None:
        job = await case.add()
        await case.register("ann", lease=LEASE)
        case.advance(2.5)
        ticked = await case.tick("ann", want=wanted())
        assert (ticked.registered, ticked.claimed) == (False, [])
        assert await case.fleet.beat("ann", LEASE)
        ticked = await case.tick("ann", want=wanted())
        assert (ticked.registered, [claimed.id for claimed in ticked.claimed]) == (True, [job.id])

    @promise
    async def test_a_retired_worker_claims_nothing_but_its_moves_apply(self, case: Case) -> None:
        await case.add()
        job = await case.add_and_claim(priority=-1)
        await case.fleet.retire("ann")
        ticked = await case.tick("ann", [ended(job)], wanted())
        assert (ticked.registered, ticked.claimed, ticked.verdicts) == (False, [], ["accepted"])
        assert (await case.reload(job)).state is State.SUCCESS

    @promise
    async def test_what_a_claim_gives_is_a_copy_that_cannot_change_the_store(self, case: Case) -> None:
        job = await case.add_and_claim()
        job.token += 1
        job.worker = "eve"
        stored = await case.reload(job)
        assert (stored.token, stored.worker) == (job.token - 1, "ann")
