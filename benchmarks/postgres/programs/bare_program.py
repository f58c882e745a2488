"""A bare loop on asyncpg: one table, batches of a hundred, no framework.

A claim and the completion of the batch before it are under way at once, on two connections. No lease, no
retry, no history: what the driver and the server can do.
"""

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from importlib import import_module
from typing import Any
from uuid import UUID, uuid4

from benchmarks.programs.speaking import Body, main

BATCH = 100
SETUP = """
CREATE TABLE job (
    id uuid PRIMARY KEY,
    queue text NOT NULL,
    name text NOT NULL,
    priority smallint NOT NULL DEFAULT 0,
    state text NOT NULL DEFAULT 'waiting',
    due timestamptz NOT NULL DEFAULT now(),
    attempts smallint NOT NULL DEFAULT 0,
    payload jsonb NOT NULL,
    worker uuid,
    lease_until timestamptz
);
CREATE INDEX ON job (queue, priority, due) WHERE state = 'waiting';
"""
ADD = """
INSERT INTO job (id, queue, name, payload) SELECT id, 'default', 'work', $2 FROM unnest($1::uuid[]) AS n(id)
"""
CLAIM = """
UPDATE job AS j
SET state = 'running', attempts = j.attempts + 1, worker = $1, lease_until = now() + interval '120 s'
FROM (SELECT id FROM job WHERE queue = 'default' AND state = 'waiting' AND due <= now()
      ORDER BY priority, due LIMIT $2 FOR UPDATE SKIP LOCKED) AS c
WHERE j.id = c.id
RETURNING j.id, j.name, j.payload, j.attempts
"""
COMPLETE = "DELETE FROM job AS j USING unnest($1::uuid[]) AS d(id) WHERE j.id = d.id"


class BareQueue:
    def __init__(self, url: str) -> None:
        self._url = url
        self._connection: Any = None

    @asynccontextmanager
    async def opened(self) -> AsyncGenerator[None]:
        self._connection = await import_module("asyncpg").connect(self._url)
        yield
        await self._connection.close()

    async def setup(self) -> None:
        async with self.opened():
            await self._connection.execute(SETUP)

    async def push(self, sent: int) -> None:
        await self._connection.execute(ADD, [uuid4()], json.dumps({"sent": sent}))

    async def push_many(self, count: int) -> None:
        await self._connection.execute(ADD, [uuid4() for _ in range(count)], json.dumps({"sent": 0}))

    async def work(self) -> None:
        body = Body()

        async def one(row: Any) -> UUID:
            body.run(json.loads(row["payload"])["sent"])
            found: UUID = row["id"]
            return found

        async with self.opened():
            ended = await import_module("asyncpg").connect(self._url)
            worker, completion = uuid4(), None
            while rows := await self._connection.fetch(CLAIM, worker, BATCH):
                ids = await asyncio.gather(*[asyncio.create_task(one(row)) for row in rows])
                if completion is not None:
                    await completion
                completion = asyncio.create_task(ended.execute(COMPLETE, ids))
            if completion is not None:
                await completion
            await asyncio.Event().wait()


if __name__ == "__main__":
    main(BareQueue)
