"""Schedules as applications declare and steer them, fired in memory with time moved by hand."""

import asyncio
import logging
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from holdfast import (
    BlockingCallOnLoop,
    ConfigurationError,
    Context,
    Cron,
    Event,
    Every,
    Firing,
    Holdfast,
    InvalidEvent,
    InvalidJob,
    ScheduleGone,
    StateConflict,
    Undecodable,
    VersionConflict,
    at,
    cron,
    every,
)
from holdfast.engine.ids import new_id
from holdfast.engine.notices import Notice
from holdfast.model.records import Verdict
from holdfast.model.scheduling import ScheduleWrite

START = datetime(2026, 3, 1, 9, tzinfo=UTC)
MINUTE = timedelta(minutes=1)


class Office:
    """An application with one declared schedule, and what its task was told."""

    def __init__(self, url: str = "memory://") -> None:
        self.app = Holdfast(url, leader_candidate=True, state=self)
        self.firings: list[Firing | None] = []

        @self.app.schedule(every(minutes=10), name="often", args=["all"])
        @self.app.task
        async def report(ctx: Context["Office"], part: str = "none") -> str:
            ctx.state.firings.append(ctx.firing)
            return part

        self.report = report

    @property
    def dues(self) -> list[datetime]:
        return [firing.due for firing in self.firings if firing is not None]


@pytest.fixture
def office() -> Office:
    return Office()


async def test_a_declared_schedule_fires_at_each_due_time_and_tells_the_handler_which(office: Office) -> None:
    async with office.app.testing(START) as testing:
        await testing.drain()
        assert office.firings == []
        for _ in range(3):
            testing.advance(10 * MINUTE)
            await testing.drain()
        assert office.firings == [Firing("often", START + count * 10 * MINUTE) for count in (1, 2, 3)]
        testing.assert_enqueued(office.report, arguments={"part": "all"}, count=3)
        await office.report.enqueue()
        await testing.drain()
        assert office.firings[-1] is None


async def test_firing_is_apart_from_running(office: Office) -> None:
    async with office.app.testing(START) as testing:
        testing.advance(10 * MINUTE)
        testing.assert_enqueued(office.report, count=0)
        testing.fire_due()
        testing.fire_due()
        testing.assert_enqueued(office.report, arguments={"part": "all"}, count=1)
        assert office.firings == []


def test_a_blocking_test_fires_and_drains(office: Office) -> None:
    with office.app.testing(START) as testing:
        testing.advance(10 * MINUTE)
        testing.drain_sync()
        assert office.dues == [START + 10 * MINUTE]
        assert [each.name for each in office.app.sync.schedules.list()] == ["often"]


async def test_drain_fires_what_has_waited_for_a_run_that_it_ran(office: Office) -> None:
    async with office.app.testing(START) as testing:
        await office.app.schedules.put(
            "queued", every(minutes=1), office.report.call(), misfire="all", overlap="queue"
        )
        await office.app.schedules.put("after", every(minutes=2, anchor="end"), office.report.call())
        testing.advance(5 * MINUTE)
        await testing.drain()
        queued = [firing.due for firing in office.firings if firing and firing.schedule == "queued"]
        assert queued == [START + count * MINUTE for count in range(1, 6)]
        after = await office.app.schedules.get("after")
        assert after is not None
        assert after.next_due == START + 7 * MINUTE


async def test_firing_in_a_test_tells_notices(office: Office) -> None:
    told: list[Notice] = []
    office.app.notices.listen(told.append)
    async with office.app.testing(START) as testing:
        testing.advance(10 * MINUTE)
        testing.fire_due()
    assert [
        (each.facts["schedule"], each.facts["late"]) for each in told if each.kind == "schedule_fired"
    ] == [("often", 0)]


async def test_a_test_says_so_when_another_has_the_lock_of_the_leader(office: Office) -> None:
    async with office.app.testing(START) as testing, office.app.lock("holdfast.leader"):
        with pytest.raises(RuntimeError, match=r"holdfast\.leader is held by another"):
            testing.fire_due()


async def test_a_worker_stores_what_is_declared_and_fires_it() -> None:
    office = Office()
    fired = asyncio.create_task(office.app.notices.wait_for("schedule_fired", schedule="often"))
    async with office.app, office.app.worker():
        assert [each.name for each in await office.app.schedules.list()] == ["often"]
        await office.app.schedules.put("soon", every(seconds=1), office.report.call())
        await office.app.schedules.put("often", at(START), office.report.call())
        async with asyncio.timeout(20):
            await fired
        found = await office.app.schedules.get("often")
    assert found is not None
    assert (found.last_due, found.next_due) == (START, None)


