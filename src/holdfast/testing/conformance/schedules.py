"""Promises about schedules: written only as they were seen, found when it is time, fired with their jobs."""

from typing import Any
from uuid import uuid4

from holdfast.model.lifecycle import CANCELLED_UNSTARTED, DEAD_LETTERED, RETRIED, SUCCEEDED, Ending, State
from holdfast.model.records import Edit, LockWish, Verdict
from holdfast.model.scheduling import Run, ScheduleRecord, Schedules, ScheduleWrite, Term
from holdfast.model.timing import SECOND
from holdfast.store import ScheduleStore, Session
from holdfast.testing.conformance.case import LEASE, LONG, Case, Promises, ended, new_job, promise
from holdfast.testing.conformance.concurrency import on_threads
from holdfast.testing.conformance.optional import is_woken, wakeups_of

ACCEPTED, REFUSED = Verdict.ACCEPTED, Verdict.REFUSED


def schedules_of(session: Session) -> ScheduleStore:
    return session.schedules


def write(name: str = "nightly", version: int = 0, **fields: Any) -> ScheduleWrite:
    told: dict[str, Any] = {"mark": uuid4().hex, "definition": b"{}", "state": b"{}", "look_at": None}
    return ScheduleWrite(name=name, version=version, **{**told, **fields})


async def now_of(case: Case) -> int:
    return (await schedules_of(case.session).get([])).now


async def put(case: Case, *writes: ScheduleWrite) -> None:
    assert await schedules_of(case.session).write(writes) == [ACCEPTED] * len(writes)


async def found(case: Case, name: str = "nightly") -> ScheduleRecord:
    [record] = (await schedules_of(case.session).get([name])).records
    return record


def names(told: Schedules) -> list[str]:
    return [record.name for record in told.records]


