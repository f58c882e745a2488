"""A synchronous standby: nothing is acknowledged that it has not got, also not by asking again."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import pytest

from holdfast.model.errors import OutcomeUnknown
from holdfast.model.lifecycle import State
from holdfast.model.records import Tick
from holdfast.store import Session
from holdfast.stores.postgres import PostgresStore
from holdfast.stores.postgres.queries import Queries
from holdfast.testing.conformance.case import LONG, ended, new_job, worker_record
from tests.postgres.fault_support import claiming
from tests.servers.postgres import Postgres
from tests.servers.sql import execute

ANN = "ann"


def wait_for(server: Postgres, standbys: str) -> None:
    """Lets commits wait for these standbys, none of which is there."""
    server.execute(f"ALTER SYSTEM SET synchronous_standby_names = '{standbys}'")
    server.execute("SELECT pg_reload_conf()")


@asynccontextmanager
async def opened(server: Postgres) -> AsyncGenerator[Session]:
    store = PostgresStore.from_url(f"{server.url}?timeout=0.5", auto_migrate=True)
    session = await store.connect("shop")
    try:
        yield session
    finally:
        await session.close()
        await store.close()


async def test_a_job_that_no_standby_has_is_not_acknowledged_by_asking_again(
    private_postgres: Postgres,
) -> None:
    async with opened(private_postgres) as session:
        job = new_job(key="once")
        await asyncio.to_thread(wait_for, private_postgres, "nobody")
        for _ in range(3):
            with pytest.raises(OutcomeUnknown):
                await session.jobs.add([job])
        with pytest.raises(OutcomeUnknown):
            await session.jobs.add([new_job(key="once")])
        assert await session.jobs.get(job.id) is not None, "it is there, but on this server alone"
        await asyncio.to_thread(wait_for, private_postgres, "")
        [added] = await session.jobs.add([job])
        assert not added.created


async def test_a_completion_that_no_standby_has_is_not_acknowledged_by_asking_again(
    private_postgres: Postgres,
) -> None:
    async with opened(private_postgres) as session:
        await session.fleet.register(worker_record(ANN), LONG)
        await session.jobs.add([new_job()])
        [job] = (await session.jobs.tick(claiming(1))).claimed
        await asyncio.to_thread(wait_for, private_postgres, "nobody")
        for repeat in (False, True, True):
            with pytest.raises(OutcomeUnknown):
                await session.jobs.tick(Tick(worker=ANN, seq=2, moves=[ended(job)], repeat=repeat))
        stored = await session.jobs.get(job.id)
        assert stored is not None
        assert stored.state is State.SUCCESS
        await asyncio.to_thread(wait_for, private_postgres, "")
        ticked = await session.jobs.tick(Tick(worker=ANN, seq=2, moves=[ended(job)], repeat=True))
        assert ticked.verdicts == ["accepted"]


def test_whoever_may_sign_in_may_wait_for_a_standby(postgres_url: str) -> None:
    called = "pg_logical_emit_message(boolean, text, text)"
    assert called.partition("(")[0] in Queries().assure
    assert execute(postgres_url, "SELECT has_function_privilege('public', $1, 'EXECUTE')", called) == [
        (True,)
    ]
