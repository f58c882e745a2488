"""Events of an application on every store: emitted in all ways, told to groups, looked at and steered."""

import asyncio
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from holdfast import (
    ConfigurationError,
    Context,
    Event,
    Fixed,
    Holdfast,
    InvalidEvent,
    InvalidJob,
    Never,
    every,
)
from holdfast.model.events import EventRecord
from tests.postgres.shop import open_shop


@pytest.fixture(params=["memory", "sqlite", "postgres", "redis"])
def app(request: pytest.FixtureRequest, tmp_path: Path) -> Holdfast:
    if request.param == "postgres":
        return open_shop(request.getfixturevalue("postgres_url")).app
    if request.param == "redis":
        return Holdfast(request.getfixturevalue("redis_url"), namespace=f"n{uuid4().hex[:12]}")
    return Holdfast("memory://" if request.param == "memory" else f"sqlite:///{tmp_path}/jobs.db")


def event(data: object, aggregate: str | None = "a", topic: str = "orders", **given: Any) -> Event[Any]:
    return Event(topic=topic, type="t", data=data, aggregate=aggregate, **given)


async def drain(app: Holdfast) -> None:
    assert await app.worker().run(until_idle=True) == 0


async def test_a_group_is_told_of_every_event_in_order_and_tried_again(app: Holdfast) -> None:
    told: list[tuple[int, int | None]] = []

    @app.on("orders", group="billing", retry=Fixed(2, wait=0))
    async def handle(ctx: Context, event: Event[int]) -> None:
        told.append((event.data, event.version))
        if event.data == 1 and ctx.run < 3:
            raise ValueError(event.data)

    async with app:
        await app.emit(event(1), event(2, "b"), event(3), event(4, None))
        await app.emit(event(9, topic="others"))
        await drain(app)
        [info] = await app.events.groups()
        assert (info.group, info.topic, info.offset, info.last, info.waiting) == (
            "billing",
            "orders",
            4,
            5,
            [],
        )
    done = [each for place, each in enumerate(told) if each not in told[place + 1 :]]
    assert sorted(done, key=lambda each: each[0]) == [(1, 1), (2, 1), (3, 2), (4, None)]
    assert done.index((1, 1)) < done.index((3, 2))
    assert told.count((1, 1)) == 3


async def test_what_fails_for_good_is_parked_replayed_and_skipped(app: Holdfast) -> None:
    told: list[int] = []

    @app.on("orders", group="billing", retry=Never())
    def handle(event: Event[int]) -> None:
        told.append(event.data)
        if event.data in {1, 2}:
            raise ValueError(f"no {event.data}")

    async with app:
        await app.emit(event(1), event(2, None), event(3), event(4, "b"))
        await drain(app)
        [info] = await app.events.groups()
        assert [(each.aggregate, each.retry_at, each.reason) for each in info.waiting] == [
            ("a", None, "ValueError: no 1"),
            (None, None, "ValueError: no 2"),
        ]
        assert await app.events.replay("billing", event=info.waiting[0].event) == 1
        await drain(app)
        assert told == [1, 2, 4, 1]
        assert await app.events.skip("billing", "orders") == 2
        await drain(app)
        assert told == [1, 2, 4, 1, 3]
        assert (await app.events.groups())[0].waiting == []


async def test_a_group_that_starts_last_is_told_only_of_what_comes_after_it(app: Holdfast) -> None:
    told: list[int] = []

    @app.on("orders", group="billing", start="last")
    async def handle(event: Event[int]) -> None:
        told.append(event.data)

    async with app:
        await app.emit(event(1), event(2))
        await drain(app)
        await app.emit(event(3))
        await drain(app)
    assert told == [3]


async def test_jobs_and_events_are_stored_in_one_commit(app: Holdfast) -> None:
    told: list[object] = []

    @app.task
    async def work(number: int) -> None:
        told.append(number)

    @app.on("orders", group="billing")
    async def handle(event: Event[str]) -> None:
        told.append(event.data)

    async with app:
        jobs = await app.enqueue_many([work.call(1), work.call(2)], events=[event("x"), event("y")])
        assert [job.task for job in jobs] == ["work", "work"]
        with pytest.raises(InvalidEvent, match="topic"):
            await app.enqueue_many([work.call(3)], events=[event("z", topic="no good")])
        with pytest.raises(InvalidEvent):
            await app.enqueue_many([work.call(3)], events=["none"])  # type: ignore[list-item]
        with pytest.raises(InvalidEvent, match=r"as in emit\(\*events\)"):
            await app.emit([event("z")])  # type: ignore[arg-type]
        with pytest.raises(InvalidJob):
            await app.enqueue_many([work.using(queue="no good").call(3)], events=[event("z")])
        assert (await app.stats()).queued == 2
        assert [each.data for each in await app.events.list()] == ["x", "y"]
        await drain(app)
    assert sorted(map(str, told)) == ["1", "2", "x", "y"]


