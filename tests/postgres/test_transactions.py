"""Handlers that complete in a transaction: effects, completion and children are one commit, or none is."""

import asyncio
import threading
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, contextmanager
from typing import Any, TypeAlias

import asyncpg
import psycopg
import pytest
from sqlalchemy.ext import asyncio as aio

from holdfast import Context, Fixed, JobFailed, LeaseLost
from tests.chaos.waiting import until_async
from tests.postgres import ways
from tests.postgres.shop import Shop, open_shop

Handler: TypeAlias = Callable[..., Any]

LEVELS = ["READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE"]


class Pause:
    """Where a handler waits in its open transaction, on the loop or on a thread."""

    def __init__(self) -> None:
        self._entered = threading.Event()
        self._over = threading.Event()

    def blocking(self) -> None:
        self._entered.set()
        assert self._over.wait(20)

    async def here(self) -> None:
        await asyncio.to_thread(self.blocking)

    async def entered(self) -> None:
        assert await asyncio.to_thread(self._entered.wait, 20)

    def end(self) -> None:
        self._over.set()


class Payments:
    """One task for each way to complete. Each pays, enqueues a child, and pauses at its first attempt."""

    def __init__(self, shop: Shop, pause: Pause | None = None, isolation: str = LEVELS[0]) -> None:
        self.shop = shop
        self.pause = pause
        self.isolation = isolation
        self.refused: list[str] = []
        app = shop.app
        self.child = app.task(name="child")(_child)
        handlers: tuple[Handler, ...] = (
            self.transaction,
            self.sync_transaction,
            self.own_asyncpg,
            self.own_psycopg,
            self.own_sqlalchemy,
        )
        self.tasks = {
            handler.__name__: app.task(name=handler.__name__, retry=Fixed(1, wait=0))(_guarded(self, handler))
            for handler in handlers
        }

    async def transaction(self, ctx: Context, fails: bool) -> None:
        async with ctx.transaction() as tx:
            await tx.connection.execute(self.begins(ctx))
            if self.pause and ctx.run == 1:
                await self.pause.here()
            self.check(fails)
            tx.complete(f"run {ctx.run}")

    def sync_transaction(self, ctx: Context, fails: bool) -> None:
        with ctx.sync_transaction() as tx:
            tx.connection.execute(self.begins(ctx))
            if self.pause and ctx.run == 1:
                self.pause.blocking()
            self.check(fails)
            tx.complete(f"run {ctx.run}")

    async def own_asyncpg(self, ctx: Context, fails: bool) -> None:
        async with ways.asyncpg_connection(self.shop.database) as connection:
            await connection.execute(f"SET TRANSACTION ISOLATION LEVEL {self.isolation}")
            await connection.execute(self.begins(ctx))
            if self.pause and ctx.run == 1:
                await self.pause.here()
            self.check(fails)
            await ctx.complete_in(connection, f"run {ctx.run}")

    def own_psycopg(self, ctx: Context, fails: bool) -> None:
        with psycopg.connect(self.shop.database) as connection:
            connection.execute(f"SET TRANSACTION ISOLATION LEVEL {self.isolation}")
            connection.execute(self.begins(ctx))
            if self.pause and ctx.run == 1:
                self.pause.blocking()
            self.check(fails)
            ctx.complete_in_sync(connection, f"run {ctx.run}")

    async def own_sqlalchemy(self, ctx: Context, fails: bool) -> None:
        async with ways.async_engine(self.shop.database, "asyncpg") as engine:
            options = {"isolation_level": self.isolation}
            async with aio.AsyncSession(engine.execution_options(**options)) as session, session.begin():
                await ways.run_async(session, self.begins(ctx))
                if self.pause and ctx.run == 1:
                    await self.pause.here()
                self.check(fails)
                await ctx.complete_in(session, f"run {ctx.run}")

    def begins(self, ctx: Context) -> str:
        ctx.enqueue(self.child.using(delay=600).call(ctx.run))
        return self.shop.pay(f"run {ctx.run}")

    def check(self, fails: bool) -> None:
        if fails:
            raise ZeroDivisionError


async def _child(run: int) -> None: ...


