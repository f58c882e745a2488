"""Idle workers on PostgreSQL: a wake-up costs each of them one claim, and no more."""

from functools import partial
from pathlib import Path

import pytest

from tests.chaos import program
from tests.chaos.postgres_site import PostgresSite
from tests.chaos.waiting import until

pytestmark = pytest.mark.process

WORKERS = 4
WAKEUPS = 10
COUNTED = """
CREATE TABLE claims (worker text);
ALTER FUNCTION holdfast.tick_v1 RENAME TO tick_uncounted;
CREATE FUNCTION holdfast.tick_v1(
    integer, text, bigint, uuid[], bigint[], bigint[], bytea[], jsonb, text[], text[], integer, bigint,
    boolean, text, jsonb, bigint
) RETURNS TABLE (
    answer text, id uuid, task text, queue text, payload bytea, priority bigint, due bigint, created bigint,
    run integer, version integer, token bigint, headers bytea, rest json
) LANGUAGE sql AS $$
    -- A tick that tells something is sent for that, and asks by the way.
    INSERT INTO claims SELECT $2 WHERE $9 IS NOT NULL AND $4 IS NULL AND $8 IS NULL;
    SELECT * FROM holdfast.tick_uncounted(
        $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16)
$$;
"""


def at_least(least: dict[str, int], found: dict[str, int]) -> bool:
    return all(found[worker] >= count for worker, count in least.items())


async def test_a_wake_up_costs_each_idle_worker_one_claim(tmp_path: Path, postgres_database: str) -> None:
    async with PostgresSite(tmp_path, postgres_database, poll_seconds=600) as site:
        for statement in COUNTED.split(";\n", 2):
            site.query(statement)
        workers = [site.worker() for _ in range(WORKERS)]
        for worker in workers:
            await worker.starts()

        def claims() -> dict[str, int]:
            return dict(site.query("SELECT worker, count(*) FROM public.claims GROUP BY worker"))

        # A worker that has just begun to listen is woken once for what it may have missed.
        await until(claims, "every worker has asked once", lambda found: len(found) == WORKERS)
        await site.finished(*await site.add(program.work.call()))
        await until(claims, "every worker was woken", lambda found: min(found.values()) >= 2)
        before = claims()
        for number in range(1, WAKEUPS + 1):
            await site.finished(*await site.add(program.work.call()))
            least = {worker: count + number for worker, count in before.items()}
            await until(claims, "every worker was woken", partial(at_least, least))
        after = claims()
        assert {worker: after[worker] - before[worker] for worker in after} == dict.fromkeys(before, WAKEUPS)
