"""Commits whose answer is lost, transactions that must be done again, and connections that are not there."""

import asyncio
import os
import threading
from collections.abc import Callable, Generator
from contextlib import closing, contextmanager, suppress
from typing import Any

import asyncpg
import psycopg
import pytest

from holdfast import Context, Fixed, JobFailed, LeaseLost
from holdfast.model.errors import StoreUnavailable
from tests.postgres import ways
from tests.postgres.shop import Shop, open_shop

# An entry that ends the session which commits it, before it is committed.
DEADLY = """
    CREATE OR REPLACE FUNCTION public.die() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        PERFORM pg_terminate_backend(pg_backend_pid());
        RETURN NULL;
    END $$;
    CREATE TABLE IF NOT EXISTS public.deadly (entry text);
    CREATE OR REPLACE FUNCTION public.make_deadly() RETURNS void LANGUAGE plpgsql AS $$
    BEGIN
        IF NOT EXISTS (SELECT FROM pg_trigger WHERE tgname = 'die') THEN
            CREATE CONSTRAINT TRIGGER die AFTER INSERT ON public.deadly DEFERRABLE INITIALLY DEFERRED
            FOR EACH ROW EXECUTE FUNCTION public.die();
        END IF;
    END $$;
    SELECT public.make_deadly()
"""
DIE = "INSERT INTO public.deadly VALUES ('now')"
GONE = (OSError, asyncpg.PostgresError, asyncpg.InterfaceError, psycopg.Error)


class Buyer:
    """Pays in one of three ways; its first attempt dies with the commit if `dies`."""

    def __init__(self, shop: Shop, *, dies: bool = False, forgives: bool = False) -> None:
        def sql(ctx: Context) -> str:
            return shop.pay(f"run {ctx.run}") + (f"; {DIE}" if dies and ctx.run == 1 else "")

        async def transaction(ctx: Context) -> None:
            async with ctx.transaction() as tx:
                await tx.connection.execute(sql(ctx))

        def sync_transaction(ctx: Context) -> None:
            with ctx.sync_transaction() as tx:
                tx.connection.execute(sql(ctx))

        async def own(ctx: Context) -> None:
            with suppress(*(GONE if forgives else ())):
                async with ways.asyncpg_connection(shop.database) as connection:
                    await connection.execute(sql(ctx))
                    await ctx.complete_in(connection)

        handlers: tuple[Callable[..., Any], ...] = (transaction, sync_transaction, own)
        self.tasks = {each.__name__: shop.app.task(retry=Fixed(1, wait=0))(each) for each in handlers}


@contextmanager
def answer_lost(monkeypatch: pytest.MonkeyPatch) -> Generator[list[str]]:
    """The first commit of each driver is done, and then its connection is gone."""
    lost: list[str] = []
    commit: Any = getattr(asyncpg.transaction.Transaction, "_Transaction__commit")  # noqa: B009
    commit_blocking = psycopg.Connection.commit

    # Noted before the commit: whoever waits for the result may see it before the answer is lost here.
    def note(driver: str) -> bool:
        first = driver not in lost
        lost.extend([driver] if first else [])
        return first

    async def lose(self: Any) -> None:
        first = note("asyncpg")
        await commit(self)
        if first:
            self._connection.terminate()
            raise asyncpg.ConnectionDoesNotExistError("connection was closed in the middle of operation")

    def lose_blocking(self: Any) -> None:
        first = note("psycopg")
        commit_blocking(self)
        if first:
            self.close()
            raise psycopg.OperationalError("server closed the connection unexpectedly")

    with monkeypatch.context() as patched:
        patched.setattr(asyncpg.transaction.Transaction, "_Transaction__commit", lose)
        patched.setattr(psycopg.Connection, "commit", lose_blocking)
        yield lost


@pytest.mark.parametrize("forgives", [False, True], ids=["raises", "goes on"])
@pytest.mark.parametrize("way", ["transaction", "sync_transaction", "own"])
async def test_a_commit_whose_answer_was_lost_is_found_in_the_store(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch, way: str, forgives: bool
) -> None:
    # `prepared=off` would have our own calls commit by the driver as well.
    shop = open_shop(postgres_url)
    buyer = Buyer(shop, forgives=forgives)
    async with shop.app as app, app.worker():
        with answer_lost(monkeypatch) as lost:
            job = await buyer.tasks[way].enqueue()
            await job.result(timeout=10)
            assert lost == ["psycopg" if way == "sync_transaction" else "asyncpg"]
    async with shop.app:
        assert await shop.outcomes(job) == ["success"]
        assert await shop.ledger() == ["run 1"]


@pytest.mark.parametrize("forgives", [False, True], ids=["raises", "goes on"])
@pytest.mark.parametrize("way", ["transaction", "sync_transaction", "own"])
async def test_a_commit_that_never_was_is_done_again(postgres_url: str, way: str, forgives: bool) -> None:
    shop = open_shop(postgres_url)
    await shop.query(DEADLY)
    buyer = Buyer(shop, dies=True, forgives=forgives)
    async with shop.app as app, app.worker():
        job = await buyer.tasks[way].enqueue()
        await job.result(timeout=10)
        assert await shop.outcomes(job) == ["retry", "success"]
        assert await shop.ledger() == ["run 2"]
        if forgives and way == "own":
            [first, _] = await app.history(job.id)
            assert first.reason == "the handler's transaction was not committed"


