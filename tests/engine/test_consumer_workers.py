"""Consumers in workers: one at a time has a group, the next takes over, and all end as their workers do."""

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest

from holdfast import Context, Event, Fixed, Holdfast, Never
from holdfast.engine.notices import Notice
from tests.chaos.waiting import until, until_async
from tests.engine.rig import PATIENCE, Gate, Seen
from tests.engine.stage import turns

TOPIC, GROUP = "orders", "billing"
LOCK = f"holdfast.on:{GROUP}:{TOPIC}"


class Office:
    """An application, and what its handlers were told."""

    def __init__(self, url: str = "memory://", **settings: Any) -> None:
        quick = {"poll_seconds": 0.05, "kill_seconds": 0.2, "grace_seconds": 10}
        self.app = Holdfast(url, **{**quick, **settings})
        self.seen = Seen(self.app.notices)
        self.told: list[str] = []

    async def emit(self, *names: str, topic: str = TOPIC) -> None:
        events = [Event(topic=topic, type="t", data=name, aggregate=name[0]) for name in names]
        await self.app.emit(*events)

    async def heard(self, *names: str) -> None:
        await until(lambda: self.told, f"{names} are told", lambda told: len(told) >= len(names))
        assert self.told == list(names)

    async def offsets(self) -> dict[tuple[str, str], int]:
        return {(info.group, info.topic): info.offset for info in await self.app.events.groups()}

    async def stands_at(self, offset: int) -> None:
        await until_async(self.offsets, f"at {offset}", lambda found: set(found.values()) == {offset})

    async def elected(self, count: int = 1) -> Notice:
        return await self.seen.wait("consumer_elected", count)


@pytest.fixture
def office() -> Office:
    made = Office()

    @made.app.on(TOPIC, group=GROUP, retry=Fixed(3, wait=0))
    async def handle(event: Event[str]) -> None:
        made.told.append(event.data)

    return made


async def test_events_are_told_as_they_come_without_waiting_for_the_next_poll() -> None:
    office = Office(poll_seconds=3600)

    @office.app.on(TOPIC, group=GROUP)
    async def handle(event: Event[str]) -> None:
        office.told.append(event.data)

    async with office.app as app, app.worker():
        await office.elected()
        for number in range(5):
            await office.emit(f"a{number}")
            await until(lambda: len(office.told), "it is told", (number + 1).__eq__)


async def test_of_two_workers_one_consumes_and_the_other_takes_over_when_it_stops(office: Office) -> None:
    async with office.app as app:
        first, second = app.worker(), app.worker()
        async with first:
            await office.elected()
            async with second:
                await office.emit("a1", "a2")
                await office.heard("a1", "a2")
                assert len(office.seen.of("consumer_elected")) == 1
                first.stop()
                notice = await office.elected(2)
                assert notice.facts["worker"] == second.id
                await office.emit("a3")
                await office.heard("a1", "a2", "a3")


async def test_a_worker_that_stops_has_stored_how_far_it_came(office: Office) -> None:
    async with office.app as app:
        async with app.worker():
            await office.emit("a1", "a2", "a3")
            await office.heard("a1", "a2", "a3")
        assert await office.offsets() == {(GROUP, TOPIC): 3}
        async with app.worker():
            await office.emit("a4")
            await office.heard("a1", "a2", "a3", "a4")


async def test_a_group_without_its_lock_is_consumed_again_by_whoever_gets_it(office: Office) -> None:
    async with office.app as app, app.worker():
        await office.elected()
        locks = app.client.session.locks
        for number in range(1, 4):
            holder = await locks.holder(LOCK)
            assert holder is not None
            await locks.release(LOCK, holder.owner, holder.token)
            await office.emit(f"a{number}")
            await office.elected(number + 1)
        await until(lambda: office.told, "the last one is told", lambda told: "a3" in told)
        assert list(dict.fromkeys(office.told)) == ["a1", "a2", "a3"], "in order, by their first appearance"


