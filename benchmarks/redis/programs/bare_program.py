"""A bare loop on redis-py: one list, one hash, batches of a hundred, no framework.

A claim and the completion of the batch before it are under way at once. A claimed job stands in a sorted set
by the end of its lease, which nobody looks at: no token, no retry, no history. What driver and server can do.
"""

import asyncio
import json
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from importlib import import_module
from typing import Any
from uuid import uuid4

from benchmarks.programs.speaking import Body, main

BATCH = 100
LEASE = 120
ADD = """
for i = 2, #ARGV do
  redis.call('HSET', KEYS[2], ARGV[i], ARGV[1])
  redis.call('LPUSH', KEYS[1], ARGV[i])
end
"""
CLAIM = """
local ids = redis.call('RPOP', KEYS[1], ARGV[1])
if not ids then return {{}, {}} end
local leases = {}
for i, id in ipairs(ids) do
  leases[2 * i - 1] = ARGV[2]
  leases[2 * i] = id
end
redis.call('ZADD', KEYS[3], unpack(leases))
return {ids, redis.call('HMGET', KEYS[2], unpack(ids))}
"""
COMPLETE = """
redis.call('ZREM', KEYS[2], unpack(ARGV))
redis.call('HDEL', KEYS[1], unpack(ARGV))
"""


class BareQueue:
    def __init__(self, url: str) -> None:
        self._url = url
        self._client: Any = None

    @asynccontextmanager
    async def opened(self) -> AsyncGenerator[None]:
        async with import_module("redis.asyncio").Redis.from_url(self._url) as self._client:
            yield

    async def setup(self) -> None:
        """Redis needs none."""

    async def push(self, sent: int) -> None:
        await self._add(sent, 1)

    async def push_many(self, count: int) -> None:
        await self._add(0, count)

    async def work(self) -> None:
        body = Body()

        async def one(job: bytes, blob: bytes) -> bytes:
            body.run(json.loads(blob)["sent"])
            return job

        async with self.opened():
            claim, complete = self._client.register_script(CLAIM), self._client.register_script(COMPLETE)
            completion: asyncio.Task[None] | None = None
            while True:
                ids, blobs = await claim(["ready", "jobs", "leases"], [BATCH, time.time() + LEASE])
                if completion is not None:
                    await completion
                if not ids:
                    await asyncio.Event().wait()
                ran = await asyncio.gather(
                    *[asyncio.create_task(one(*pair)) for pair in zip(ids, blobs, strict=True)]
                )
                completion = asyncio.create_task(complete(["jobs", "leases"], ran))

    async def _add(self, sent: int, count: int) -> None:
        blob = json.dumps({"name": "work", "queue": "default", "priority": 0, "attempts": 0, "sent": sent})
        ids = [uuid4().hex for _ in range(count)]
        await self._client.eval(ADD, 2, "ready", "jobs", blob, *ids)


if __name__ == "__main__":
    main(BareQueue)