async def test_what_a_job_emits_is_stored_with_its_success_or_not_at_all(app: Holdfast) -> None:
    @app.task(retry=Fixed(1, wait=0))
    async def work(ctx: Context) -> None:
        ctx.emit(event(ctx.run))
        if ctx.run == 1:
            raise ValueError("after it had emitted")

    @app.task(retry=Never())
    def fails(ctx: Context) -> None:
        ctx.emit(event("never"))
        raise ValueError("for good")

    async with app:
        await app.enqueue_many([work.call(), fails.call()])
        await drain(app)
        assert [each.data for each in await app.events.list()] == [2]


async def test_an_event_with_an_id_is_stored_once(app: Holdfast) -> None:
    async with app:
        same = str(uuid4())
        assert await app.emit(event(1, id=same)) == [same]
        assert await app.emit(event(1, id=same.upper()), event(2)) != []
        assert [each.data for each in await app.events.list()] == [1, 2]


async def test_events_are_listed_page_by_page(app: Holdfast) -> None:
    async with app:
        await app.emit(
            *[event(number, "ab"[number % 2], topic=("x", "y")[number % 3 == 0]) for number in range(30)]
        )
        everything = await app.events.list(limit=1_000)
        assert [each.position for each in everything] == list(range(1, 31))
        pages: list[Event[Any]] = []
        while page := await app.events.list("x", after=pages[-1].position or 0 if pages else 0, limit=7):
            pages += page
        assert [each.data for each in pages] == [number for number in range(30) if number % 3]
        of_one = await app.events.list("x", aggregate="a")
        assert [each.version for each in of_one] == list(range(1, len(of_one) + 1))
        for wrong in ({"limit": 0}, {"limit": 1_001}, {"aggregate": "a"}):
            with pytest.raises(InvalidEvent):
                await app.events.list(**wrong)


async def test_a_relay_has_batches_in_order_and_the_same_again_until_it_has_them(app: Holdfast) -> None:
    batches: list[list[bytes]] = []

    async def relay(events: Sequence[EventRecord]) -> None:
        batches.append([each.data for each in events])
        if len(batches) == 1:
            raise ConnectionError("nobody there")

    app.relay(["orders"], relay, group="away")
    async with app:
        await app.emit(event(1), event(2, "b"), event(3))
        await drain(app)
        [info] = await app.events.groups()
        assert (info.group, info.offset) == ("away", 3)
    assert batches == [[b"1", b"2", b"3"]] * 2


def test_events_of_blocking_code_are_emitted(tmp_path: Path) -> None:
    app = Holdfast(f"sqlite:///{tmp_path}/jobs.db")
    with app:
        [first] = app.emit_sync(event(1))
        assert app.emit_sync() == []
    with closing(sqlite3.connect(tmp_path / "jobs.db", isolation_level=None)) as connection:
        connection.execute("BEGIN")
        app.emit_in_sync(connection, event("undone"))
        connection.execute("ROLLBACK")
        connection.execute("BEGIN")
        [second] = app.emit_in_sync(connection, event(2))
        connection.execute("COMMIT")
    assert first != second

    async def stored() -> list[tuple[object, str | None]]:
        async with app:
            return [(each.data, each.id) for each in await app.events.list()]

    assert asyncio.run(stored()) == [(1, first), (2, second)]


async def test_a_store_without_transactions_cannot_be_joined() -> None:
    app = Holdfast("memory://")
    async with app:
        with pytest.raises(ConfigurationError, match="no transactions"):
            await app.emit_in(None, event(1))


