"""Connections that stay open between calls.

The driver's own pool makes a proxy for each loan and a task for each return, which costs a light call more
than all the rest of its way through this process (docs/decisions/0008-postgresql.md).
"""

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Final

from holdfast.stores.postgres.driver import FAULTS, Connection

GRACE: Final = 1.0
"""Seconds for a server to say that it has stopped, before its connection is given up."""

IDLE: Final = 300.0
"""Seconds after which a connection that nobody needed is closed."""


class Pool:
    """At most `most` connections, made by `connect` when needed. The last one returned is lent first."""

    def __init__(self, connect: Callable[[], Awaitable[Connection]], most: int) -> None:
        self._connect = connect
        self._most = most
        self._size = 0
        self._opening = 0
        self._idle: deque[tuple[Connection, float]] = deque()
        self._lent: set[Connection] = set()
        self._expired: set[Connection] = set()
        self._waiting: deque[asyncio.Future[Connection | None]] = deque()
        self._tasks: set[asyncio.Task[None]] = set()
        self._returned = asyncio.Event()
        self._is_closed = False

    @property
    def is_full(self) -> bool:
        return self._size >= self._most

    def lend(self) -> Connection | None:
        """A connection, if one is idle."""
        while self._idle and not self._is_closed:
            connection, _ = self._idle.pop()
            if not connection.is_closed():
                self._lent.add(connection)
                return connection
            self._size -= 1
        return None

    async def acquire(self, patience: float) -> Connection:
        """A connection, waiting for one if all are in use.

        Raises TimeoutError, or ConnectionError if closed.
        """
        async with asyncio.timeout(patience):
            while True:
                self._check_open()
                connection = self.lend() or await self._open() or await self._wait()
                if connection is not None:
                    return connection

    def release(self, connection: Connection) -> None:
        """Takes a connection back. One that is of no use any more is ended."""
        self._lent.discard(connection)
        if not connection.is_closed() and (
            self._is_closed or connection in self._expired or connection.is_in_transaction()
        ):
            connection.terminate()
        self._expired.discard(connection)
        self._returned.set()
        if connection.is_closed():
            self._size -= 1
            self._call(None)
        elif not self._call(connection):
            self._idle.append((connection, time.monotonic()))
            self._close_old()

    def mend(self, connection: Connection) -> None:
        """Takes back a connection whose call was cut short, once the server has stopped it."""
        if self._is_closed:
            self.release(connection)
        else:
            self._begin(self._mend(connection))

    def expire(self) -> None:
        """Lends none of these connections again."""
        while self._idle:
            self._idle.pop()[0].terminate()
            self._size -= 1
        self._expired |= self._lent
        self._call(None)

    async def close(self, patience: float) -> None:
        """Waits a little for what is lent, and ends every connection."""
        self._is_closed = True
        while self._call(None):
            pass
        with suppress(TimeoutError):
            async with asyncio.timeout(patience):
                while self._lent or self._opening:
                    self._returned.clear()
                    await self._returned.wait()
                while self._idle:
                    await self._idle.pop()[0].close()
        for connection in (*self._lent, *(connection for connection, _ in self._idle)):
            connection.terminate()
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=GRACE)

    async def _open(self) -> Connection | None:
        if self.is_full:
            return None
        self._size += 1
        self._opening += 1
        try:
            connection = await self._connect()
        except BaseException:
            self._size -= 1
            self._call(None)
            raise
        finally:
            self._opening -= 1
            self._returned.set()
        self._lent.add(connection)
        if self._is_closed:
            self.release(connection)
            self._check_open()
        return connection

    def _check_open(self) -> None:
        if self._is_closed:
            raise ConnectionError("the session is closed")

    async def _wait(self) -> Connection | None:
        """A connection that was returned, or None if there may be room for another."""
        waiter: asyncio.Future[Connection | None] = asyncio.get_running_loop().create_future()
        self._waiting.append(waiter)
        try:
            return await waiter
        except asyncio.CancelledError:
            if waiter.done() and not waiter.cancelled():
                given = waiter.result()
                if given is None:
                    self._call(None)
                else:
                    self.release(given)
            raise

    def _call(self, given: Connection | None) -> bool:
        """Gives the next who waits a connection, or a reason to look again; whether anybody waits."""
        while self._waiting:
            waiter = self._waiting.popleft()
            if not waiter.done():
                if given is not None:
                    self._lent.add(given)
                waiter.set_result(given)
                return True
        return False

    async def _mend(self, connection: Connection) -> None:
        try:
            async with asyncio.timeout(GRACE):
                # The driver sends nothing before what was cancelled has ended.
                await connection.fetchval("SELECT 1")
        except FAULTS:
            connection.terminate()
        self.release(connection)

    def _close_old(self) -> None:
        connection, since = self._idle[0]
        if len(self._idle) > 1 and time.monotonic() - since > IDLE:
            self._idle.popleft()
            self._size -= 1
            self._begin(self._end(connection))

    async def _end(self, connection: Connection) -> None:
        try:
            await connection.close(timeout=GRACE)
        except FAULTS:
            connection.terminate()

    def _begin(self, work: Awaitable[None]) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