class SchedulePromises(Promises):
    """Recurring work."""

    @promise
    async def test_a_schedule_comes_back_as_it_was_written(self, case: Case) -> None:
        first = write(
            "a/b.c@d",
            definition=b'{"a": "\xc3\xa4"}',
            state=b"\x00\xff",
            look_at=2**62,
            job=None,
            waits=False,
        )
        job = new_job()
        second = write("x", look_at=-5, job=job.id, waits=True, jobs=(job,))
        await put(case, first, second)
        told = await schedules_of(case.session).get(["x", "missing", "a/b.c@d"])
        assert [(record.name, record.version) for record in told.records] == [("x", 1), ("a/b.c@d", 1)]
        for record, wrote in zip(told.records, (second, first), strict=True):
            assert record.definition == wrote.definition
            assert record.state == wrote.state
            assert (record.look_at, record.job, record.waits) == (wrote.look_at, wrote.job, wrote.waits)

    @promise
    async def test_a_write_needs_the_version_that_is_stored(self, case: Case) -> None:
        schedules = schedules_of(case.session)
        assert await schedules.write([write(version=1, jobs=(new_job(),))]) == [REFUSED]
        await put(case, write(state=b"one"))
        late, other = new_job(), new_job()
        answers = await schedules.write(
            [write(state=b"zero", jobs=(late,)), write("other", jobs=(other,)), write(version=2)]
        )
        assert answers == [REFUSED, ACCEPTED, REFUSED]
        assert ((await found(case)).state, (await found(case)).version) == (b"one", 1)
        assert await case.jobs.get(late.id) is None
        assert await case.jobs.get(other.id) is not None
        await put(case, write(version=1, state=b"two"))
        assert ((await found(case)).state, (await found(case)).version) == (b"two", 2)

    @promise
    async def test_what_was_seen_before_a_removal_is_not_written_over_its_successor(self, case: Case) -> None:
        schedules = schedules_of(case.session)
        await put(case, write(mark="old"))
        seen = await found(case)
        assert (seen.version, seen.mark) == (1, "old")
        assert await schedules.remove("nightly")
        await put(case, write(mark="new", state=b"new"))
        late = new_job()
        answers = await schedules.write(
            [
                write(version=seen.version, after=seen.mark, state=b"old", jobs=(late,)),
                write("missing", after=seen.mark),
            ]
        )
        assert answers == [REFUSED, REFUSED]
        assert await case.jobs.get(late.id) is None
        assert ((await found(case)).state, (await found(case)).mark) == (b"new", "new")
        for next_ in (write(version=1, after="new"), write(version=2), write(version=3, mark="last")):
            await put(case, next_)
        assert ((await found(case)).version, (await found(case)).mark) == (4, "last")
        assert await schedules.write([write(version=3, mark="last", after="other")]) == [ACCEPTED], "a repeat"

    @promise
    async def test_a_write_that_is_sent_again_is_accepted_and_does_nothing_more(self, case: Case) -> None:
        schedules = schedules_of(case.session)
        job = new_job()
        first = write(jobs=(job,), job=job.id)
        await put(case, first)
        claimed = await case.claim_one()
        await case.move("ann", ended(claimed))
        await case.jobs.delete(job.id)
        assert await schedules.write([first]) == [ACCEPTED]
        assert await case.jobs.get(job.id) is None
        assert (await found(case)).version == 1
        await put(case, write(version=1))
        assert await schedules.write([first]) == [REFUSED]

    @promise
    async def test_jobs_are_added_with_the_write_and_taken_ones_left_out(self, case: Case) -> None:
        taken, keyed = await case.add(), await case.add(key="k", key_ttl=LONG)
        new = new_job(delay=LONG)
        await put(
            case, write(jobs=(new, new_job(id=taken.id, payload=b"[9]"), new_job(key="k", key_ttl=LONG)))
        )
        stored = await case.reload(new.id)
        assert (stored.state, stored.due) == (State.SCHEDULED, stored.created + LONG)
        assert (await case.reload(taken)).payload == taken.payload
        assert (await case.reload(keyed)).payload == keyed.payload
        assert sum(count.count for count in await case.jobs.count()) == 3

    @promise
    async def test_due_ones_come_in_order_up_to_the_limit(self, case: Case) -> None:
        schedules = schedules_of(case.session)
        now = await now_of(case)
        looks = {
            "d": now - 5,
            "b": now - 9,
            "c": now - 9,
            "later": now + LONG,
            "never": None,
            "last": now + 2 * LONG,
        }
        await put(case, *(write(name, look_at=look_at) for name, look_at in looks.items()))
        told = await schedules.due(10)
        assert names(told) == ["b", "c", "d"]
        assert told.next_look == now + LONG - told.now
        told = await schedules.due(2)
        assert (names(told), told.next_look) == (["b", "c"], 0)
        await put(case, write("b", version=1), write("c", version=1, look_at=now + LONG + 7))
        assert names(await schedules.due(10)) == ["d"]
        await put(case, write("later", version=1), write("c", version=2))
        told = await schedules.due(10)
        assert told.next_look == now + 2 * LONG - told.now
        await put(case, write("last", version=1), write("d", version=1))
        assert await schedules.due(10) == Schedules(now=(await schedules.due(10)).now, records=[])

    @promise
    async def test_one_is_due_at_the_very_instant(self, case: Case) -> None:
        at = await now_of(case) + SECOND
        await put(case, write(look_at=at))
        await case.advance_to(at - 1)
        assert names(told := await schedules_of(case.session).due(1)) == []
        assert told.next_look is not None
        await case.advance_to(at)
        assert names(await schedules_of(case.session).due(1)) == ["nightly"]

    @promise
    async def test_one_that_waits_is_due_when_its_job_has_ended_however_it_did(self, case: Case) -> None:
        schedules = schedules_of(case.session)
        for path, outcome in (
            (SUCCEEDED, Ending.SUCCESS),
            (DEAD_LETTERED, Ending.FAILED),
            (CANCELLED_UNSTARTED, Ending.CANCELLED),
        ):
            name, job = outcome.value, new_job()
            await put(case, write(name, job=job.id, waits=True, jobs=(job,)))
            assert name not in names(await schedules.due(9))
            assert (await found(case, name)).run == Run(live=True)
            held = await case.claim_one()
            assert name not in names(await schedules.due(9))
            assert await case.move("ann", ended(held, path, outcome, elapsed=0)) is ACCEPTED
            assert name in names(await schedules.due(9))
            stored = await case.reload(job.id)
            assert (await found(case, name)).run == Run(started=stored.started, finished=stored.finished)
        assert names(await schedules.due(9)) == ["cancelled", "failed", "success"]
        assert len((await schedules.due(2)).records) == 2
        await put(case, write("success", version=1, job=(await found(case, "success")).job))
        assert names(await schedules.due(9)) == ["cancelled", "failed"]

    @promise
    async def test_one_that_waits_for_a_retry_or_a_job_that_was_never_there(self, case: Case) -> None:
        schedules = schedules_of(case.session)
        job = new_job()
        await put(
            case, write(job=job.id, waits=True, jobs=(job,)), write("lost", job=new_job().id, waits=True)
        )
        held = await case.claim_one()
        await case.move("ann", ended(held, RETRIED, Ending.RETRY, delay=LONG, failures=1))
        assert names(await schedules.due(9)) == ["lost"]
        assert (await found(case, "lost")).run in (None, Run())
        stored = await case.reload(job.id)
        assert await case.jobs.edit(job.id, stored.version, Edit(path=(State.RETRY, State.CANCELLED)))
        assert names(await schedules.due(9)) == ["lost", "nightly"]
        assert await case.jobs.delete(job.id)
        assert names(await schedules.due(9)) == ["lost", "nightly"]

    @promise
    async def test_nothing_is_written_without_the_term(self, case: Case) -> None:
        schedules, locks = schedules_of(case.session), case.session.locks
        granted = await locks.acquire(LockWish(name="leader", owner="ann", ttl=LEASE, place=0))
        assert granted.token is not None
        term = Term(lock="leader", owner="ann", token=granted.token)
        assert await schedules.write([write("first")], term) == [ACCEPTED]
        for wrong in (
            Term(lock="leader", owner="bob", token=term.token),
            Term(lock="leader", owner="ann", token=term.token - 1),
            Term(lock="other", owner="ann", token=term.token),
        ):
            job = new_job()
            assert await schedules.write([write(jobs=(job,))], wrong) is None
            assert await case.jobs.get(job.id) is None
        case.advance(2.5)
        assert await schedules.write([write()], term) is None
        again = await locks.acquire(LockWish(name="leader", owner="bob", ttl=LEASE, place=0))
        assert await schedules.write([write()], term) is None
        assert again.token is not None
        await locks.release("leader", "bob", again.token)
        assert await schedules.write([write()], Term(lock="leader", owner="bob", token=again.token)) is None
        assert names(await schedules.list("", 9)) == ["first"]

    @promise
    async def test_removed_ones_are_gone_and_their_jobs_are_not(self, case: Case) -> None:
        schedules = schedules_of(case.session)
        job = new_job()
        await put(case, write(look_at=0, job=job.id, waits=True, jobs=(job,)))
        assert await schedules.remove("nightly") is True
        assert await schedules.remove("nightly") is False
        told = await schedules.due(9)
        assert (told.records, told.next_look) == ([], None)
        assert (await schedules.list("", 9)).records == []
        assert await case.jobs.get(job.id) is not None
        assert await schedules.write([write(version=1)]) == [REFUSED]
        await put(case, write(state=b"new"))
        assert ((await found(case)).version, (await found(case)).state) == (1, b"new")

    @promise
    async def test_they_are_listed_by_name_page_by_page(self, case: Case) -> None:
        schedules = schedules_of(case.session)
        every = ["A", "Z", "a", "b", "b.1", "b/1", "c"]
        await put(case, *(write(name) for name in reversed(every)))
        assert names(await schedules.list("", 99)) == sorted(every)
        assert names(await schedules.list("", 3)) == sorted(every)[:3]
        assert names(await schedules.list(sorted(every)[2], 3)) == sorted(every)[3:6]
        assert names(await schedules.list("c", 3)) == []

    @promise
    async def test_schedules_are_each_namespaces_own(self, case: Case) -> None:
        other = schedules_of(await case.open(f"{case.namespace}-2"))
        await put(case, write(look_at=0))
        assert (await other.list("", 9)).records == []
        assert (await other.due(9)).records == []
        assert await other.remove("nightly") is False
        assert await other.write([write(state=b"theirs")]) == [ACCEPTED]
        assert (await found(case)).state == b"{}"

    @promise
    async def test_of_many_who_saw_the_same_one_writes(self, case: Case) -> None:
        job = new_job()

        async def fire(worker: str) -> int:
            session = await case.store.connect(case.namespace)
            try:
                answers = [
                    await schedules_of(session).write(
                        [write(version=version, state=worker.encode(), jobs=(new_job(id=job.id),))]
                    )
                    for version in range(20)
                ]
                return answers.count([ACCEPTED])
            finally:
                await session.close()

        assert sum(await on_threads(fire)) == 20
        assert (await found(case)).version == 20
        assert sum(count.count for count in await case.jobs.count()) == 1

    @promise
    async def test_whoever_listens_is_woken_by_a_write(self, case: Case) -> None:
        if case.session.wakeups is not None:
            assert await is_woken(
                wakeups_of(case),
                lambda: schedules_of(case.session).write([write(look_at=0, jobs=(new_job(),))]),
            )
