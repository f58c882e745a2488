"""What locks protect in a campaign: it has nothing to do with the store, and knows nothing but tokens."""

from __future__ import annotations

import asyncio
import itertools
from types import TracebackType
from typing import Final, Self

import msgspec

HOST: Final = "127.0.0.1"


class Ask(msgspec.Struct, kw_only=True):
    """Somebody would write under a lock, with its token."""

    lock: str
    token: int


class Answer(msgspec.Struct, kw_only=True):
    """Whether it was written; `order` counts all that was asked, in the order of the decisions."""

    accepted: bool
    order: int


class Resource:
    """Takes a write if no newer token has been there, for each lock."""

    def __init__(self) -> None:
        self._newest: dict[str, int] = {}
        self._orders = itertools.count(1)

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, HOST)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.close()

    @property
    def port(self) -> int:
        port: int = self._server.sockets[0].getsockname()[1]
        return port

    def decide(self, ask: Ask) -> Answer:
        is_newest = ask.token >= self._newest.get(ask.lock, 0)
        if is_newest:
            self._newest[ask.lock] = ask.token
        return Answer(accepted=is_newest, order=next(self._orders))

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            line = await reader.readline()
            if line.endswith(b"\n"):
                writer.write(msgspec.json.encode(self.decide(msgspec.json.decode(line, type=Ask))) + b"\n")
                await writer.drain()
        except ConnectionError:
            return  # whoever asked was killed
        finally:
            writer.close()


async def write_fenced(port: int, lock: str, token: int) -> Answer:
    """Asks the resource at the port to write."""
    reader, writer = await asyncio.open_connection(HOST, port)
    try:
        writer.write(msgspec.json.encode(Ask(lock=lock, token=token)) + b"\n")
        return msgspec.json.decode(await reader.readline(), type=Answer)
    finally:
        writer.close()
