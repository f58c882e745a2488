"""How long GET /overview takes on PostgreSQL: `python -m benchmarks.overview [--jobs N] [--postgres URL]`.

The jobs all wait, which is the worst case: finished ones are counted when they finish. `cold` is the first
answer of a server that has never looked, `looks` is what one look of its sampler takes, which happens in the
background; `warm` is every other answer.
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
ANSWERS = 200


async def measure(url: str, jobs: int) -> None:
    app = Holdfast(url, auto_migrate=True)
    async with app:
        await app.stats()
        connection = await asyncpg.connect(url)
        await connection.execute(FILL, jobs, timeout=600)
        await connection.execute("VACUUM ANALYZE holdfast.job", timeout=600)
        await connection.close()
    web = create(app, tokens=[Token.of("bench", Role.READ, SECRET)])
    transport = httpx.ASGITransport(web)
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost", headers=HEADERS) as client:
        cold = await _timed(client)
        warm = [await _timed(client) for _ in range(ANSWERS)]
        looks = [await _looked(web) for _ in range(10)]
        counted = (await client.get("/api/v1/overview")).json()["stats"]
    await web.site.sampler.stop()
    await web.site.link.close()
    print(f"{jobs:,} waiting jobs in {len(counted['by_queue'])} queues, counted as {counted['queued']:,}")
    print(f"cold  {cold:8.1f} ms")
    print(f"looks {statistics.median(looks):8.1f} ms, at most {max(looks):.1f}")
    print(f"warm  {statistics.median(warm):8.1f} ms, at most {max(warm):.1f}")


async def _looked(web: Web) -> float:
    began = time.perf_counter()
    await web.site.sampler.first(60)
    return (time.perf_counter() - began) * 1_000


async def _timed(client: httpx.AsyncClient) -> float:
    began = time.perf_counter()
    answer = await client.get("/api/v1/overview")
    assert answer.status_code == 200, answer.text
    return (time.perf_counter() - began) * 1_000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=1_000_000)
    parser.add_argument("--postgres", metavar="URL")
    given = parser.parse_args()
    with provide(given.postgres) as server:
        asyncio.run(measure(server.url, given.jobs))


if __name__ == "__main__":
    main()
