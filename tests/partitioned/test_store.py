"""Jobs are found wherever they are; what is spread is told as one; what fails is told as it is."""

import asyncio
from contextvars import Context

import pytest

from holdfast import OutcomeUnknown, StoreUnavailable
from holdfast.engine.limits import Limits
from holdfast.model.errors import ConfigurationError, InvalidEvent, InvalidJob, PartlyStored
from holdfast.model.events import NewEvent
from holdfast.model.flow import NewFlow, Scope
from holdfast.model.partition import stamped, tag_of
from holdfast.model.records import LockWish, NewJob, Query
from holdfast.model.timing import SECOND
from holdfast.store import Partitioned, PartitionedSession
from holdfast.stores import open_store
from holdfast.stores.memory import MemoryStore
from holdfast.stores.partitioned import PartitionedStore
from holdfast.testing.conformance.case import new_id, new_job
from tests.partitioned.support import NAMES, made_of, memory_layout, switched


def three(**queues: str) -> PartitionedStore:
    return made_of(
        {name: MemoryStore() for name in NAMES}, **{f"in-{name}": name for name in NAMES}, **queues
    )


def fresh(queue: str) -> NewJob:
    return new_job(queue=queue, fresh=True)


async def test_a_partitioned_store_and_its_sessions_say_that_they_are() -> None:
    store = three()
    assert isinstance(store, Partitioned)
    session = await store.connect("n")
    assert isinstance(session, PartitionedSession)
    assert not isinstance(MemoryStore(), Partitioned)


async def test_a_fresh_job_gets_an_id_that_tells_where_it_is() -> None:
    store = three()
    session = await store.connect("n")
    jobs = session.placed([fresh(f"in-{name}") for name in NAMES])
    await session.jobs.add(jobs)
    assert [session.layout.of_id(job.id) for job in jobs] == list(NAMES)
    for job, name in zip(jobs, NAMES, strict=True):
        part = await store.parts[name].connect("n")
        assert await part.jobs.get(job.id) is not None


async def test_a_job_is_read_from_its_own_partition_only_if_its_id_tells_it() -> None:
    switches, store = switched()
    session = await store.connect("n")
    [job] = session.placed([fresh("in-a")])
    await session.jobs.add([job])
    switches["b"].fail()
    switches["c"].fail()
    assert (await session.jobs.get(job.id)) is not None
    assert await session.jobs.history(job.id) == []


async def test_an_id_of_the_users_own_is_found_wherever_it_is() -> None:
    session = await three().connect("n")
    jobs = [new_job(queue=f"in-{name}") for name in NAMES]
    await session.jobs.add(jobs)
    assert [each is not None for each in await session.jobs.states([job.id for job in jobs])] == [True] * 3
    assert await session.jobs.get(new_id()) is None


async def test_a_job_that_may_be_where_nobody_answers_is_not_said_to_be_gone() -> None:
    switches, store = switched()
    session = await store.connect("n")
    switches["b"].fail()
    with pytest.raises(StoreUnavailable, match="partition b: the server is away"):
        await session.jobs.get(new_id())


async def test_an_id_that_tells_a_partition_by_chance_is_found_all_the_same() -> None:
    session = await three().connect("n")
    job = new_job(queue="in-a", id=stamped(new_id(), tag_of("a")))
    part = (await session.each(lambda part: part.jobs.count())).keys()
    assert set(part) == set(NAMES)
    await session.parts["c"].jobs.add([job])
    assert await session.jobs.get(job.id) is not None
    assert await session.locate([job.id]) == {job.id: "c"}


async def test_a_repeat_finds_the_first_job_though_the_rule_has_changed() -> None:
    stores = {name: MemoryStore() for name in NAMES}
    before = await made_of(stores, mail="a").connect("n")
    after = await made_of(stores, mail="b").connect("n")
    job = new_job(queue="mail")
    [first] = await before.jobs.add([job])
    [again] = await after.jobs.add([job])
    assert (first.created, again.created, again.conflict) == (True, False, None)
    assert await after.locate([job.id]) == {job.id: "a"}


