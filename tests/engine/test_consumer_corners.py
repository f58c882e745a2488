"""What consumers must not stumble over: relays that are down, heads that are gone, long transactions."""

import asyncio
import threading
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace

from holdfast import Context, Event, Fixed, Undeliverable
from holdfast.engine.ids import new_id
from holdfast.model.events import EventRecord
from holdfast.model.progress import Progress, Subscriber, as_write, record_name
from holdfast.model.records import Verdict
from tests.engine.consuming import Desk
from tests.engine.ledgers import GROUP, TOPIC, PostgresBooks, SqliteBooks
from tests.engine.test_consumer_workers import Office


async def test_a_head_without_an_aggregate_that_is_gone_does_not_have_its_neighbour_told_again() -> None:
    desk = Desk(retry=None)
    desk.fails["-1"] = 99
    await desk.emit("-1")
    for _ in range(7):
        await desk.later(100_000)
    session = await desk.rig.memory.connect("default")
    assert await session.events.prune(0, {}, 10) == 1  # as by a DBA, or a store restored from a backup
    await desk.emit("-2", "a1")
    await desk.drain()
    assert await desk.events.replay(GROUP) == 1
    for _ in range(5):
        await desk.later(100_000)
    assert desk.done == ["-2", "a1"]


async def test_a_relay_that_is_down_lets_a_worker_that_runs_until_idle_end() -> None:
    office = Office()

    async def relay(events: Sequence[EventRecord]) -> None:
        raise ConnectionError("down")

    office.app.relay(["orders"], relay)
    async with office.app as app:
        await office.emit("a1")
        running = asyncio.create_task(app.worker().run(until_idle=True))
        done, _ = await asyncio.wait([running], timeout=10)
        running.cancel()
        await asyncio.wait([running])
        assert done


async def test_a_relay_that_names_an_event_of_nobody_is_a_failure_like_others() -> None:
    office = Office()
    calls: list[int] = []

    async def relay(events: Sequence[EventRecord]) -> None:
        calls.append(len(events))
        if len(calls) == 1:
            raise Undeliverable("someone-elses", "too large")

    office.app.relay(["orders"], relay)
    async with office.app as app:
        await office.emit("a1")
        await app.worker().run(until_idle=True)
    assert len(calls) == 2


async def test_a_skip_during_an_attempt_that_is_rolled_back_is_heeded(
    tmp_path: Path,
) -> None:
    books = SqliteBooks(tmp_path)
    loop = asyncio.get_running_loop()
    answers: list[int] = []

    @books.app.on(TOPIC, group=GROUP, retry=Fixed(5, wait=0.1))
    def handle(ctx: Context, event: Event[str]) -> None:
        if event.data == "a2":
            return
        if ctx.run == 2:
            with closing(books.own()) as connection:
                ctx.complete_in_sync(connection)
                connection.rollback()
            skipping = books.app.events.skip(GROUP)
            answers.append(asyncio.run_coroutine_threadsafe(skipping, loop).result(10))
            return
        raise ValueError("poison")

    async with books.app as app, app.worker():
        await books.emit("a1", "a2")
        await books.settled(2)
    assert answers == [1]


async def test_a_worker_that_runs_until_idle_does_not_call_it_done_when_a_consumer_broke_down() -> None:
    office = Office()

    @office.app.on(TOPIC, group=GROUP)
    async def handle(event: Event[str]) -> None:
        office.told.append(event.data)

    async with office.app as app:
        await office.emit("a1")
        broken = as_write(Subscriber(GROUP, TOPIC), Progress(offset=0), None, new_id())
        await app.client.session.schedules.write([replace(broken, state=b"{")])
        with pytest.raises(msgspec.DecodeError):
            await app.worker().run(until_idle=True)
    assert office.told == []


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
@pytest.mark.parametrize("way", ["sync_transaction", "own"])
async def test_a_transaction_that_is_longer_than_the_lease_of_the_lock_commits(
    kind: str, way: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    if kind == "sqlite":
        books: SqliteBooks | PostgresBooks = SqliteBooks(tmp_path, leader_lease_seconds=0.6)
    else:
        books = PostgresBooks(request.getfixturevalue("postgres_url"), leader_lease_seconds=0.6)
    calls: list[str] = []

    def inside(ctx: Context, name: str) -> None:
        calls.append(name)
        threading.Event().wait(1.0)  # blocks on purpose: longer than the lease of the lock

    books.on(way, inside=inside)
    async with books.app as app, app.worker():
        await books.emit("a1", "a2")
        await books.settled(2)
        assert await books.ledger() == ["a1", "a2"]
    assert calls == ["a1", "a2"]


async def test_a_group_that_is_ahead_of_its_log_goes_on_behind_its_end() -> None:
    desk = Desk()
    await desk.emit("a1")
    await desk.drain()
    schedules = (await desk.rig.memory.connect("default")).schedules
    subscriber = Subscriber(GROUP, TOPIC)
    [record] = (await schedules.get([record_name(GROUP, TOPIC)])).records
    ahead = as_write(subscriber, Progress(offset=9, event=new_id()), record, new_id())
    assert await schedules.write([ahead]) == [Verdict.ACCEPTED]
    await desk.drain()
    assert (await desk.info()).offset == 1
    await desk.emit("a2", "b1")
    await desk.drain()
    assert desk.done == ["a1", "a2", "b1"]