async def test_code_wins_over_edits_when_a_worker_starts_and_deletes_nothing(office: Office) -> None:
    schedules = office.app.schedules
    async with office.app.testing(START) as testing:
        declared = await schedules.get("often")
        await schedules.put("often", cron("0 3 * * *"), office.report.call())
        await schedules.put("foreign", every(days=1), office.report.call())
        await schedules.pause("often")
        await testing.drain()
        found = await schedules.get("often")
        assert declared is not None
        assert found is not None
        assert (found.recurrence, found.paused) == (declared.recurrence, True)
        assert [each.name for each in await schedules.list()] == ["foreign", "often"]


async def test_what_is_declared_just_so_is_not_written_again(office: Office) -> None:
    async with office.app.testing(START) as testing:
        await testing.drain()
        await testing.drain()
        found = await office.app.schedules.get("often")
        assert found is not None
        assert found.version == 1


async def test_a_schedule_is_steered(office: Office) -> None:
    schedules = office.app.schedules
    async with office.app.testing(START) as testing:
        made = await schedules.put("nightly", cron("0 3 * * *", tz="Europe/Berlin"), office.report.call("x"))
        night = datetime(2026, 3, 2, 2, tzinfo=UTC)
        assert (made.version, made.next_due, made.task, made.queue) == (1, night, "report", "default")
        assert await schedules.next("nightly", 2) == [night, night + timedelta(days=1)]
        paused = await schedules.pause("nightly", version=1)
        assert (paused.version, paused.paused) == (2, True)
        assert await schedules.pause("nightly") == paused
        with pytest.raises(VersionConflict, match="schedule nightly has version 2, not 1"):
            await schedules.resume("nightly", version=1)
        testing.advance(timedelta(days=3))
        assert (await schedules.next("nightly", 1)) == [night + timedelta(days=3)]
        testing.fire_due()
        resumed = await schedules.resume("nightly")
        assert (resumed.next_due, resumed.missed) == (night + timedelta(days=3), 0)
        job_id = await schedules.run("nightly")
        with pytest.raises(StateConflict, match=f"schedule nightly: its job {job_id} is still under way"):
            await schedules.run("nightly")
        await testing.drain()
        assert Firing("nightly", START + timedelta(days=3)) in office.firings
        with pytest.raises(VersionConflict):
            await schedules.put("nightly", every(hours=1), office.report.call(), version=0)
        assert await schedules.remove("nightly")
        assert not await schedules.remove("nightly")
        assert await schedules.get("nightly") is None
        with pytest.raises(ScheduleGone, match="no schedule nightly is stored"):
            await schedules.pause("nightly")


async def test_a_schedule_at_the_end_of_the_calendar_is_listed_with_the_others(office: Office) -> None:
    late = datetime(9998, 1, 1, tzinfo=UTC)
    async with office.app.testing(START):
        await office.app.schedules.put("late", every(seconds=3e9, start=late), office.report.call())
        assert await office.app.schedules.next("late") == [late]
        assert [each.next_due for each in await office.app.schedules.list()] == [late, START + 10 * MINUTE]


def test_a_schedule_is_declared_above_its_task(office: Office) -> None:
    with pytest.raises(ConfigurationError, match=r"write @app\.schedule\(\.\.\.\) above @app\.task"):
        office.app.schedule(every(minutes=1))(lambda: None)  # type: ignore[type-var]
    with pytest.raises(InvalidJob, match=r"arguments\.part"):
        office.app.schedule(every(minutes=1), args=[5])(office.report)
    with pytest.raises(ConfigurationError, match=r"schedule\.misfire"):
        office.app.schedule(every(minutes=1), misfire="sometimes")(office.report)  # type: ignore[arg-type]


def test_two_schedules_of_one_name_are_refused_and_a_reloaded_one_is_taken(office: Office) -> None:
    with pytest.raises(ConfigurationError, match=r"schedule\.name: two schedules are called 'often'"):
        office.app.schedule(every(minutes=5), name="often")(office.report)

    @office.app.task
    async def other() -> None: ...

    with pytest.raises(ConfigurationError, match="two schedules are called 'often'"):
        office.app.schedule(every(minutes=5), name="often")(other)
    reloaded = office.app.task(name="report")(office.report.__wrapped__)
    office.app.schedule(every(minutes=5), name="often")(reloaded)
    office.app.schedule(every(minutes=7), name="rarely")(reloaded)
    intervals = {plan.schedule.name: plan.schedule.recurrence for plan in office.app.declared}
    assert intervals == {"often": every(minutes=5), "rarely": every(minutes=7)}