async def test_a_key_is_held_in_its_partition() -> None:
    session = await three(other="a").connect("n")
    keyed = {"key": "order-42", "key_ttl": 60 * SECOND}
    [first] = await session.jobs.add([new_job(queue="in-a", **keyed)])
    [same] = await session.jobs.add([new_job(queue="other", **keyed)])
    [elsewhere] = await session.jobs.add([new_job(queue="in-b", **keyed)])
    assert (same.record.id, elsewhere.created) == (first.record.id, True)


async def test_jobs_that_wait_for_others_go_to_them() -> None:
    session = await three().connect("n")
    first, second = new_job(queue="in-a"), new_job(queue="in-b")
    await session.jobs.add([first, second])
    behind = new_job(queue="in-c", flow=NewFlow(after=(first.id,)))
    await session.jobs.add([behind])
    assert await session.locate([behind.id]) == {behind.id: "a"}
    awaited = await session.flow.awaited(behind.id)
    assert awaited is not None
    assert awaited.pending == 1
    with pytest.raises(InvalidJob, match="linked to jobs of the partitions a, b"):
        await session.jobs.add([new_job(queue="in-c", flow=NewFlow(after=(first.id, second.id)))])


async def test_pages_of_all_partitions_go_on_behind_one_cursor() -> None:
    session = await three().connect("n")
    jobs = [new_job(queue=f"in-{NAMES[number % 3]}") for number in range(25)]
    await session.jobs.add(jobs)
    found: list[str] = []
    cursor: str | None = None
    while page := await session.jobs.find(Query(cursor=cursor, limit=4)):
        found += [record.id for record in page]
        cursor = found[-1]
    assert found == sorted((job.id for job in jobs), reverse=True)


async def test_events_of_all_partitions_are_listed_once_each_behind_one_position() -> None:
    session = await three().connect("n")
    events = [NewEvent(id=new_id(), topic=f"topic-{number % 9}", type="t", data=b"1") for number in range(40)]
    for event in events:
        await session.events.append([event])
    assert len({session.layout.of_topic(event.topic) for event in events}) == 3
    found: list[str] = []
    after = 0
    while records := (page := await session.events.read(after, 7)).records:
        found += [record.id for record in records]
        after = page.upto
    assert sorted(found) == sorted(event.id for event in events)
    assert after == await session.events.last()


async def test_a_batch_is_stored_in_all_partitions_that_answer_and_the_rest_is_named() -> None:
    switches, store = switched()
    session = await store.connect("n")
    jobs = session.placed([fresh(f"in-{name}") for name in (*NAMES, "a")])
    switches["b"].fail()
    with pytest.raises(PartlyStored, match="3 of 4 are stored; partition b: the server is away") as raised:
        await session.jobs.add(jobs)
    assert isinstance(raised.value, OutcomeUnknown)
    assert raised.value.stored == (jobs[0].id, jobs[2].id, jobs[3].id)
    assert raised.value.missing == (jobs[1].id,)
    switches["b"].come_back()
    again = await session.jobs.add(jobs)
    assert [each.created for each in again] == [False, True, False, False]


async def test_nothing_stored_is_no_unknown_outcome() -> None:
    switches, store = switched()
    session = await store.connect("n")
    switches["b"].fail()
    with pytest.raises(StoreUnavailable, match="partition b"):
        await session.jobs.add([fresh("in-b")])


async def test_what_is_read_over_all_fails_unless_it_may_be_incomplete() -> None:
    switches, store = switched()
    session = await store.connect("n")
    await session.jobs.add([new_job(queue=f"in-{name}") for name in NAMES])
    switches["c"].fail()
    with pytest.raises(StoreUnavailable, match="partition c"):
        await session.jobs.count()
    with session.tolerating() as missing:
        assert len(await session.jobs.find(Query())) == 2
        assert {line.queue for line in await session.jobs.count()} == {"in-a", "in-b"}
        assert missing == {"c": "partition c: the server is away"}
        # That is a matter of who asked for it, not of everybody.
        others = asyncio.get_running_loop().create_task(session.fleet.workers(), context=Context())
        with pytest.raises(StoreUnavailable):
            await others
    with pytest.raises(StoreUnavailable):
        await session.fleet.workers()