async def test_what_is_no_event_is_refused_before_anything_is_stored(app: Holdfast) -> None:
    async with app:
        wrong: list[Any] = [
            "text",
            event(1, topic="no good"),
            event(1, aggregate=""),
            event(1, aggregate="x" * 201),
            event(1, aggregate="line\nbreak"),
            event(object()),
            event("x" * 300_000),
            event(1, id="no uuid"),
        ]
        for each in wrong:
            with pytest.raises(InvalidEvent):
                await app.emit(event("good"), each)
        assert await app.events.list() == []


def test_a_group_has_one_handler_for_a_topic() -> None:
    app = Holdfast("memory://")

    def declare() -> None:
        @app.on("orders", group="billing")
        async def handle(event: Event) -> None: ...

    declare()
    declare()  # the same code again, as by a reload
    with pytest.raises(ConfigurationError, match="has a handler for 'orders' already"):

        @app.on("orders", group="billing")
        async def another(event: Event) -> None: ...

    @app.on("orders", group="shipping")
    async def third(event: Event) -> None: ...

    assert list(app.subscriptions) == [("billing", "orders"), ("shipping", "orders")]
    with pytest.raises(ConfigurationError, match="give a list"):
        app.relay("orders", lambda _: None)  # type: ignore[arg-type, return-value]
    with pytest.raises(ConfigurationError, match="at least one topic"):
        app.relay([], lambda _: None)  # type: ignore[arg-type, return-value]


async def test_a_test_drains_events_jobs_and_schedules_and_moves_the_time() -> None:
    app = Holdfast("sqlite:////no/such/folder/jobs.db")
    told: list[str] = []

    @app.task
    async def work(ctx: Context, name: str) -> None:
        ctx.emit(event(name))

    @app.on("orders", group="billing", retry=Fixed(1, wait=60))
    async def handle(ctx: Context, event: Event[str]) -> None:
        told.append(f"{event.data} {ctx.run}")
        if event.data == "bad":
            raise ValueError(event.data)

    async with app.testing() as testing:
        await work.enqueue("good")
        await work.enqueue("bad")
        await app.schedules.put("tick", every(100), event("ticked", aggregate=None))
        await testing.drain()
        assert told == ["good 1", "bad 1"]
        testing.advance(61)
        await testing.drain()
        assert told == ["good 1", "bad 1", "bad 2"]
        [info] = await app.events.groups()
        assert [each.retry_at for each in info.waiting] == [None]
        testing.advance(50)
        await testing.drain()
        assert told[-1] == "ticked 1"
    async with app.testing():
        assert await app.events.groups() == [], "each test begins with nothing"


async def test_groups_are_no_schedules(app: Holdfast) -> None:
    @app.on("orders", group="billing")
    async def handle(event: Event) -> None: ...

    async with app:
        await app.schedules.put("tick", every(1000), event(1))
        await app.emit(event(1))
        await drain(app)
        assert [each.name for each in await app.schedules.list()] == ["tick"]
        assert len(await app.events.groups()) == 1


async def test_the_longest_names_are_no_trouble(app: Holdfast) -> None:
    topic, group, aggregate = "t" * 200, "g" * 200, "\N{SNOWMAN}" * 200
    told: list[tuple[int, str | None]] = []

    @app.on(topic, group=group, retry=Fixed(1, wait=0))
    async def handle(ctx: Context, event: Event[int]) -> None:
        told.append((event.data, event.aggregate))
        if ctx.run == 1 and event.data == 1:
            raise ValueError("x" * 10_000 + "\0\ud800")

    async with app:
        await app.emit(event(1, aggregate, topic), event(2, aggregate, topic))
        await drain(app)
        assert [(info.group, info.topic, info.waiting) for info in await app.events.groups()] == [
            (group, topic, [])
        ]
    assert told == [(1, aggregate), (1, aggregate), (2, aggregate)]


async def test_two_namespaces_never_see_each_other(tmp_path: Path) -> None:
    apps = [Holdfast(f"sqlite:///{tmp_path}/jobs.db", namespace=name, state=[]) for name in ("one", "two")]

    async def handle(ctx: Context[list[int]], event: Event[int]) -> None:
        ctx.state.append(event.data)

    for number, app in enumerate(apps):
        app.on("orders", group="billing")(handle)
        async with app:
            await app.emit(event(number))
    for app in apps:
        await drain(app)
        async with app:
            assert [(info.offset, info.last) for info in await app.events.groups()] == [(1, 1)]
    assert [app.state for app in apps] == [[0], [1]]
