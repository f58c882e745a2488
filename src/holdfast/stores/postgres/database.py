"""The connections of one event loop to the database."""

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, Final, TypeVar

from holdfast.model.errors import StoreUnavailable
from holdfast.stores.postgres.address import Address
from holdfast.stores.postgres.driver import FAULTS, Connection, open_pool
from holdfast.stores.postgres.faults import is_broken, translated

GRACE: Final = 1.0
"""Seconds for a server to say that it has stopped, before its connection is given up."""

T = TypeVar("T")

_log = logging.getLogger("holdfast.store")


class Database:
    """A pool for calls, and one for transactions of handlers, so that these never keep calls waiting."""

    def __init__(self, address: Address) -> None:
        self.address = address
        self._pools: dict[str, Any] = {}
        self._opening = asyncio.Lock()
        self._returning: set[asyncio.Task[None]] = set()
        self._is_closed = False

    async def value(self, sql: str, *args: object, writes: bool = True) -> Any:
        """The one value that a statement gives."""
        return await self.run(lambda connection: connection.fetchval(sql, *args), writes=writes)

    async def rows(self, sql: str, *args: object, writes: bool = False) -> list[Any]:
        return await self.run(lambda connection: connection.fetch(sql, *args), writes=writes)

    async def run(self, work: Callable[[Connection], Awaitable[T]], *, writes: bool) -> T:
        """Does one statement, which is its own transaction, on a connection for calls."""
        async with self._lent("calls") as connection:
            try:
                if self.address.prepared:
                    return await work(connection)
                # Behind a pooler the server's settings are left alone, so each call says its isolation.
                async with connection.transaction(isolation="read_committed"):
                    return await work(connection)
            except Exception as error:
                await self._look_at(error)
                raise translated(error, self.address.place, sent=writes) from error

    @asynccontextmanager
    async def begin(self) -> AsyncGenerator[Connection]:
        """A connection with an open transaction; commits when left, rolls back on an exception."""
        async with self._lent("transactions") as connection:
            transaction = connection.transaction(isolation="read_committed")
            try:
                async with asyncio.timeout(self.address.patience):
                    await transaction.start()
            except Exception as error:
                await self._look_at(error)
                raise translated(error, self.address.place, sent=False) from error
            try:
                yield connection
            except BaseException as error:
                await self._look_at(error)
                await self._roll_back(connection, transaction)
                raise
            try:
                async with asyncio.timeout(self.address.patience):
                    await transaction.commit()
            except Exception as error:
                raise translated(error, self.address.place, sent=True) from error

    async def close(self) -> None:
        """Waits a little for what is under way, and closes every connection."""
        self._is_closed = True
        for pool in self._pools.values():
            try:
                async with asyncio.timeout(2):
                    await pool.close()
            except TimeoutError:
                pool.terminate()
        self._pools.clear()

    async def _look_at(self, error: BaseException) -> None:
        """Connections like the one that failed so are not used again: the next ones go where it is better."""
        if is_broken(error):
            for pool in self._pools.values():
                await pool.expire_connections()

    async def _roll_back(self, connection: Connection, transaction: Any) -> None:
        if connection.is_closed():
            return
        try:
            async with asyncio.timeout(GRACE):
                await transaction.rollback()
        except FAULTS:
            # What was raised in the transaction counts; without a connection nothing of it was committed.
            connection.terminate()

    @asynccontextmanager
    async def _lent(self, kind: str) -> AsyncGenerator[Connection]:
        place = self.address.place
        pool = None
        try:
            pool = self._pools.get(kind) or await self._open(kind)
            connection = await pool.acquire(timeout=self.address.patience)
        except TimeoutError as error:
            raise StoreUnavailable(f"{place}: {self._wanting(pool)}; nothing was written") from error
        except Exception as error:
            raise translated(error, place, sent=False) from error
        try:
            yield connection
        except BaseException:
            # The driver first waits until the server has stopped what was cancelled; the caller does not.
            task = asyncio.get_running_loop().create_task(self._give_back(pool, connection))
            self._returning.add(task)
            task.add_done_callback(self._returning.discard)
            raise
        await pool.release(connection)

    async def _give_back(self, pool: Any, connection: Connection) -> None:
        try:
            await pool.release(connection, timeout=GRACE)
        except FAULTS as error:
            fields = {"error": str(error) or type(error).__name__}
            _log.debug("connection given up", extra={"fields": fields})

    def _wanting(self, pool: Any) -> str:
        """Why there was no connection in time."""
        patience, most = self.address.patience, self.address.pool
        if pool is not None and pool.get_size() >= most:
            return (
                f"all {most} connections were in use for {patience:g} s; allow more of them with pool=, "
                "or wait longer with timeout="
            )
        return f"no connection within {patience:g} s (timeout={patience:g})"

    async def _open(self, kind: str) -> Any:
        async with self._opening:
            if self._is_closed:
                raise StoreUnavailable(f"{self.address.place}: the session is closed; nothing was written")
            if kind not in self._pools:
                # What a handler does in its transaction takes as long as it takes.
                patience = self.address.patience if kind == "calls" else None
                self._pools[kind] = await open_pool(self.address, command_timeout=patience)
            return self._pools[kind]
