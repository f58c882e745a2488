"""A proxy for PostgreSQL's wire protocol that loses answers, falls silent and hangs up when told to."""

import asyncio
import re
import struct
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Final, Literal, Self
from urllib.parse import urlsplit

HOST: Final = "127.0.0.1"
Point = Literal["before", "after"]
_CANCEL, _TLS, _GSS = 80877102, 80877103, 80877104


@dataclass(slots=True)
class Loss:
    """One request that meets with an accident, and what became of it.

    `point` says whether the server gets the request (after) or not (before). Then the client is cut off,
    or if `is_silent` hears nothing more on that connection.
    """

    text: str
    point: Point
    is_silent: bool
    met: asyncio.Event = field(default_factory=asyncio.Event)


class Link:
    """One connection through the proxy. It knows which statements were prepared on it."""

    def __init__(self, proxy: "Proxy", client: asyncio.StreamReader, to_client: asyncio.StreamWriter) -> None:
        self._proxy = proxy
        self._client = client
        self._to_client = to_client
        self._to_server: asyncio.StreamWriter | None = None
        self._prepared: dict[bytes, str] = {}
        self._losses: deque[Loss | None] = deque()
        self._losing: Loss | None = None
        self._is_mute = False

    async def serve(self) -> None:
        """Passes on what both sides say until one of them has ended."""
        opening = await self._read_opening()
        server, self._to_server = await asyncio.open_connection(*self._proxy.target)
        self._to_server.write(opening)
        sides = [asyncio.ensure_future(self._from_client()), asyncio.ensure_future(self._from_server(server))]
        try:
            await asyncio.wait(sides, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for side in sides:
                side.cancel()
            await asyncio.gather(*sides, return_exceptions=True)

    def cut(self) -> None:
        """Hangs up on both sides."""
        for side in (self._to_client, self._to_server):
            if side is not None:
                side.transport.abort()

    async def _read_opening(self) -> bytes:
        """The first packet that is for the server; wishes for encryption are declined here."""
        while True:
            head = await self._client.readexactly(8)
            length, code = struct.unpack("!ii", head)
            if code not in {_TLS, _GSS}:
                await self._proxy.speaking.wait()
                return head + await self._client.readexactly(length - 8)
            await self._proxy.speaking.wait()
            self._to_client.write(b"N")

    async def _from_client(self) -> None:
        assert self._to_server is not None
        while True:
            kind, body = await _read(self._client)
            await self._proxy.speaking.wait()
            if loss := self._proxy.loss_of(self._text(kind, body)):
                self._losing = loss
            if self._losing is not None and self._losing.point == "before":
                await self._lose(self._losing)
                return
            if kind in b"QS":
                self._losses.append(self._losing)
                self._losing = None
            self._to_server.write(kind + struct.pack("!i", len(body) + 4) + body)

    async def _from_server(self, server: asyncio.StreamReader) -> None:
        while True:
            kind, body = await _read(server)
            await self._proxy.speaking.wait()
            loss = self._losses[0] if self._losses else None
            if loss is None and not self._is_mute:
                self._to_client.write(kind + struct.pack("!i", len(body) + 4) + body)
            if kind == b"Z" and self._losses:
                self._losses.popleft()
                if loss is not None:
                    await self._lose(loss)

    async def _lose(self, loss: Loss) -> None:
        loss.met.set()
        if loss.is_silent:
            self._is_mute = True
            await asyncio.get_running_loop().create_future()
        self.cut()

    def _text(self, kind: bytes, body: bytes) -> str:
        """The statement that the message will have executed; empty if none."""
        if kind == b"Q":
            return body[:-1].decode()
        if kind == b"P":
            name, text, _ = body.split(b"\0", 2)
            self._prepared[name] = text.decode()
        if kind == b"B":
            _, name, _ = body.split(b"\0", 2)
            return self._prepared.get(name, "")
        return ""


class Proxy:
    """Listens on a port of its own in front of one server.

    `accepted` has the instant of every connection that somebody tried to make. While `speaking` is not set
    nothing is passed on. `chance` may say of any statement that its answer is to be lost.
    """

    def __init__(self, url: str) -> None:
        self._url = urlsplit(url)
        self.target = (self._url.hostname or HOST, self._url.port or 5432)
        self.accepted: list[float] = []
        self.speaking = asyncio.Event()
        self.speaking.set()
        self.is_down = False
        self.chance: Callable[[str], bool] | None = None
        self._losses: list[Loss] = []
        self._links: dict[Link, asyncio.Task[Any] | None] = {}

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._accept, HOST)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.close()
        serving = [task for task in self._links.values() if task is not None]
        for task in serving:
            task.cancel()
        await asyncio.gather(*serving, return_exceptions=True)

    @property
    def port(self) -> int:
        port: int = self._server.sockets[0].getsockname()[1]
        return port

    @property
    def url(self) -> str:
        """The URL of the same database, through the proxy."""
        user = f"{self._url.netloc.rpartition('@')[0]}@" if "@" in self._url.netloc else ""
        return self._url._replace(netloc=f"{user}{HOST}:{self.port}").geturl()

    def lose(self, text: str, point: Point = "after", *, is_silent: bool = False) -> Loss:
        """Has the next statement that this pattern is found in meet with an accident."""
        self._losses.append(Loss(text, point, is_silent))
        return self._losses[-1]

    def loss_of(self, text: str) -> Loss | None:
        """The accident that is due for this statement."""
        for loss in self._losses:
            if text and re.search(loss.text, text):
                self._losses.remove(loss)
                return loss
        if self.chance is not None and text and self.chance(text):
            return Loss(text, "after", is_silent=False)
        return None

    def cut(self) -> None:
        """Hangs up on everybody."""
        for link in list(self._links):
            link.cut()

    def fall_down(self) -> None:
        """Hangs up on everybody, now and whenever somebody calls."""
        self.is_down = True
        self.cut()

    async def _accept(self, client: asyncio.StreamReader, to_client: asyncio.StreamWriter) -> None:
        self.accepted.append(time.monotonic())
        link = Link(self, client, to_client)
        self._links[link] = asyncio.current_task()
        try:
            if not self.is_down:
                with suppress(OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
                    await link.serve()
        finally:
            del self._links[link]
            link.cut()


async def _read(side: asyncio.StreamReader) -> tuple[bytes, bytes]:
    head = await side.readexactly(5)
    return head[:1], await side.readexactly(struct.unpack("!i", head[1:])[0] - 4)
