"""The connections of one event loop to the database."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, Final, TypeVar

from holdfast.model.errors import StoreUnavailable
from holdfast.stores.postgres.address import Address
from holdfast.stores.postgres.driver import FAULTS, Connection, connect
from holdfast.stores.postgres.faults import is_broken, translated
from holdfast.stores.postgres.pool import GRACE, Pool

FAREWELL: Final = 2.0
"""Seconds for what is under way when the session is closed."""

T = TypeVar("T")


class Database:
    """A pool for calls, and one for transactions of handlers, so that these never keep calls waiting."""

    def __init__(self, address: Address) -> None:
        self.address = address
        self._calls = self._pool(address.patience)
        # What a handler does in its transaction takes as long as it takes.
        self._transactions = self._pool(None)
        self._is_closed = False

    async def value(self, sql: str, *args: object, writes: bool = True) -> Any:
        """The one value that a statement gives."""
        return await self.run(lambda connection: connection.fetchval(sql, *args), writes=writes)

    async def rows(self, sql: str, *args: object, writes: bool = False) -> list[Any]:
        return await self.run(lambda connection: connection.fetch(sql, *args), writes=writes)

    async def search(self, sql: str, *args: object) -> list[Any]:
        """The same, planned for these values: one for any walks a long index if they are rare."""
        if not self.address.prepared:
            return await self.rows(sql, *args)

        async def work(connection: Connection) -> list[Any]:
            found: list[Any] = await (await connection.prepare(sql)).fetch(*args)
            return found

        return await self.run(work, writes=False)

    async def run(self, work: Callable[[Connection], Awaitable[T]], *, writes: bool) -> T:
        """Does one statement, which is its own transaction, on a connection for calls."""
        pool = self._calls
        connection = pool.lend() or await self._acquire(pool)
        try:
            if self.address.prepared:
                answer = await work(connection)
            else:
                # Behind a pooler the server's settings are left alone, so each call says its isolation.
                async with connection.transaction(isolation="read_committed"):
                    answer = await work(connection)
        except BaseException as error:
            self._return_after(error, pool, connection)
            if isinstance(error, Exception):
                raise translated(error, self.address.place, sent=writes) from error
            raise
        pool.release(connection)
        return answer

    @asynccontextmanager
    async def begin(self) -> AsyncGenerator[Connection]:
        """A connection with an open transaction; commits when left, rolls back on an exception."""
        pool = self._transactions
        connection = pool.lend() or await self._acquire(pool)
        transaction = connection.transaction(isolation="read_committed")
        try:
            await self._within(transaction.start(), sent=False)
            try:
                yield connection
            except BaseException:
                await self._roll_back(connection, transaction)
                raise
            await self._within(transaction.commit(), sent=True)
        except BaseException as error:
            self._return_after(error, pool, connection)
            raise
        pool.release(connection)

    async def close(self) -> None:
        """Waits a little for what is under way, and closes every connection."""
        self._is_closed = True
        await asyncio.gather(self._calls.close(FAREWELL), self._transactions.close(FAREWELL))

    async def _within(self, step: Awaitable[None], *, sent: bool) -> None:
        try:
            async with asyncio.timeout(self.address.patience):
                await step
        except Exception as error:
            raise translated(error, self.address.place, sent=sent) from error

    def _return_after(self, error: BaseException, pool: Pool, connection: Connection) -> None:
        if is_broken(error):
            # Connections like this one are not used again: the next ones go where it is better.
            self._calls.expire()
            self._transactions.expire()
        if connection.is_closed():
            pool.release(connection)
        else:
            # The driver first waits until the server has stopped what was cancelled; the caller does not.
            pool.mend(connection)

    async def _roll_back(self, connection: Connection, transaction: Any) -> None:
        if connection.is_closed():
            return
        try:
            async with asyncio.timeout(GRACE):
                await transaction.rollback()
        except FAULTS:
            # What was raised in the transaction counts; without a connection nothing of it was committed.
            connection.terminate()

    async def _acquire(self, pool: Pool) -> Connection:
        place = self.address.place
        if self._is_closed:
            raise StoreUnavailable(f"{place}: the session is closed; nothing was written")
        try:
            return await pool.acquire(self.address.patience)
        except TimeoutError as error:
            raise StoreUnavailable(f"{place}: {self._wanting(pool)}; nothing was written") from error
        except Exception as error:
            raise translated(error, place, sent=False) from error

    def _wanting(self, pool: Pool) -> str:
        """Why there was no connection in time."""
        patience, most = self.address.patience, self.address.pool
        if pool.is_full:
            return (
                f"all {most} connections were in use for {patience:g} s; allow more of them with pool=, "
                "or wait longer with timeout="
            )
        return f"no connection within {patience:g} s (timeout={patience:g})"

    def _pool(self, patience: float | None) -> Pool:
        return Pool(partial(connect, self.address, command_timeout=patience), self.address.pool)