async def test_a_transaction_that_its_handler_forgot_does_not_hold_up_the_worker(postgres_url: str) -> None:
    shop = open_shop(postgres_url, lease_seconds=2)
    forgotten: list[Any] = []

    @shop.app.task(retry=Fixed(0, wait=0))
    async def forgets(ctx: Context) -> None:
        forgotten.append(await asyncpg.connect(postgres_url))
        if ctx.run == 1:
            await forgotten[-1].execute("BEGIN")
            await ctx.complete_in(forgotten[-1])

    @shop.app.task
    async def plain(number: int) -> int:
        return number

    async with shop.app as app, app.worker():
        job = await forgets.enqueue()
        for number in range(20):
            assert await (await plain.enqueue(number)).result(timeout=10) == number
        forgotten[0].terminate()
        await job.result(timeout=10)
        assert await shop.outcomes(job) == ["lost", "success"]
        for connection in forgotten:
            connection.terminate()


async def test_serializable_completions_that_must_be_done_again_are_not_taken_for_superseded(
    postgres_url: str,
) -> None:
    shop = open_shop(postgres_url)
    told: list[BaseException] = []

    @shop.app.task(retry=Fixed(100, wait=0))
    def pays(ctx: Context, number: int) -> None:
        try:
            # One whose commit fails is not closed by its own block.
            with closing(psycopg.connect(postgres_url)) as connection, connection:
                connection.execute("SET TRANSACTION ISOLATION LEVEL SERIALIZABLE")
                connection.execute("SELECT count(*) FROM public.ledger")
                connection.execute(shop.pay(number))
                ctx.complete_in_sync(connection)
        except (StoreUnavailable, LeaseLost, psycopg.errors.SerializationFailure) as error:
            told.append(error)
            raise

    async with shop.app as app:
        jobs = [await pays.enqueue(number) for number in range(20)]
        async with app.worker():
            for job in jobs:
                await job.result(timeout=20)
        assert sorted(map(int, await shop.ledger())) == list(range(20))
    assert told, "some had to be done again"
    assert [error for error in told if isinstance(error, LeaseLost)] == []


@pytest.mark.parametrize("way", ["transaction", "sync_transaction"])
async def test_transactions_that_find_no_connection_are_told_in_time_and_the_worker_goes_on(
    postgres_url: str, way: str
) -> None:
    shop = open_shop(postgres_url, "&pool=2&timeout=0.5")
    over = threading.Event()
    entered = threading.Semaphore(0)

    @shop.app.task(retry=Fixed(0, wait=0))
    async def transaction(ctx: Context) -> None:
        async with ctx.transaction():
            entered.release()
            assert await asyncio.to_thread(over.wait, 20)

    @shop.app.task(retry=Fixed(0, wait=0))
    def sync_transaction(ctx: Context) -> None:
        with ctx.sync_transaction():
            entered.release()
            assert over.wait(20)

    @shop.app.task
    async def plain(number: int) -> int:
        return number

    async with shop.app as app, app.worker():
        held = [await app.tasks[way].enqueue() for _ in range(2)]
        for _ in held:
            assert await asyncio.to_thread(entered.acquire, timeout=10)
        refused = await app.tasks[way].enqueue()
        for number in range(10):
            assert await (await plain.enqueue(number)).result(timeout=10) == number
        with pytest.raises(JobFailed, match=r"StoreUnavailable: .*all 2 connections were in use for 0\.5 s"):
            await refused.result(timeout=10)
        over.set()
        for job in held:
            await job.result(timeout=10)


async def test_a_blocking_connection_that_ended_while_idle_is_not_lent_again(
    postgres_url: str,
) -> None:
    shop = open_shop(postgres_url)
    transactions = shop.app.store.transactions
    assert transactions is not None

    def session() -> int:
        with transactions.begin_sync() as connection:
            return int(connection.execute("SELECT pg_backend_pid()").fetchone()[0])

    first = session()
    assert session() == first, "it is used again"
    await shop.query(f"SELECT pg_terminate_backend({first}, 5000)")
    assert session() != first
    await shop.app.store.close()


def test_a_forked_process_does_not_use_the_connections_of_its_parent(postgres_url: str) -> None:
    shop = open_shop(postgres_url)
    transactions = shop.app.store.transactions
    assert transactions is not None

    def session() -> int:
        with transactions.begin_sync() as connection:
            return int(connection.execute("SELECT pg_backend_pid()").fetchone()[0])

    first = session()
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        try:
            os.write(writing, str(session()).encode())
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    assert int(os.read(reading, 20)) != first
    os.close(reading)
    os.close(writing)
    assert session() == first
    asyncio.run(shop.app.store.close())