def _guarded(payments: Payments, handler: Handler) -> Handler:
    """The handler, and a note of what it was refused."""

    @contextmanager
    def noting() -> Any:
        try:
            yield
        except LeaseLost as error:
            payments.refused.append(str(error))
            raise

    if not asyncio.iscoroutinefunction(handler):

        def blocking(ctx: Context, fails: bool = False) -> str:
            with noting():
                handler(ctx, fails)
            return f"run {ctx.run}"

        return blocking

    async def running(ctx: Context, fails: bool = False) -> str:
        with noting():
            await handler(ctx, fails)
        return f"run {ctx.run}"

    return running


ALL = ["transaction", "sync_transaction", "own_asyncpg", "own_psycopg", "own_sqlalchemy"]
OWN = ALL[2:]
WAYS = [(way, LEVELS[0]) for way in ALL] + [(way, level) for way in OWN for level in LEVELS[1:]]


@pytest.mark.parametrize(("way", "isolation"), WAYS)
async def test_effects_completion_and_children_are_one_commit(
    postgres_url: str, way: str, isolation: str
) -> None:
    shop = open_shop(postgres_url)
    payments = Payments(shop, isolation=isolation)
    async with shop.app as app, app.worker():
        job = await payments.tasks[way].enqueue()
        assert await job.result(timeout=10) == "run 1"
        assert await shop.outcomes(job) == ["success"]
        assert await shop.ledger() == ["run 1"]
        assert [child.task for child in await app.find(state="scheduled")] == ["child"]
        together = f"""SELECT d.xmin = l.xmin FROM shop.done AS d, public.ledger AS l
            WHERE d.id = '{job.id}' AND l.shop = '{shop.name}'"""
        assert await shop.query(together) == [(True,)]


@pytest.mark.parametrize("way", ALL)
async def test_an_exception_takes_effects_and_children_with_it(postgres_url: str, way: str) -> None:
    shop = open_shop(postgres_url)
    payments = Payments(shop)
    async with shop.app as app, app.worker():
        job = await payments.tasks[way].enqueue(True)
        with pytest.raises(JobFailed, match="ZeroDivisionError"):
            await job.result(timeout=10)
        assert await shop.outcomes(job) == ["retry", "failed"]
        assert await shop.ledger() == []
        assert await app.find(state="scheduled") == []


@pytest.mark.parametrize(("way", "isolation"), WAYS)
async def test_a_superseded_attempt_rolls_back_and_is_told(
    postgres_url: str, way: str, isolation: str
) -> None:
    shop = open_shop(postgres_url)
    pause = Pause()
    payments = Payments(shop, pause, isolation)
    async with shop.app as app, app.worker(concurrency=1), app.worker(concurrency=1):
        job = await payments.tasks[way].enqueue()
        await pause.entered()
        await expire(shop, job)
        assert await job.result(timeout=10) == "run 2"
        pause.end()
        await until_async(lambda: shop.outcomes(job), "the late end", ["superseded", "success"].__eq__)
        [told] = payments.refused
        assert "this must not commit" in told
        assert await shop.ledger() == ["run 2"]
        assert len(await app.find(state="scheduled")) == 1


async def expire(shop: Shop, job: Any) -> None:
    """Ends the lease, as time does, once the start is recorded."""
    await until_async(lambda: shop.app.get(job.id), "it is running", is_running)
    await shop.query(f"UPDATE shop.lease SET until = 0 WHERE job = '{job.id}'")


def is_running(job: Any) -> bool:
    return bool(job.state == "running")


QUICK: dict[str, Any] = {"lease_seconds": 2.5, "heartbeat_seconds": 0.1, "call_timeout_seconds": 2}


async def lease_end(shop: Shop, job: Any) -> int:
    [(found,)] = await shop.query(f"SELECT lease_until FROM shop.live WHERE id = '{job.id}'")
    return int(found)


@asynccontextmanager
async def longer_than_a_lease(shop: Shop, job: Any) -> AsyncGenerator[None]:
    """Leaves once the job's lease has been prolonged by more than its length since entering."""
    begin = await lease_end(shop, job)
    yield
    await until_async(lambda: lease_end(shop, job), "many beats", (begin + 2_600_000).__lt__)


@pytest.mark.parametrize(("way", "isolation"), WAYS)
async def test_heartbeats_start_and_progress_do_not_fail_an_open_transaction(
    postgres_url: str, way: str, isolation: str
) -> None:
    shop = open_shop(postgres_url, **QUICK)
    pause = Pause()
    payments = Payments(shop, pause, isolation)
    async with shop.app as app, app.worker():
        job = await payments.tasks[way].enqueue()
        await pause.entered()
        begin = await lease_end(shop, job)
        await until_async(lambda: lease_end(shop, job), "some beats", (begin + 400_000).__lt__)
        found = await app.get(job.id)
        assert found is not None
        assert found.state == "running"
        pause.end()
        assert await job.result(timeout=10) == "run 1"
        assert await shop.outcomes(job) == ["success"]
        assert await shop.ledger() == ["run 1"]


