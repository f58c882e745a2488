"""A connection with an open transaction, for async code: every call runs on a thread of its own."""

import asyncio
import sqlite3
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeAlias, TypeVar

T = TypeVar("T")

Parameters: TypeAlias = Sequence[Any] | Mapping[str, Any]


class HeldConnection:
    """What `transactions.begin()` gives. The transaction ends when the block is left, not before."""

    def __init__(self, connection: sqlite3.Connection, thread: ThreadPoolExecutor) -> None:
        self._connection = connection
        self._thread = thread

    async def execute(self, sql: str, parameters: Parameters = ()) -> list[Any]:
        """Executes one statement; its rows, if it gives any."""
        return await self.run(lambda connection: connection.execute(sql, parameters).fetchall())

    async def executemany(self, sql: str, parameters: Iterable[Parameters]) -> None:
        """Executes one statement for each set of parameters."""
        await self.run(lambda connection: connection.executemany(sql, parameters).rowcount)

    async def run(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Runs the work on the connection's thread."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._thread, work, self._connection)