async def test_two_groups_are_told_apart_and_each_of_everything() -> None:
    office = Office()
    other: list[str] = []

    @office.app.on(TOPIC, group=GROUP)
    async def handle(event: Event[str]) -> None:
        office.told.append(event.data)

    @office.app.on(TOPIC, group="shipping", retry=Never())
    async def ship(event: Event[str]) -> None:
        other.append(event.data)
        if event.data == "a1":
            raise ValueError(event.data)

    async with office.app as app, app.worker():
        await office.emit("a1", "a2", "b1")
        await office.heard("a1", "a2", "b1")
        await until(lambda: other, "the other group", lambda told: told == ["a1", "b1"])
        await office.stands_at(3)
        found = {info.group: len(info.waiting) for info in await app.events.groups()}
        assert found == {GROUP: 0, "shipping": 1}
        assert await app.events.skip("shipping") == 1
        await until(lambda: other, "what follows", lambda told: told == ["a1", "b1", "a2"])


async def test_two_deployments_have_different_topics_of_one_group(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/jobs.db"
    old, new = Office(url), Office(url)

    @old.app.on("orders", group=GROUP)
    async def order(event: Event[str]) -> None:
        old.told.append(event.data)

    @new.app.on("returns", group=GROUP)
    async def come_back(event: Event[str]) -> None:
        new.told.append(event.data)

    async with old.app as app, new.app as other, app.worker(), other.worker():
        await old.emit("a1", topic="orders")
        await old.emit("a2", topic="returns")
        await new.emit("a3", topic="orders")
        await old.heard("a1", "a3")
        await new.heard("a2")


async def test_a_group_whose_handler_comes_back_goes_on_where_it_stood(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/jobs.db"
    office, without = Office(url), Office(url)

    @office.app.on(TOPIC, group=GROUP, start="last")
    async def handle(event: Event[str]) -> None:
        office.told.append(event.data)

    async with office.app as app:
        await office.emit("a0")
        await app.worker().run(until_idle=True)
        await office.emit("a1")
        await app.worker().run(until_idle=True)
        async with without.app as other:
            await without.emit("a2", "b1")
            await other.worker().run(until_idle=True)
            assert [info.offset for info in await other.events.groups()] == [2]
        await app.worker().run(until_idle=True)
    assert office.told == ["a1", "a2", "b1"]


async def test_a_worker_that_runs_until_it_is_idle_drains_jobs_and_events_both_ways() -> None:
    office = Office()
    app = office.app

    @app.task
    async def work(ctx: Context, left: int) -> None:
        office.told.append(f"job {left}")
        ctx.emit(Event(topic=TOPIC, type="t", data=left, aggregate="a"))

    @app.on(TOPIC, group=GROUP)
    async def handle(ctx: Context, event: Event[int]) -> None:
        office.told.append(f"event {event.data}")
        if event.data:
            ctx.enqueue(work.call(event.data - 1))
        ctx.emit(Event(topic="echo", type="t", data=event.data))

    @app.on("echo", group="a")
    def echo(event: Event[int]) -> None:
        office.told.append(f"echo {event.data}")

    async with app:
        await work.enqueue(2)
        assert await app.worker().run(until_idle=True) == 0
    assert sorted(office.told) == sorted(f"{what} {n}" for what in ("job", "event", "echo") for n in range(3))


async def test_until_idle_leaves_what_is_to_be_tried_later_and_what_another_consumes(office: Office) -> None:
    gate = Gate()

    @office.app.on("slow", group=GROUP)
    async def slow(event: Event[str]) -> None:
        await gate.pass_async()

    @office.app.on("later", group=GROUP, retry=Fixed(3, wait=3600))
    async def later(event: Event[str]) -> None:
        raise ValueError(event.data)

    async with office.app as app, app.worker():
        await office.emit("a1", topic="slow")
        await office.emit("b1", topic="later")
        await gate.wait_entered()
        async with asyncio.timeout(PATIENCE):
            assert await app.worker().run(until_idle=True) == 0
        gate.open()


async def test_an_event_that_is_being_handled_may_end_within_the_grace_period() -> None:
    office = Office(grace_seconds=10)
    gate = Gate()

    @office.app.on(TOPIC, group=GROUP)
    async def handle(event: Event[str]) -> None:
        await gate.pass_async()
        office.told.append(event.data)

    async with office.app as app:
        await office.emit("a1", "a2")
        worker = app.worker()
        running = asyncio.create_task(worker.run())
        await gate.wait_entered()
        worker.stop()
        await turns()
        assert not running.done()
        gate.open()
        async with asyncio.timeout(PATIENCE):
            assert await running == 0
        assert office.told == ["a1"], "and none after it"
        assert await office.offsets() == {(GROUP, TOPIC): 1}


@pytest.mark.parametrize("pause", [0, 100])
async def test_a_second_stop_cuts_off_the_event_at_hand(pause: int) -> None:
    office = Office()
    entered = asyncio.Event()

    @office.app.on(TOPIC, group=GROUP)
    async def handle(event: Event[str]) -> None:
        entered.set()
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            office.told.append(event.data)

    async with office.app as app:
        await office.emit("a1", "a2")
        worker = app.worker()
        running = asyncio.create_task(worker.run())
        await entered.wait()
        worker.stop()
        await turns(pause)
        worker.stop(0)
        async with asyncio.timeout(PATIENCE):
            await running
        assert office.told == ["a1"]
        assert await office.offsets() == {(GROUP, TOPIC): 0}, "it will come again"


async def test_an_event_that_outlasts_the_grace_period_is_cut_off_and_comes_again() -> None:
    office = Office(grace_seconds=0.1)
    entered = asyncio.Event()

    @office.app.on(TOPIC, group=GROUP)
    async def handle(event: Event[str]) -> None:
        office.told.append(event.data)
        entered.set()
        if len(office.told) == 1:
            await asyncio.get_running_loop().create_future()

    async with office.app as app:
        await office.emit("a1")
        async with asyncio.timeout(PATIENCE):
            async with app.worker():
                await entered.wait()
            await app.worker().run(until_idle=True)
    assert office.told == ["a1", "a1"]


async def test_a_blocking_handler_that_is_cut_off_is_told_to_stop() -> None:
    office = Office(kill_seconds=5)
    entered, told = threading.Event(), threading.Event()

    @office.app.on(TOPIC, group=GROUP)
    def handle(ctx: Context, event: Event[str]) -> None:
        entered.set()
        while not ctx.cancelled:
            told.wait(0.01)
        told.set()

    async with office.app as app:
        await office.emit("a1")
        worker = app.worker()
        running = asyncio.create_task(worker.run())
        assert await asyncio.to_thread(entered.wait, PATIENCE)
        worker.stop(0)
        async with asyncio.timeout(PATIENCE):
            await running
    assert told.is_set()


async def test_a_handler_that_blocks_the_loop_keeps_its_lock(tmp_path: Path) -> None:
    office = Office(f"sqlite:///{tmp_path}/jobs.db", leader_lease_seconds=0.5)

    @office.app.on(TOPIC, group=GROUP)
    async def handle(event: Event[str]) -> None:
        office.told.append(event.data)
        threading.Event().wait(1.2)  # blocks on purpose

    async with office.app as app, app.worker():
        await office.emit("a1")
        await office.stands_at(1)
        assert office.told == ["a1"]
        assert office.seen.of("consumer_lost") == []


async def test_the_state_of_the_application_reaches_handlers() -> None:
    app = Holdfast("memory://", state={"name": "shop"})
    found: list[Any] = []

    @app.on(TOPIC, group=GROUP)
    async def handle(ctx: Context[dict[str, str]], event: Event[str]) -> None:
        found.append(ctx.state)

    async with app:
        await app.emit(Event(topic=TOPIC, type="t", data=""))
        await app.worker().run(until_idle=True)
    assert found == [{"name": "shop"}]
