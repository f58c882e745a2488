"""Idle workers on PostgreSQL: a new job is one worker's, and the others are left alone."""

from collections import Counter
from functools import partial
from pathlib import Path

import pytest

from tests.chaos import program
from tests.chaos.postgres_site import PostgresSite
from tests.chaos.waiting import until

pytestmark = pytest.mark.process

WORKERS = 4
JOBS = 10
COUNTED = """
CREATE TABLE claims (worker text, number bigint GENERATED ALWAYS AS IDENTITY);
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


class Claims:
    """How often workers have asked for jobs without anything to tell."""

    def __init__(self, site: PostgresSite) -> None:
        self._site = site
        for statement in COUNTED.split(";\n", 2):
            site.query(statement)

    def all(self) -> Counter[str]:
        return Counter(worker for (worker,) in self._site.query("SELECT worker FROM public.claims"))

    def standing(self) -> int:
        """How many workers are idle and have said so."""
        return int(self._site.query("SELECT count(*) FROM holdfast.standing WHERE seq > 0")[0][0])


async def all_stand(claims: Claims) -> None:
    await until(claims.standing, "every worker is idle", partial(int.__eq__, WORKERS))


async def test_a_new_job_is_handed_to_one_idle_worker_and_no_other_asks(
    tmp_path: Path, postgres_database: str
) -> None:
    async with PostgresSite(tmp_path, postgres_database, poll_seconds=600) as site:
        claims = Claims(site)
        workers = [site.worker() for _ in range(WORKERS)]
        for worker in workers:
            await worker.starts()
        await all_stand(claims)
        before = claims.all()
        for _ in range(JOBS):
            await site.finished(*await site.add(program.work.call()))
            await all_stand(claims)
        # One that was given a job may ask for more before it has done it.
        assert sum((claims.all() - before).values()) <= JOBS
        assert {effect.pid for effect in site.effects("began")} == {worker.pid for worker in workers}


async def test_what_is_not_handed_over_wakes_each_idle_worker_once(
    tmp_path: Path, postgres_database: str
) -> None:
    async with PostgresSite(tmp_path, postgres_database, poll_seconds=600) as site:
        claims = Claims(site)
        for worker in [site.worker() for _ in range(WORKERS)]:
            await worker.starts()
        await all_stand(claims)
        before = claims.all()
        for number in range(1, JOBS + 1):
            await site.finished(*await site.add(*[program.work.call() for _ in range(2)]))
            least = {worker: before[worker] + number for worker in before}
            await until(claims.all, "every worker was woken", partial(at_least, least))
            await all_stand(claims)
        asked = claims.all() - before
        assert len(asked) == WORKERS
        # Whoever got jobs asks once more before they are done, and others did not.
        assert sum(asked.values()) <= (WORKERS + 1) * JOBS


async def test_an_idle_worker_that_was_killed_is_passed_over(tmp_path: Path, postgres_database: str) -> None:
    async with PostgresSite(tmp_path, postgres_database, poll_seconds=600, lease_seconds=600) as site:
        claims = Claims(site)
        first = site.worker()
        await first.starts()
        await until(claims.standing, "it is idle", partial(int.__eq__, 1))
        second = site.worker()
        await second.starts()
        await until(claims.standing, "both are idle", partial(int.__eq__, 2))
        first.kill()
        alive = "SELECT count(*) FROM holdfast.standing AS s JOIN pg_stat_activity AS a ON a.pid = s.pid"
        await until(lambda: site.query(alive)[0][0], "its backend is gone", partial(int.__eq__, 1))
        for _ in range(3):
            await site.finished(*await site.add(program.work.call()))
        assert {effect.pid for effect in site.effects("began")} == {second.pid}


def at_least(least: dict[str, int], found: Counter[str]) -> bool:
    return all(found[worker] >= count for worker, count in least.items())
