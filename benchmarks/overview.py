"""How long pages take on PostgreSQL: `python -m benchmarks.overview [--jobs N] [--finished N]`.

The jobs all wait, which is the worst case for the overview: finished ones are counted when they finish.
`cold` is the first answer of a server that has never looked, `looks` is what one look of its sampler takes,
which happens in the background; `warm` is every other answer. With `--finished` so many stand in the history
too, one of a thousand of them dead, and one of a hundred of another task.
"""

import argparse
import asyncio
import statistics
import time

import asyncpg
import httpx

from benchmarks.postgres.server import provide
from holdfast import Holdfast
from holdfast.web import Role, Token, Web, create

SECRET = "a-token-for-this-run"
HEADERS = {"Authorization": f"Bearer {SECRET}"}
FILL = """
INSERT INTO holdfast.job (due, created, priority, id, ns, ready, task, queue, payload)
SELECT n, n, n % 3, gen_random_uuid(), (SELECT id FROM holdfast.namespace LIMIT 1), n % 10 > 0, 'add',
    'queue-' || n % 8, '{}'
FROM generate_series(1, $1::bigint) AS n
"""
FINISH = """
INSERT INTO holdfast.done (ns, id, task, queue, payload, state, priority, due, created, started, finished,
                           run, failures, lost, suspect, version, token, ran_by, cancel_asked, reason, error)
SELECT (SELECT id FROM holdfast.namespace LIMIT 1),
    (lpad(to_hex(t / 1000), 12, '0') || '70008' || lpad(to_hex(n), 15, '0'))::uuid,
    CASE WHEN n % 100 = 1 THEN 'seldom' ELSE 'add' END, 'queue-' || n % 8, '{"a":1}', state, 0, t, t, t,
    t + 1000, 1, 0, 0, false, 3, t, 'a-worker-of-long-ago', false,
    CASE WHEN state = 6 THEN 'ValueError: no ' || n % 20 END, CASE WHEN state = 6 THEN 'ValueError: no' END
FROM generate_series($1::bigint, $2::bigint - 1) AS n
CROSS JOIN LATERAL (
    SELECT 1700000000000000 + n * 1000 AS t, CASE WHEN n % 1000 = 0 THEN 6 ELSE 3 END AS state) AS at
"""
STEP = 1_000_000
ANSWERS = 200
TRIES = 7
PAGES = {
    "overview": "overview",
    "queues": "queues",
    "one queue": "jobs?queue=queue-3&limit=25",
    "its chart": "series?queue=queue-3",
    "jobs": "jobs",
    "jobs by state": "jobs?state=success",
    "jobs by task": "jobs?task=seldom",
    "no such task": "jobs?task=nothing",
    "by tag": "jobs?tag=nothing",
    "dead letters": "dlq/groups",
    "dead of a task": "dlq/groups?task=seldom",
    "workers": "workers",
}


async def fill(url: str, jobs: int, finished: int) -> None:
    connection = await asyncpg.connect(url)
    await connection.execute(FILL, jobs, timeout=600)
    for start in range(0, finished, STEP):
        await connection.execute(FINISH, start, min(finished, start + STEP), timeout=600)
    for table in ("job", "done") if finished else ("job",):
        await connection.execute(f"VACUUM ANALYZE holdfast.{table}", timeout=600)
    await connection.close()


async def measure(url: str, jobs: int, finished: int) -> None:
    app = Holdfast(url, auto_migrate=True)
    async with app:
        await app.stats()
        await fill(url, jobs, finished)
    web = create(app, tokens=[Token.of("bench", Role.READ, SECRET)])
    transport = httpx.ASGITransport(web)
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost", headers=HEADERS) as client:
        cold = await _timed(client)
        warm = [await _timed(client) for _ in range(ANSWERS)]
        looks = [await _looked(web) for _ in range(10)]
        counted = (await client.get("/api/v1/overview")).json()["stats"]
        pages = await _pages(client) if finished else {}
    await web.site.sampler.stop()
    await web.site.link.close()
    print(f"{jobs:,} waiting jobs in {len(counted['by_queue'])} queues, counted as {counted['queued']:,}")
    print(f"cold  {cold:8.1f} ms")
    print(f"looks {statistics.median(looks):8.1f} ms, at most {max(looks):.1f}")
    print(f"warm  {statistics.median(warm):8.1f} ms, at most {max(warm):.1f}")
    for name, times in pages.items():
        first, *others = times
        print(f"{name:15} {first:8.1f} ms, then {statistics.median(others):.1f}, at most {max(others):.1f}")


async def _pages(client: httpx.AsyncClient) -> dict[str, list[float]]:
    waiting = (await client.get("/api/v1/jobs?state=scheduled&limit=1")).json()["jobs"][0]["id"]
    done = (await client.get("/api/v1/jobs?state=success&limit=1")).json()["jobs"][0]["id"]
    asked = {**PAGES, "one job": f"jobs/{waiting}", "one that is done": f"jobs/{done}"}
    return {name: [await _timed(client, path) for _ in range(TRIES)] for name, path in asked.items()}


async def _looked(web: Web) -> float:
    began = time.perf_counter()
    await web.site.sampler.first(60)
    return (time.perf_counter() - began) * 1_000


async def _timed(client: httpx.AsyncClient, path: str = "overview") -> float:
    began = time.perf_counter()
    answer = await client.get(f"/api/v1/{path}", timeout=60)
    assert answer.status_code == 200, (path, answer.text)
    return (time.perf_counter() - began) * 1_000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=1_000_000)
    parser.add_argument("--finished", type=int, default=0)
    parser.add_argument("--postgres", metavar="URL")
    given = parser.parse_args()
    with provide(given.postgres) as server:
        asyncio.run(measure(server.url, given.jobs, given.finished))


if __name__ == "__main__":
    main()
