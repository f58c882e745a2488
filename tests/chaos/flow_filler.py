"""Fills a batch and says its id after every step, until it is killed."""

import asyncio

from tests.chaos.flow_program import app, closing, member


async def main() -> None:
    async with app, app.batch(closing.call()) as batch:
        while True:
            await batch.add(member.call(batch.id, 0), member.call(batch.id, 1))
            print("added", batch.id, flush=True)  # noqa: T201


if __name__ == "__main__":
    asyncio.run(main())
