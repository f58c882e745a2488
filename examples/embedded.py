"""A small asyncio service with its worker inside: it answers at once and does the slow part as a job.

`lifespan` is what a web framework wants, for instance FastAPI(lifespan=lifespan). Run it: python embedded.py
"""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from holdfast import Context, Holdfast, Job


@dataclass
class Mailer:
    """What the handlers share; in real life a connection pool."""

    sent: list[str] = field(default_factory=list[str])

    async def send(self, address: str, key: str) -> None:
        # A real service gets the key as well, so that a repeated attempt does not send a second mail.
        if key not in self.sent:
            self.sent.append(key)
            print("mail to", address)


mailer = Mailer()
app = Holdfast("sqlite:///embedded.db", state=mailer)


@app.task(timeout=30)
async def welcome(ctx: Context[Mailer], address: str) -> str:
    await ctx.state.send(address, ctx.key)
    return address


@app.on_startup
async def greet() -> None:
    print("worker is ready")


@asynccontextmanager
async def lifespan(_: object) -> AsyncGenerator[None]:
    async with app, app.worker(concurrency=5):
        yield


async def sign_up(address: str) -> Job[str]:
    """A request handler: when it returns, the job is stored and will be done."""
    return await welcome.using(key=f"welcome-{address}").enqueue(address)


async def main() -> None:
    async with lifespan(None):
        jobs = await asyncio.gather(*(sign_up(name) for name in ("ann@example.org", "bob@example.org")))
        done = await asyncio.gather(*(job.result(timeout=10) for job in jobs))
        print("welcomed", len(done))


if __name__ == "__main__":
    asyncio.run(main())
