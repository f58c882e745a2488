"""A producer: `python -m tests.chaos.produce DELAY ID ...` enqueues a job for each id."""

import asyncio
import sys

from tests.chaos import program


async def main(delay: float, ids: list[str]) -> None:
    async with program.app:
        for job in ids:
            await program.work.using(delay=delay, id=job).enqueue()


if __name__ == "__main__":
    asyncio.run(main(float(sys.argv[1]), sys.argv[2:]))
