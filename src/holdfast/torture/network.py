"""A proxy of ours between processes and their store: a gate for each process, which no other comes through.

A gate delays, falls silent in one way or both, hangs up, and loses answers: a request that commits is carried
out, its answer never arrives, and the connection is cut.
"""

from __future__ import annotations

import asyncio
import random
import socket
import struct
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final, Protocol

HOST: Final = "127.0.0.1"
_CHUNK: Final = 1 << 16
_RESET: Final = struct.pack("ii", 1, 0)
"""Nothing is waited for when such a socket is closed."""


class Talk(Protocol):
    """What is said on one connection, followed closely enough to know which request commits."""

    def asks(self, data: bytes) -> bool:
        """Hears the client; whether a request that commits has just ended."""
        ...

    def doom(self) -> None:
        """The answer to that request shall be lost."""
        ...

    def answers(self, data: bytes) -> tuple[bytes, bool]:
        """Hears the server; what may be passed on of it, and whether the doomed request was just answered."""
        ...


class Gate:
    """One process's way to the store. `lost` is called with each answer that is lost here."""

    def __init__(
        self, name: str, target: tuple[str, int], make_talk: Callable[[], Talk], lost: Callable[[str], None]
    ) -> None:
        self.name = name
        self.delay = 0.0
        self.to_lose = 0
        self._target = target
        self._make_talk = make_talk
        self._lost = lost
        self._is_down = False
        self._asking = asyncio.Event()
        self._answering = asyncio.Event()
        self._links: set[_Link] = set()
        self.heal()

    async def open(self) -> None:
        self._server = await asyncio.start_server(self._accept, HOST)

    async def close(self) -> None:
        self._server.close()
        tasks = [link.task for link in self._links if link.task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.sleep(0)  # the event loop lets go of what was hung up

    @property
    def port(self) -> int:
        port: int = self._server.sockets[0].getsockname()[1]
        return port

    def heal(self) -> None:
        """Passes everything on again, at once; also what was held up."""
        self.delay = 0.0
        self._is_down = False
        self._asking.set()
        self._answering.set()

    def silence(self, *, asking: bool, answering: bool) -> None:
        """Passes nothing on, from the process, to it, or both; what is sent arrives late, if ever."""
        for way, is_silent in ((self._asking, asking), (self._answering, answering)):
            if is_silent:
                way.clear()

    def fall_down(self) -> None:
        """Hangs up, now and whenever the process calls."""
        self._is_down = True
        self.cut()

    def cut(self) -> None:
        for link in list(self._links):
            link.cut()

    async def pass_on(self, data: bytes, writer: asyncio.StreamWriter, *, is_answer: bool) -> None:
        if self.delay:
            await asyncio.sleep(self.delay)
        await (self._answering if is_answer else self._asking).wait()
        writer.write(data)
        await writer.drain()

    def wants_to_lose(self) -> bool:
        """Whether the answer to a request that commits is to be lost; it counts as lost then."""
        if not self.to_lose:
            return False
        self.to_lose -= 1
        return True

    def has_lost(self) -> None:
        self._lost(self.name)

    async def _accept(self, client: asyncio.StreamReader, to_client: asyncio.StreamWriter) -> None:
        link = _Link(self, self._make_talk(), to_client)
        link.task = asyncio.current_task()
        self._links.add(link)
        try:
            if not self._is_down:
                with suppress(OSError, asyncio.CancelledError):
                    await link.serve(client, self._target)
        finally:
            self._links.discard(link)
            link.cut()


class _Link:
    """One connection through a gate."""

    def __init__(self, gate: Gate, talk: Talk, to_client: asyncio.StreamWriter) -> None:
        self._gate = gate
        self._talk = talk
        self._to_client = to_client
        self._to_server: asyncio.StreamWriter | None = None
        self.task: asyncio.Task[None] | None = None

    async def serve(self, client: asyncio.StreamReader, target: tuple[str, int]) -> None:
        """Passes on what both say until one of them has ended."""
        server, self._to_server = await asyncio.open_connection(*target)
        ways = [
            asyncio.create_task(self._ask(client, self._to_server)),
            asyncio.create_task(self._answer(server)),
        ]
        try:
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for way in ways:
                way.cancel()
            await asyncio.gather(*ways, return_exceptions=True)

    def cut(self) -> None:
        """Hangs up on both sides, at once: each is told that the connection was reset."""
        for writer in (self._to_client, self._to_server):
            if writer is not None and not writer.transport.is_closing():
                writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
                writer.transport.abort()

    async def _ask(self, client: asyncio.StreamReader, to_server: asyncio.StreamWriter) -> None:
        while data := await client.read(_CHUNK):
            if self._talk.asks(data) and self._gate.wants_to_lose():
                self._talk.doom()
            await self._gate.pass_on(data, to_server, is_answer=False)

    async def _answer(self, server: asyncio.StreamReader) -> None:
        while data := await server.read(_CHUNK):
            passing, is_lost = self._talk.answers(data)
            if is_lost:
                self._gate.has_lost()
                self.cut()
                return
            if passing:
                await self._gate.pass_on(passing, self._to_client, is_answer=True)


class Gates:
    """The gates of all processes of a campaign."""

    def __init__(
        self,
        target: tuple[str, int],
        make_talk: Callable[[], Talk],
        lost: Callable[[str], None],
        draw: random.Random,
    ) -> None:
        self._target = target
        self._make_talk = make_talk
        self._tell = lost
        self._draw = draw
        self._lost_here = 0
        self._gates: dict[str, Gate] = {}

    async def open(self, names: Sequence[str]) -> None:
        for name in names:
            gate = self._gates[name] = Gate(name, self._target, self._make_talk, self._lost)
            await gate.open()

    async def close(self) -> None:
        for gate in self._gates.values():
            await gate.close()

    def _lost(self, name: str) -> None:
        self._lost_here += 1
        self._tell(name)

    def of(self, name: str) -> Gate:
        return self._gates[name]

    def heal(self) -> None:
        for gate in self._gates.values():
            gate.heal()
            gate.to_lose = 0

    def lose(self, due: int) -> None:
        """Sees to it that so many answers are lost in all, before long: what is missing is shared out.

        One at a time in each gate, so that those which say little do not gather what others would lose.
        """
        free = [gate for gate in self._gates.values() if not gate.to_lose]
        missing = due - self._lost_here - (len(self._gates) - len(free))
        for gate in self._draw.sample(free, max(0, min(missing, len(free)))):
            gate.to_lose = 1
