"""PostgreSQL and Redis: servers, reached through the campaign's gates.

A URL that is only a scheme has the campaign start a server of its own, which it may crash and fill up. With
somebody else's server these faults are left out.
"""

from __future__ import annotations

import asyncio
import random
import shutil
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final, Protocol
from urllib.parse import urlsplit

from holdfast.torture.disk import Disk
from holdfast.torture.network import HOST, Gates, Talk

FOREIGN: Final = "the server is not the campaign's own"


def _place() -> Path:
    """A folder that the account of a server can reach, wherever the campaign's own is."""
    made = Path(tempfile.mkdtemp(prefix="holdfast-torture-server-"))
    made.chmod(0o755)
    return made


class Server(Protocol):
    """A server of the campaign's own."""

    url: str

    def start(self) -> None: ...

    def crash(self) -> None: ...

    def recover(self) -> None: ...


class ServerArena(ABC):
    """A store behind a wire. `lost` is called with the name of a process that lost an answer."""

    kind: str
    default_port: int

    def __init__(self, url: str, out: Path, lost: Callable[[str], None], draw: random.Random) -> None:
        self._out = out
        self._lost = lost
        self._draw = draw
        self._server: Server | None = None
        self._disk: Disk | None = None
        self.left_out: Mapping[str, str] = {}
        self.direct = url
        self.gates: Gates | None = None
        if url.partition(":")[2].strip("/"):
            self.left_out = dict.fromkeys(("crash store", "full disk"), FOREIGN)
        else:
            self._disk = Disk(_place())

    async def open(self, names: list[str]) -> None:
        if self._disk is not None:
            why_not = await asyncio.to_thread(self._disk.mount)
            if why_not is not None:
                self.left_out = {"full disk": why_not}
            logs = self._out / "logs"
            logs.mkdir(exist_ok=True)
            self._server = self.make_server(self._disk.folder, logs)
            self.direct = self._server.url
            await asyncio.to_thread(self._server.start)
        parts = urlsplit(self.direct)
        target = (parts.hostname or HOST, parts.port or self.default_port)
        self.gates = Gates(target, self.make_talk, self._lost, self._draw)
        await self.gates.open(names)

    async def close(self) -> None:
        if self.gates is not None:
            await self.gates.close()
        if self._server is not None:
            await asyncio.to_thread(self._server.crash)
        if self._disk is not None:
            await asyncio.to_thread(self._disk.unmount)
            await asyncio.to_thread(shutil.rmtree, self._disk.folder)

    def environ(self, name: str) -> Mapping[str, str]:
        assert self.gates is not None
        parts = urlsplit(self.direct)
        user = f"{parts.netloc.rpartition('@')[0]}@" if "@" in parts.netloc else ""
        netloc = f"{user}{HOST}:{self.gates.of(name).port}"
        return {"HOLDFAST_STORE": parts._replace(netloc=netloc).geturl()}

    @abstractmethod
    def make_talk(self) -> Talk:
        """Follows one connection."""

    @abstractmethod
    def make_server(self, folder: Path, logs: Path) -> Server:
        """A server of the campaign's own, not started yet."""

    @abstractmethod
    async def prepare(self) -> None: ...

    @abstractmethod
    async def ledger(self) -> list[tuple[str, int]]: ...

    @abstractmethod
    async def cut_backends(self, draw: random.Random) -> int: ...

    async def crash(self) -> None:
        assert self._server is not None
        await asyncio.to_thread(self._server.crash)

    async def recover(self) -> None:
        if self._server is not None:
            await asyncio.to_thread(self._server.recover)

    def is_free(self) -> bool:
        """A server is not held up by a client that is frozen, but for the rows that it has locked."""
        return True

    def shrink(self) -> None:
        assert self._disk is not None
        self._disk.shrink()

    def grow(self) -> None:
        assert self._disk is not None
        self._disk.grow()
