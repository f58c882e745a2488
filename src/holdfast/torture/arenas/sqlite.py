"""SQLite: a file that all processes share. There is no wire, so answers are lost inside of the processes."""

from __future__ import annotations

import asyncio
import random
import sqlite3
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Final

from holdfast.torture.disk import Disk
from holdfast.torture.network import Gates
from holdfast.torture.programs.witness import LOSS

LOSS_SHARE: Final = 0.05
WIRE: Final = "SQLite has no wire"
SERVER: Final = "SQLite has no server"


class SqliteArena:
    """A file in the campaign's folder, on a small file system of its own where one can be mounted."""

    kind = "sqlite"
    gates: Gates | None = None

    def __init__(self, out: Path) -> None:
        self._disk = Disk(out / "disk")
        self._path = self._disk.folder / "torture.db"
        self.direct = f"sqlite:///{self._path}"
        self.left_out: Mapping[str, str] = {
            **dict.fromkeys(("black hole", "one way", "reset", "delay"), WIRE),
            **dict.fromkeys(("cut backends", "crash store"), SERVER),
        }

    async def open(self, names: list[str]) -> None:
        why_not = await asyncio.to_thread(self._disk.mount)
        if why_not is not None:
            self.left_out = {**self.left_out, "full disk": why_not}

    async def close(self) -> None:
        await asyncio.to_thread(self._disk.unmount)

    def environ(self, name: str) -> Mapping[str, str]:
        return {"HOLDFAST_STORE": self.direct, LOSS: str(LOSS_SHARE)}

    async def prepare(self) -> None:
        with closing(sqlite3.connect(self._path, isolation_level=None)) as connection:
            connection.execute("CREATE TABLE ledger (job TEXT, token INTEGER)")
            connection.execute("CREATE TABLE billed (event TEXT, aggregate TEXT, version INTEGER)")

    async def ledger(self) -> list[tuple[str, int]]:
        with closing(sqlite3.connect(self._path)) as connection:
            return connection.execute("SELECT job, token FROM ledger").fetchall()

    async def cut_backends(self, draw: random.Random) -> int:
        raise NotImplementedError(SERVER)

    async def crash(self) -> None:
        raise NotImplementedError(SERVER)

    async def recover(self) -> None:
        """There is nothing to start again."""

    def is_free(self) -> bool:
        with closing(sqlite3.connect(self._path, timeout=0.3, isolation_level=None)) as connection:
            try:
                connection.execute("BEGIN IMMEDIATE")
                connection.execute("ROLLBACK")
            except sqlite3.OperationalError:
                return False
            return True

    def shrink(self) -> None:
        self._disk.shrink()

    def grow(self) -> None:
        self._disk.grow()