async def test_a_session_is_opened_though_a_partition_is_away_and_has_it_when_it_is_back() -> None:
    switches, store = switched()
    switches["b"].fail()
    session = await store.connect("n")
    woken: list[int] = []
    stop = session.wakeups.listen(lambda: woken.append(1))
    with pytest.raises(StoreUnavailable, match="partition b"):
        await session.jobs.add(session.placed([fresh("in-b")]))
    switches["b"].come_back()
    await session.jobs.add(session.placed([fresh("in-b")]))
    await session.jobs.add(session.placed([fresh("in-b")]))
    assert woken
    stop()
    await session.close()


async def test_no_session_is_opened_when_nobody_answers() -> None:
    switches, store = switched()
    for switch in switches.values():
        switch.fail()
    with pytest.raises(StoreUnavailable):
        await store.connect("n")


async def test_a_pause_that_reached_only_some_says_so_and_can_be_repeated() -> None:
    switches, store = switched()
    session = await store.connect("n")
    switches["b"].fail()
    with pytest.raises(OutcomeUnknown, match="queue mail is paused in a, c only; partition b"):
        await session.fleet.pause("mail")
    switches["b"].come_back()
    await session.fleet.pause("mail")
    assert [queue.paused for queue in await session.fleet.queues()] == [True]


async def test_a_limit_that_reached_only_some_is_given_to_the_others_when_it_is_set_again() -> None:
    store = three()
    session = await store.connect("n")
    limits = Limits(lambda: session)
    await limits.set(key="ann", concurrency=1)
    parts = [await store.parts[name].connect("n") for name in NAMES]
    await parts[-1].flow.remove(Scope.KEY, "ann")
    await limits.set(key="ann", concurrency=1)
    for part in parts:
        assert [limit.concurrency for limit in await part.flow.limits()] == [1]


async def test_locks_are_all_at_home() -> None:
    switches, store = switched()
    session = await store.connect("n")
    switches["b"].fail()
    switches["c"].fail()
    for name in ("one", "two", "three", "four"):
        assert (await session.locks.acquire(LockWish(name=name, owner="me", ttl=SECOND))).token is not None


async def test_events_of_several_partitions_cannot_be_stored_with_jobs_in_one_commit() -> None:
    session = await three().connect("n")
    topics = {session.layout.of_topic(f"topic-{number}"): f"topic-{number}" for number in range(9)}
    assert len(topics) == 3
    events = [NewEvent(id=new_id(), topic=topic, type="t", data=b"1") for topic in topics.values()]
    with pytest.raises(InvalidEvent, match="one commit"):
        await session.events.append(events, [new_job()])
    job = new_job(queue="in-c")
    [added] = await session.events.append(events[:1], [job])
    assert added.created
    assert await session.locate([job.id]) == {job.id: session.layout.of_topic(events[0].topic)}


async def test_the_facts_are_those_of_each_partition_and_name_the_one_that_is_away() -> None:
    switches, store = switched()
    switches["b"].fail()
    facts = await store.facts()
    assert facts["a.engine"] == facts["c.engine"] == "memory"
    assert facts["a.state"] == "open"
    assert [fact for name, fact in facts.items() if name.startswith("warning")] == [
        "partition b: it does not answer: the server is away"
    ]


def test_the_setting_of_a_partition_that_is_wrong_is_named_without_its_secret() -> None:
    with pytest.raises(ConfigurationError, match="partition b") as raised:
        open_store("partition://?a=memory://a&b=nothing%3A%2F%2Fme%3As3cret%40host%2Fdb")
    assert "s3cret" not in str(raised.value)


def test_a_store_without_open_partitions_is_refused() -> None:
    with pytest.raises(ConfigurationError):
        memory_layout("a", draining=("a",))
