"""A server with the dashboard on loopback, and the application behind it."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import uvicorn

from holdfast import Context, Event, Holdfast, Job, every
from holdfast.engine.worker import Worker
from holdfast.web import Hosts, Role, Token, create
from tests.dashboard.desk import Loop

T = TypeVar("T")

TOKENS = {role: f"a-token-for-{role}-that-is-long-enough" for role in Role}


def make_app() -> Holdfast:
    """An application in memory whose tasks succeed, fail, or wait until they are let go."""
    app = Holdfast("memory://", retry="never")

    @app.task(name="mail.greet", queue="mail")
    async def greet(name: str) -> str:
        return f"Hello, {name}"

    @app.task(name="billing.charge", queue="billing")
    async def charge(amount: int, password: str = "") -> None:
        raise RuntimeError(f"the gateway refused {amount}")

    @app.task(name="media.encode", queue="media")
    async def encode(ctx: Context[Any], title: str) -> None:
        ctx.progress(0.4, "reel 2 of 5")
        await app.state.wait()

    @app.on("orders", group="ledger")
    async def book(event: Event) -> None:
        if event.type == "broken":
            raise ValueError("negative amount")

    return app


class Site:
    """The dashboard of a fresh application; `ask` does something with it on its event loop."""

    def __init__(self, loop: Loop) -> None:
        self._loop = loop
        self.app = make_app()
        self.port = 0
        self._server: uvicorn.Server | None = None
        self._serving: asyncio.Task[None] | None = None
        self._worker: Worker | None = None
        loop.run(self._open())
        self.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/"

    def ask(self, work: Callable[[], Awaitable[T]]) -> T:
        """Calls it on the event loop of the application, and waits for what comes of it."""

        async def call() -> T:
            return await work()

        return self._loop.run(call())

    def start(self) -> None:
        """Serves, on the port that it had before if there was one."""
        self.ask(self._start)

    def stop(self) -> None:
        """Stops serving. The application stays open."""
        self.ask(self._stop)

    def enqueue(self, task: str, **arguments: Any) -> Job[Any]:
        return self.ask(lambda: self.app.tasks[task].enqueue(**arguments))

    def drain(self) -> None:
        """Runs all that is due."""
        self.ask(lambda: self.app.worker(["mail", "billing"]).run(until_idle=True))

    def work(self) -> Worker:
        """A worker that goes on until the site is closed."""
        assert self._worker is None
        self._worker = self.app.worker(["mail", "billing", "media"], concurrency=4)
        self.ask(self._worker.__aenter__)
        return self._worker

    def let_go(self) -> None:
        """Lets the handlers that wait go on."""

        async def set_it() -> None:
            self.app.state.set()

        self.ask(set_it)

    def job(self, job_id: str) -> Job[Any]:
        found = self.ask(lambda: self.app.get(job_id))
        assert found is not None
        return found

    def schedule(self, name: str = "hourly") -> None:
        call = self.app.tasks["mail.greet"].call(name="clock")
        self.ask(lambda: self.app.schedules.put(name, every(hours=1), call))

    def fill_batch(self, size: int = 3) -> str:
        """A batch of jobs that are due tomorrow, left open."""

        async def fill() -> str:
            batch = self.app.batch()
            calls = [
                self.app.tasks["mail.greet"].using(delay=86_400).call(name=str(at)) for at in range(size)
            ]
            await batch.add(*calls)
            return batch.id

        return self.ask(fill)

    def close(self) -> None:
        self.stop()
        self._loop.run(self._close())

    async def _open(self) -> None:
        self.app.state = asyncio.Event()
        await self.app.__aenter__()

    async def _start(self) -> None:
        tokens = [Token.of(f"ada-{role}", role, secret) for role, secret in TOKENS.items()]
        web = create(self.app, tokens=tokens, hosts=Hosts())
        config = uvicorn.Config(
            web, host="127.0.0.1", port=self.port, log_config=None, timeout_graceful_shutdown=1
        )
        self._server = server = uvicorn.Server(config)
        self._serving = asyncio.create_task(server.serve())
        while not server.started:
            assert not self._serving.done(), "the server did not start"
            await asyncio.sleep(0.01)
        self.port = server.servers[0].sockets[0].getsockname()[1]

    async def _stop(self) -> None:
        if self._server is not None and self._serving is not None:
            self._server.should_exit = True
            await self._serving
            self._server = None

    async def _close(self) -> None:
        self.app.state.set()
        if self._worker is not None:
            await self._worker.__aexit__(None, None, None)
        await self.app.__aexit__(None, None, None)