def test_declaring_reads_no_settings() -> None:
    app = Holdfast(concurrency=-1)

    @app.schedule(every(minutes=1))
    @app.task
    def sweep() -> None: ...

    with pytest.raises(ConfigurationError, match="concurrency"):
        _ = app.settings


@pytest.fixture
def blocking() -> Iterator[Office]:
    with (office := Office()).app:
        yield office


def test_blocking_code_steers_schedules(blocking: Office) -> None:
    schedules = blocking.app.sync.schedules
    made = schedules.put("s", every(hours=1), blocking.report.call(), overlap="allow")
    assert schedules.get("s") == made
    assert [each.name for each in schedules.list()] == ["s"]
    assert schedules.pause("s").paused
    assert not schedules.resume("s", version=2).paused
    assert schedules.next("s", 1) == [made.next_due]
    assert blocking.app.sync.get(schedules.run("s")) is not None
    assert schedules.remove("s")


async def test_blocking_calls_on_a_loop_name_what_to_await(blocking: Office) -> None:
    with pytest.raises(BlockingCallOnLoop, match=r"`await app\.schedules\.run\(\.\.\.\)`"):
        blocking.app.sync.schedules.run("s")


@pytest.mark.parametrize(
    ("part", "strange"), [(b"Europe/Berlin", b"Mars/Olympus"), (b'"cron"', b'"tides"')], ids=["zone", "kind"]
)
async def test_one_that_cannot_be_read_is_named_and_hides_no_other(
    office: Office, caplog: pytest.LogCaptureFixture, part: bytes, strange: bytes
) -> None:
    schedules = office.app.schedules
    async with office.app.testing(START) as testing:
        await schedules.put("odd", cron("0 3 * * *", tz="Europe/Berlin"), office.report.call())
        await damage(office, "odd", part, strange)
        with caplog.at_level(logging.WARNING, "holdfast.schedules"):
            assert [each.name for each in await schedules.list()] == ["often"]
        assert [record.__dict__["fields"]["schedule"] for record in caplog.records] == ["odd"]
        for call in (schedules.get, schedules.pause, schedules.resume, schedules.run, schedules.next):
            with pytest.raises(Undecodable, match=r"^schedule odd: cannot be read"):
                await call("odd")
        testing.advance(timedelta(days=1))
        await testing.drain()
        assert [firing.schedule for firing in office.firings if firing] == ["often"]
        again = await schedules.put("odd", cron("0 4 * * *"), office.report.call())
        assert again.recurrence == Cron("0 4 * * *")


async def damage(office: Office, name: str, part: bytes, strange: bytes) -> None:
    store = office.app.client.session.schedules
    (record,) = (await store.get([name])).records
    write = ScheduleWrite(
        name=name,
        version=record.version,
        mark=new_id(),
        definition=record.definition.replace(part, strange),
        state=record.state,
        look_at=record.look_at,
    )
    assert await store.write([write]) == [Verdict.ACCEPTED]


async def test_a_schedule_emits_an_event_for_each_due_time() -> None:
    app = Holdfast("memory://")
    told: list[Event[int]] = []

    @app.on("ticks", group="log")
    async def log(event: Event[int]) -> None:
        told.append(event)

    async with app.testing(start=datetime(2026, 1, 1, tzinfo=UTC)) as testing:
        event = Event(topic="ticks", type="tick", data=7, aggregate="clock")
        info = await app.schedules.put("tick", every(minutes=10), event, misfire="all")
        assert (info.topic, info.task, info.queue) == ("ticks", None, None)
        testing.advance(1_800)
        await testing.drain()
        assert [(event.data, event.version) for event in told] == [(7, 1), (7, 2), (7, 3)]
        extra = await app.schedules.run("tick")
        await testing.drain()
        assert told[-1].id == extra
        assert len({event.id for event in told}) == 4


@pytest.mark.parametrize(
    ("recurrence", "more", "said"),
    [
        (every(minutes=1, anchor="end"), {}, "schedule.anchor"),
        (every(minutes=1, anchor="start"), {}, "schedule.anchor"),
        (every(minutes=1), {"jitter": 5}, "schedule.jitter"),
    ],
)
async def test_what_an_event_cannot_do_is_refused(recurrence: Every, more: dict[str, Any], said: str) -> None:
    app = Holdfast("memory://")
    async with app.testing():
        with pytest.raises(ConfigurationError, match=said):
            await app.schedules.put("tick", recurrence, Event(topic="t", type="t", data=None), **more)
        with pytest.raises(InvalidEvent, match="id"):
            await app.schedules.put("tick", every(minutes=1), Event(topic="t", type="t", data=1, id=new_id()))
