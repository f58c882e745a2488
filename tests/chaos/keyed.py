"""A producer: `python -m tests.chaos.keyed COUNT GATE` enqueues under so many keys at once, prints ids."""

import asyncio
import random
import sys

from tests.chaos import program


async def main(count: int, gate: str) -> None:
    async with program.app:
        print("ready", flush=True)  # noqa: T201
        while not program.is_open(gate):  # noqa: ASYNC110  another process opens it
            await asyncio.sleep(0.001)
        order = random.sample(range(count), count)
        jobs = await asyncio.gather(*(program.work.using(key=f"key-{each}").enqueue() for each in order))
        for each, job in zip(order, jobs, strict=True):
            print("key", each, job.id)  # noqa: T201


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]), sys.argv[2]))
