"""A proxy in front of a Redis server, which can be told to lose answers."""

import asyncio
from contextlib import suppress
from typing import Literal, Self
from urllib.parse import urlsplit

Point = Literal["before", "after", "half", "silent"]
"""Before the server got the call, after it answered, in the middle of its answer, or never a word again."""

HOST = "127.0.0.1"


class Proxy:
    """Listens on a port of its own. `lose` names the call, by some of its bytes, and when it is cut off."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self._target = (parts.hostname or HOST, parts.port or 6379)
        self._loss: tuple[bytes, Point] | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self.met = asyncio.Event()
        self.accepted = 0

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._accept, HOST)
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        serving = list(self._tasks)
        for task in serving:
            task.cancel()
        await asyncio.gather(*serving, return_exceptions=True)

    @property
    def url(self) -> str:
        return f"redis://{HOST}:{self._server.sockets[0].getsockname()[1]}/0"

    def lose(self, call: bytes, point: Point) -> None:
        self._loss = (call, point)
        self.met.clear()

    async def _accept(self, client: asyncio.StreamReader, to_client: asyncio.StreamWriter) -> None:
        self.accepted += 1
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            server, to_server = await asyncio.open_connection(*self._target)
            try:
                await self._pass_on(client, to_server, server, to_client)
            finally:
                to_server.transport.abort()
        finally:
            to_client.transport.abort()
            self._tasks.discard(task)

    async def _pass_on(
        self,
        client: asyncio.StreamReader,
        to_server: asyncio.StreamWriter,
        server: asyncio.StreamReader,
        to_client: asyncio.StreamWriter,
    ) -> None:
        lost: asyncio.Future[Point] = asyncio.get_running_loop().create_future()
        ways = [
            asyncio.create_task(self._send(client, to_server, lost)),
            asyncio.create_task(self._answer(server, to_client, lost)),
        ]
        try:
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for way in ways:
                way.cancel()
            await asyncio.gather(*ways, return_exceptions=True)

    async def _send(
        self, client: asyncio.StreamReader, to_server: asyncio.StreamWriter, lost: asyncio.Future[Point]
    ) -> None:
        with suppress(OSError):
            while data := await client.read(1 << 20):
                if self._loss is not None and self._loss[0] in data:
                    point = self._loss[1]
                    self._loss = None
                    if point == "before":
                        self.met.set()
                        return
                    lost.set_result(point)
                to_server.write(data)

    async def _answer(
        self, server: asyncio.StreamReader, to_client: asyncio.StreamWriter, lost: asyncio.Future[Point]
    ) -> None:
        with suppress(OSError):
            while data := await server.read(1 << 20):
                if lost.done():
                    self.met.set()
                    if lost.result() == "silent":
                        await asyncio.get_running_loop().create_future()
                    if lost.result() == "half":
                        to_client.write(data[: len(data) // 2])
                        await to_client.drain()
                    return
                to_client.write(data)
