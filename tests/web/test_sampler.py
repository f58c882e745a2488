"""The overview does not wait for the store, and what it asks of the store stays cheap."""

import asyncio
import json
from typing import Any

import asyncpg
import pytest

from holdfast import Holdfast
from holdfast.stores.postgres.address import parse
from holdfast.stores.postgres.queries import queries
from holdfast.web.access import Role
from tests.web.serving import Serving, make_web, serving
from tests.web.shop import make_shop

FILL = """
INSERT INTO holdfast.job (due, created, priority, id, ns, ready, task, queue, payload)
SELECT n, n, n % 3, gen_random_uuid(), (SELECT id FROM holdfast.namespace LIMIT 1), n % 10 > 0, 'add',
    'queue-' || n % 8, '{}'
FROM generate_series(1, 2000) AS n
"""


def test_while_the_store_is_slow_the_last_overview_is_given(
    server: Serving, shop: Holdfast, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = server[Role.READ].get("/api/v1/overview").json()

    async def never() -> list[Any]:
        await asyncio.Event().wait()
        return []

    monkeypatch.setattr(shop.queues, "list", never)
    assert server[Role.READ].get("/api/v1/overview").json()["stats"] == before["stats"]


def _tables(plan: Any) -> set[str]:
    found = {plan["Relation Name"]} if "Relation Name" in plan else set()
    return found.union(*(_tables(each) for each in plan.get("Plans", ())))


def test_on_postgresql_no_look_reads_finished_jobs(postgres_database: str) -> None:
    shop = make_shop(postgres_database, auto_migrate=True)
    with serving(make_web(shop)) as server:

        async def fill() -> list[Any]:
            connection = await asyncpg.connect(postgres_database)
            try:
                await connection.execute(FILL)
                known = queries(parse(postgres_database))
                asked = (known.count, known.queues, known.workers)
                return [
                    json.loads(await connection.fetchval(f"EXPLAIN (FORMAT JSON) {each}", 1))[0]["Plan"]
                    for each in asked
                ]
            finally:
                await connection.close()

        plans = server.run(fill())
        read = set[str]().union(*map(_tables, plans))
        assert "job" in read
        assert not {name for name in read if name.startswith(("done", "attempt"))}
        # A change makes the next answer a new one.
        server.admin.post("/api/v1/queues/queue-0/pause")
        overview = server.admin.get("/api/v1/overview").json()
        assert overview["stats"]["queued"] == 2_000
        assert len(overview["queues"]) == 8
        assert overview["queues"][0]["paused"]
        assert overview["queues"][0]["oldest"] > 0
