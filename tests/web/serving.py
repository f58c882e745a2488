"""A server under test: real, on loopback, in a thread; with an application in memory and its worker."""

import asyncio
import threading
from collections.abc import Callable, Coroutine, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

import httpx
import uvicorn
from starlette.types import ASGIApp, Receive, Scope, Send

from holdfast import Holdfast
from holdfast.web import Bounds, Hosts, Role, Token, Web, create

T = TypeVar("T")

SECRETS = {role: f"a-long-token-to-{role}" for role in Role}
TOKENS = [Token.of(str(role), role, secret) for role, secret in SECRETS.items()]
PATIENCE = 30


def bearer(role: Role) -> dict[str, str]:
    return {"Authorization": f"Bearer {SECRETS[role]}"}


@dataclass
class Serving:
    """The server, and an HTTP client for each role, and for nobody."""

    url: str
    loop: asyncio.AbstractEventLoop
    clients: dict[Role | None, httpx.Client]

    def __getitem__(self, role: Role | None) -> httpx.Client:
        return self.clients[role]

    @property
    def admin(self) -> httpx.Client:
        return self.clients[Role.ADMIN]

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Runs it where the server runs."""
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(PATIENCE)

    def drain(self, app: Holdfast) -> None:
        """Has a worker of the application do all that is due."""

        async def work() -> None:
            await app.worker().run(until_idle=True)

        self.run(work())


def make_web(app: Holdfast, bounds: Bounds | None = None, hosts: Hosts | None = None) -> Web:
    return create(app, tokens=TOKENS, hosts=hosts or Hosts(), bounds=bounds)


class _Noting:
    """Notes the event loop that an ASGI application runs on."""

    def __init__(self, app: ASGIApp, ready: Callable[[], None]) -> None:
        self._app = app
        self._ready = ready

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            self._ready()
        await self._app(scope, receive, send)


@contextmanager
def serving(app: ASGIApp, prefix: str = "") -> Generator[Serving]:
    """Serves the ASGI application on a free port until the block is left."""
    loops: list[asyncio.AbstractEventLoop] = []
    started = threading.Event()

    class Server(uvicorn.Server):
        async def startup(self, sockets: Any = None) -> None:
            await super().startup(sockets)
            started.set()

    noting = _Noting(app, lambda: loops.append(asyncio.get_running_loop()))
    config = uvicorn.Config(noting, port=0, log_config=None, access_log=False, timeout_graceful_shutdown=5)
    server = Server(config)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    try:
        assert started.wait(PATIENCE)
        port = server.servers[0].sockets[0].getsockname()[1]
        url = f"http://127.0.0.1:{port}{prefix}"
        clients: dict[Role | None, httpx.Client] = {
            role: httpx.Client(base_url=url, headers={} if role is None else bearer(role), timeout=PATIENCE)
            for role in (None, *Role)
        }
        try:
            yield Serving(url, loops[0], clients)
        finally:
            for client in clients.values():
                client.close()
    finally:
        server.should_exit = True
        thread.join(PATIENCE)
    assert not thread.is_alive()