@pytest.mark.parametrize("isolation", LEVELS)
async def test_a_wish_to_cancel_does_not_fail_an_open_transaction(postgres_url: str, isolation: str) -> None:
    shop = open_shop(postgres_url, **QUICK)
    told = threading.Event()

    @shop.app.task
    def pays(ctx: Context) -> None:
        with psycopg.connect(postgres_url) as connection:
            connection.execute(f"SET TRANSACTION ISOLATION LEVEL {isolation}")
            connection.execute(shop.pay("once"))
            ctx.progress(0.5, "half way")
            entered.set()
            while not ctx.cancelled:
                told.wait(0.01)
            ctx.complete_in_sync(connection)

    entered = threading.Event()
    async with shop.app as app, app.worker():
        job = await pays.enqueue()
        assert await asyncio.to_thread(entered.wait, 20)
        await until_async(lambda: progress(shop, job), "progress", [(0.5,)].__eq__)
        assert await app.cancel(job.id) == "asked"
        await job.result(timeout=10)
        assert await shop.outcomes(job) == ["success"]
        assert await shop.ledger() == ["once"]


async def progress(shop: Shop, job: Any) -> list[Any]:
    return await shop.query(f"SELECT progress FROM shop.live WHERE id = '{job.id}'")


class Lingering:
    """A handler that has completed in its own transaction, and then does not commit for long."""

    def __init__(self, shop: Shop, *, commits: bool = True) -> None:
        self.pause = Pause()
        self.runs: list[int] = []

        async def lingers(ctx: Context) -> None:
            self.runs.append(ctx.run)
            connection = await asyncpg.connect(shop.database)
            try:
                for again in (False, True):
                    transaction = connection.transaction()
                    await transaction.start()
                    await connection.execute(shop.pay(f"run {ctx.run}"))
                    await ctx.complete_in(connection)
                    if not again:
                        await self.pause.here()
                    if commits or again:
                        await transaction.commit()
                        return
                    await transaction.rollback()
            finally:
                await connection.close()

        async def quick(number: int) -> int:
            return number

        self.lingers = shop.app.task(name="lingers")(lingers)
        self.quick = shop.app.task(name="quick")(quick)


@pytest.mark.parametrize("commits", [True, False], ids=["commit", "rollback"])
async def test_a_completion_that_is_not_committed_for_long_keeps_its_lease_and_nobody_waiting(
    postgres_url: str, commits: bool, caplog: pytest.LogCaptureFixture
) -> None:
    shop = open_shop(postgres_url, **QUICK)
    here = Lingering(shop, commits=commits)
    async with shop.app as app, app.worker(), app.worker():
        job = await here.lingers.enqueue()
        await here.pause.entered()
        async with longer_than_a_lease(shop, job):
            for number in range(10):
                assert await (await here.quick.enqueue(number)).result(timeout=10) == number
        found = await app.get(job.id)
        assert found is not None
        assert found.state == "running"
        assert await shop.ledger() == []
        assert [line.message for line in caplog.records if line.levelname in {"WARNING", "ERROR"}] == []
        here.pause.end()
        await job.result(timeout=10)
        assert await shop.outcomes(job) == ["success"]
        assert await shop.ledger() == ["run 1"]
    assert here.runs == [1]


async def test_an_expired_lease_is_not_reclaimed_from_a_completion_under_way_and_the_reclaim_does_not_wait(
    postgres_url: str,
) -> None:
    shop = open_shop(postgres_url)
    here = Lingering(shop)
    async with shop.app as app, app.worker(), app.worker():
        job = await here.lingers.enqueue()
        await here.pause.entered()
        await expire(shop, job)
        # Each of the other worker's sweeps finds it expired; the ones that follow show that none got stuck.
        for number in range(10):
            assert await (await here.quick.enqueue(number)).result(timeout=10) == number
            await asyncio.sleep(0.05)
        here.pause.end()
        await job.result(timeout=10)
        assert await shop.outcomes(job) == ["success"]
    assert here.runs == [1]
    assert await shop.ledger() == ["run 1"]
