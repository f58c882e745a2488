"""Whoever comes after another by the store's order does so by the store's time as well."""

import asyncio
from collections.abc import Callable

import pytest

from holdfast.model.flow import Scope
from holdfast.model.records import JobRecord, NewJob
from holdfast.testing.conformance.case import new_job
from tests.chaos.waiting import until_async
from tests.postgres.flow_support import SCHEMA, Flows, after, flowing, in_turn, keyed, limit

GATE = 4711
SLOW_CLOCK = f"""
    CREATE SEQUENCE {SCHEMA}.reading;
    CREATE TABLE {SCHEMA}.stuck (reading bigint NOT NULL);
    CREATE OR REPLACE FUNCTION {SCHEMA}.now_v1() RETURNS bigint LANGUAGE plpgsql VOLATILE
    SET lock_timeout = '30s'
    AS $$
    DECLARE
        v_now bigint := (extract(epoch FROM clock_timestamp()) * 1000000)::bigint;
    BEGIN
        IF nextval('{SCHEMA}.reading') IN (SELECT s.reading FROM {SCHEMA}.stuck AS s) THEN
            PERFORM pg_advisory_xact_lock({GATE});
        END IF;
        RETURN v_now;
    END
    $$
"""
WAITS = f"SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND objid = {GATE} AND NOT granted"


Make = Callable[[JobRecord | None], NewJob]


def behind_a_limit(_: JobRecord | None) -> NewJob:
    return keyed("busy")


def in_a_sequence(_: JobRecord | None) -> NewJob:
    return in_turn()


def after_a_job(first: JobRecord | None) -> NewJob:
    return after(first) if first else new_job()


@pytest.mark.parametrize("make", [behind_a_limit, in_a_sequence, after_a_job])
async def test_a_claim_is_not_before_the_end_that_it_waited_for(postgres_database: str, make: Make) -> None:
    """However long passes between one reading of the clock and what the tick does next."""
    async with flowing(postgres_database) as at:
        await at.connection.execute(SLOW_CLOCK)
        await at.flow.put([limit(1, Scope.KEY, "busy")])
        reading = 0
        is_stuck = True
        while is_stuck:
            reading += 1
            await at.add(make(None))
            [first] = await at.claim()
            [second] = await at.add(make(first))
            is_stuck, claimed = await _claimed_while_it_ends(at, first, reading)
            assert [job.id for job in claimed] == [second.id]
            [attempt] = await at.jobs.history(first.id)
            assert attempt.finished <= claimed[0].token, f"stuck at reading {reading}"
            await at.finish(*claimed)
        assert reading > 2


async def _claimed_while_it_ends(at: Flows, job: JobRecord, reading: int) -> tuple[bool, list[JobRecord]]:
    """Whether a tick got stuck there, and what it claimed, or else the next one, if the job ended then."""
    await at.connection.execute(f"SELECT pg_advisory_lock({GATE})")
    await at.connection.execute(f"INSERT INTO {SCHEMA}.stuck VALUES ({reading})")
    await at.connection.execute(f"ALTER SEQUENCE {SCHEMA}.reading RESTART")
    claiming = asyncio.ensure_future(at.claim())

    async def is_stuck_or_done() -> bool:
        return claiming.done() or bool(await at.connection.fetchval(WAITS))

    await until_async(is_stuck_or_done, "it is stuck")
    is_stuck = not claiming.done()
    await at.connection.execute(f"DELETE FROM {SCHEMA}.stuck")
    await at.begin()
    await at.finish_in(job)
    await at.commit()
    await at.connection.execute(f"SELECT pg_advisory_unlock({GATE})")
    return is_stuck, await claiming or await at.claim()
