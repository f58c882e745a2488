"""Messages become jobs: one each, however often they come, and none is lost."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest
from confluent_kafka import KafkaError, Producer

from holdfast import Holdfast
from holdfast.kafka import KafkaRelay, KafkaSource
from holdfast.model.errors import IdConflict, OutcomeUnknown, StoreUnavailable
from holdfast.model.events import EventRecord
from holdfast.model.lifecycle import State
from holdfast.model.records import JobRecord, NewJob, Query, Tick
from holdfast.store import Session
from holdfast.stores.memory import MemoryStore
from holdfast.testing.conformance.case import LONG, ended, wanted, worker_record
from tests.chaos.waiting import until, until_async
from tests.kafka.cluster import FETCH, OFFSET_COMMIT, Cluster
from tests.kafka.support import committed, config, ids, told_of

QUICK_GROUP = {"heartbeat_interval_ms": 50, "session_timeout_ms": 2_000}
"""The mock lets a group that was left be joined only after its session timeout."""

Enqueue = Callable[[Sequence[NewJob]], Awaitable[object]]


class Crash(Exception):
    """Ends a source as a kill would: at once, with nothing committed."""


def to_job(event: EventRecord) -> NewJob:
    return NewJob(id="to be replaced", task="send", queue="mail", payload=event.data, fresh=True)


def a_source(cluster: Cluster, enqueue: Enqueue, **given: Any) -> KafkaSource:
    arguments: dict[str, Any] = {"enqueue": enqueue, "to_job": to_job, "group": "billing"} | given
    return KafkaSource(config(cluster, **QUICK_GROUP), ["orders"], **arguments)


@asynccontextmanager
async def opened() -> AsyncIterator[Session]:
    store = MemoryStore()
    session = await store.connect("shop")
    try:
        yield session
    finally:
        await session.close()
        await store.close()


@asynccontextmanager
async def running(source: KafkaSource) -> AsyncIterator["asyncio.Task[None]"]:
    task = asyncio.ensure_future(source.run())
    try:
        yield task
    finally:
        task.cancel()
        await asyncio.wait([task])


async def relayed(cluster: Cluster, events: Sequence[EventRecord]) -> None:
    async with KafkaRelay(cluster.servers) as relay:
        await relay.handle(events)


async def stored(session: Session) -> list[JobRecord]:
    return await session.jobs.find(Query(limit=1_000))


async def until_stored(session: Session, count: int) -> None:
    await until_async(lambda: stored(session), f"{count} jobs are stored", lambda found: len(found) >= count)


async def until_committed(cluster: Cluster, count: int, group: str = "billing") -> None:
    async def done() -> int:
        return await asyncio.to_thread(committed, cluster, group)

    await until_async(done, f"{count} messages are committed", lambda found: found == count)


async def test_each_event_becomes_one_job_under_its_id_and_is_then_committed(cluster: Cluster) -> None:
    events = told_of(keys=4, each=10)
    await relayed(cluster, events)
    async with opened() as session:
        async with running(a_source(cluster, session.jobs.add)):
            await until_committed(cluster, len(events))
        jobs = await stored(session)
        assert {job.id: job.payload for job in jobs} == {event.id: event.data for event in events}


async def test_a_batch_that_was_relayed_twice_gives_its_jobs_once(cluster: Cluster) -> None:
    events = told_of(keys=4, each=5)
    for _ in range(2):  # as after a crash between acknowledgement and offset
        await relayed(cluster, events)
    async with opened() as session:
        async with running(a_source(cluster, session.jobs.add)):
            await until_committed(cluster, 2 * len(events))
        assert sorted(job.id for job in await stored(session)) == sorted(ids(events))


async def test_nothing_is_committed_before_its_jobs_are_stored(cluster: Cluster) -> None:
    await relayed(cluster, told_of(keys=2, each=5))
    seen: list[int] = []
    async with opened() as session:

        async def enqueue(jobs: Sequence[NewJob]) -> object:
            assert not any(job.fresh for job in jobs), "a store would not look for them among finished jobs"
            seen.append(len(await stored(session)) - await asyncio.to_thread(committed, cluster, "billing"))
            return await session.jobs.add(jobs)

        async with running(a_source(cluster, enqueue, batch=3)):
            await until_committed(cluster, 10)
    assert len(seen) >= 4
    assert min(seen) >= 0


async def test_a_crash_after_storing_brings_the_messages_again_and_no_second_job(cluster: Cluster) -> None:
    events = told_of(keys=4, each=5)
    await relayed(cluster, events)
    async with opened() as session:

        async def crashing(jobs: Sequence[NewJob]) -> None:
            await session.jobs.add(jobs)
            raise Crash

        with pytest.raises(Crash):
            await a_source(cluster, crashing).run()
        assert committed(cluster, "billing") == 0
        assert await stored(session)
        async with running(a_source(cluster, session.jobs.add)):
            await until_committed(cluster, len(events))
        assert sorted(job.id for job in await stored(session)) == sorted(ids(events))


async def test_a_crash_before_storing_loses_nothing(cluster: Cluster) -> None:
    events = told_of(keys=4, each=5)
    await relayed(cluster, events)

    async def crashing(jobs: Sequence[NewJob]) -> None:
        raise Crash

    with pytest.raises(Crash):
        await a_source(cluster, crashing).run()
    async with opened() as session, running(a_source(cluster, session.jobs.add)):
        await until_stored(session, len(events))


async def test_a_finished_job_is_not_made_again(cluster: Cluster) -> None:
    events = told_of(keys=1, each=3)
    await relayed(cluster, events)
    async with opened() as session:
        async with running(a_source(cluster, session.jobs.add)):
            await until_committed(cluster, 3)
        await session.fleet.register(worker_record("ann"), LONG)
        claimed = await session.jobs.tick(Tick(worker="ann", seq=1, moves=[], want=wanted("mail", limit=10)))
        moves = [ended(job) for job in claimed.claimed]
        await session.jobs.tick(Tick(worker="ann", seq=2, moves=moves))
        await relayed(cluster, events)
        async with running(a_source(cluster, session.jobs.add)):
            await until_committed(cluster, 6)
        assert [job.state for job in await stored(session)] == [State.SUCCESS] * 3


async def test_messages_of_other_producers_have_constant_ids_too(cluster: Cluster) -> None:
    other = Producer({"bootstrap.servers": cluster.servers})
    for number in range(10):
        other.produce("orders", str(number).encode(), f"key-{number}".encode())
    other.flush(10)
    async with opened() as session:
        for group in ("one", "two"):  # the second reads everything again
            async with running(a_source(cluster, session.jobs.add, group=group)):
                await until_committed(cluster, 10, group)
        assert sorted(job.payload for job in await stored(session)) == [
            b"%d" % number for number in range(10)
        ]


@pytest.mark.parametrize("error", [StoreUnavailable("down"), OutcomeUnknown("lost")])
async def test_an_outage_of_the_store_is_waited_out(cluster: Cluster, error: Exception) -> None:
    events = told_of(keys=1, each=5)
    await relayed(cluster, events)
    failures = [error, error]
    async with opened() as session:

        async def enqueue(jobs: Sequence[NewJob]) -> object:
            answers = await session.jobs.add(jobs)
            if failures:
                raise failures.pop()
            return answers

        async with running(a_source(cluster, enqueue)):
            await until_committed(cluster, 5)
        assert not failures
        assert sorted(job.id for job in await stored(session)) == sorted(ids(events))


async def test_members_that_come_and_go_lose_nothing_and_double_nothing(cluster: Cluster) -> None:
    parts = [told_of(keys=6, each=5) for _ in range(3)]
    calls = {"first": 0, "second": 0}
    async with opened() as session:

        def counted(name: str) -> Enqueue:
            async def enqueue(jobs: Sequence[NewJob]) -> object:
                calls[name] += 1
                return await session.jobs.add(jobs)

            return enqueue

        await relayed(cluster, parts[0])
        async with running(a_source(cluster, counted("second"), batch=4)):
            await until(lambda: calls["second"], "the one reads")
            async with running(a_source(cluster, counted("first"), batch=4)):

                async def shared() -> bool:
                    await relayed(cluster, told_of(keys=6, each=1))
                    return calls["first"] > 0

                await until_async(shared, "the other takes part")
                await relayed(cluster, parts[1])
            await relayed(cluster, parts[2])
            wanted_ids = {event.id for part in parts for event in part}

            async def missing() -> set[str]:
                return wanted_ids - {job.id for job in await stored(session)}

            await until_async(missing, "everything is stored", lambda found: not found)
        found = [job.id for job in await stored(session)]
        assert len(found) == len(set(found))


async def test_brokers_that_are_away_for_a_while_lose_nothing(cluster: Cluster) -> None:
    first, second = told_of(keys=4, each=5), told_of(keys=4, each=5)
    await relayed(cluster, first)
    async with opened() as session:
        async with running(a_source(cluster, session.jobs.add)):
            await until_stored(session, len(first))
            cluster.down()
            cluster.up()
            await relayed(cluster, second)
            await until_committed(cluster, len(first) + len(second))
        assert sorted(job.id for job in await stored(session)) == sorted(ids([*first, *second]))


async def test_a_commit_that_failed_is_sent_again(cluster: Cluster) -> None:
    events = told_of(keys=1, each=1)
    await relayed(cluster, events)
    cluster.fail(OFFSET_COMMIT, [KafkaError.GROUP_AUTHORIZATION_FAILED])
    async with opened() as session, running(a_source(cluster, session.jobs.add)):
        await until_committed(cluster, len(events))


async def test_fetches_that_fail_are_sent_again(cluster: Cluster) -> None:
    events = told_of(keys=1, each=5)
    await relayed(cluster, events)
    cluster.fail(FETCH, [KafkaError.NOT_LEADER_FOR_PARTITION, KafkaError._TRANSPORT] * 2)
    async with opened() as session, running(a_source(cluster, session.jobs.add)):
        await until_stored(session, len(events))


async def test_a_message_that_makes_no_job_is_passed_over(cluster: Cluster) -> None:
    events = told_of(keys=1, each=4)
    await relayed(cluster, events)

    def some(event: EventRecord) -> NewJob | None:
        return to_job(event) if event.id in ids(events[2:]) else None

    async with opened() as session:
        async with running(a_source(cluster, session.jobs.add, to_job=some)):
            await until_committed(cluster, 4)
        assert sorted(job.id for job in await stored(session)) == sorted(ids(events[2:]))


async def test_a_call_of_a_task_is_stored_under_the_id_of_the_event(cluster: Cluster) -> None:
    events = told_of(keys=1, each=2)
    await relayed(cluster, events)
    app = Holdfast("memory://")

    @app.task(queue="mail")
    async def send(aggregate: str | None) -> None: ...

    async with opened() as session:
        calling = a_source(cluster, session.jobs.add, to_job=lambda event: send.call(event.aggregate))
        async with running(calling):
            await until_stored(session, len(events))
        found = await stored(session)
    assert sorted(job.id for job in found) == sorted(ids(events))
    assert {(job.task, job.queue) for job in found} == {("send", "mail")}


async def test_a_message_that_cannot_be_read_is_named_and_stays(cluster: Cluster) -> None:
    await relayed(cluster, told_of(keys=1, each=1))

    def refusing(event: EventRecord) -> NewJob:
        raise Crash(event.id)

    async with opened() as session:
        with pytest.raises(Crash) as caught:
            await a_source(cluster, session.jobs.add, to_job=refusing).run()
    assert any("orders[" in note and "offset 0" in note for note in caught.value.__notes__)
    assert committed(cluster, "billing") == 0


async def test_two_uses_of_one_event_need_a_scope_each(cluster: Cluster) -> None:
    events = told_of(keys=1, each=3)
    await relayed(cluster, events)

    def other_job(event: EventRecord) -> NewJob:
        return NewJob(id=event.id, task="print", queue="mail", payload=event.data)

    async with opened() as session:
        async with running(a_source(cluster, session.jobs.add)):
            await until_committed(cluster, 3)
        with pytest.raises(IdConflict, match="scope"):
            await a_source(cluster, session.jobs.add, group="print", to_job=other_job).run()
        for group in ("print", "again"):
            scoped = a_source(cluster, session.jobs.add, group=group, to_job=other_job, scope="print")
            async with running(scoped):
                await until_committed(cluster, 3, group)
        assert sorted(job.task for job in await stored(session)) == ["print"] * 3 + ["send"] * 3


async def test_an_application_gets_the_jobs(cluster: Cluster) -> None:
    app = Holdfast("memory://")
    seen: list[int] = []

    @app.task
    async def bill(number: int) -> None:
        seen.append(number)

    [event] = told_of(keys=1, each=1)
    await relayed(cluster, [event])
    source = KafkaSource(
        config(cluster, **QUICK_GROUP),
        ["orders"],
        "billing",
        enqueue=app,
        to_job=lambda message: bill.call(msgspec.json.decode(message.data)),
    )
    async with app, app.worker(), running(source):
        await until_async(lambda: app.find(state="success"), "its job is done")
    assert seen == [msgspec.json.decode(event.data)]
