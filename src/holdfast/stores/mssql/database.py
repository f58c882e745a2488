"""The connections of one event loop to the database."""

import asyncio
import logging
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import cache
from typing import Any, Final, TypeVar

from holdfast.model.errors import OutcomeUnknown, StoreError, StoreUnavailable
from holdfast.stores.mssql.address import Address
from holdfast.stores.mssql.connecting import Connecting
from holdfast.stores.mssql.driver import SHARE_FOR_LOCKS, Connection, Fault, Row, Value
from holdfast.stores.mssql.faults import is_broken, translated
from holdfast.stores.mssql.pool import Pool
from holdfast.stores.mssql.seat import TRIES, Seat, Work

FAREWELL: Final = 2.0
"""Seconds for what is under way when the session is closed."""

GRACE: Final = 1.0
"""Seconds for a driver to say that its patience has ended, before its thread is given up."""

T = TypeVar("T")
_log = logging.getLogger(__name__)


class Transaction:
    """The open transaction of a handler. Used by one task at a time.

    A fault ends it on the server, and what came next would be committed alone: so nothing comes next.
    """

    def __init__(self, seat: Seat, place: str) -> None:
        self._seat = seat
        self._place = place
        self._fault: Fault | None = None

    async def execute(self, sql: str, *parameters: Value) -> list[list[Row]]:
        """Sends one batch, with ? for each parameter, and gives the rows of each of its result sets."""
        return await self.run(lambda connection: connection.execute(sql, parameters))

    async def run(self, work: Work[T]) -> T:
        """Does the work on the thread of the transaction."""
        self.check()
        answer = self._seat.do(work, holds=True)
        await asyncio.wait({answer})
        try:
            return answer.result()
        except Exception as error:
            if isinstance(error, Fault):
                self._fault = error
            raise translated(error, self._place, sent=False) from error

    def check(self) -> None:
        if self._fault is not None:
            raise StoreError(
                f"{self._place}: an error has ended this transaction, and nothing of it was written; let it "
                f"leave the block: {self._fault.text}"
            )


class Database:
    """A pool for calls, and one for transactions of handlers, so that these never keep calls waiting.

    It belongs to the event loop that is running when it is made.
    """

    def __init__(self, address: Address, connecting: Connecting | None = None) -> None:
        self.address = address
        connecting = connecting or Connecting(address)
        self._calls = _pool(connecting, address, address.patience)
        # What a handler does in its transaction takes as long as it takes.
        self._transactions = _pool(connecting, address, None)
        self._is_closed = False
        if address.warning:
            _warn(address.warning)

    async def value(self, sql: str, *parameters: Value, writes: bool = True) -> Any:
        """The one value that a batch gives."""
        [[[value]]] = await self.execute(sql, *parameters, writes=writes)
        return value

    async def rows(self, sql: str, *parameters: Value, writes: bool = False) -> list[Row]:
        """The rows of the one result set that a batch gives."""
        [rows] = await self.execute(sql, *parameters, writes=writes)
        return rows

    async def execute(
        self, sql: str, *parameters: Value, writes: bool, persists: bool = False
    ) -> list[list[Row]]:
        """The rows of each result set that a batch gives."""
        return await self.run(
            lambda connection: connection.execute(sql, parameters), writes=writes, persists=persists
        )

    async def run(self, work: Work[T], *, writes: bool, persists: bool = False, is_long: bool = False) -> T:
        """Does the work on a thread with a connection for calls.

        It is begun again if a deadlock ended it, and rolled back if it fails. What `persists` is begun again
        also if it did not get a lock, while there is time. `is_long` is for what no call waits for: it may
        take any time. A caller that is cancelled leaves it to end by itself.
        """
        pool = self._transactions if is_long else self._calls
        seat = await self._acquire(pool)
        limit = None if is_long else self._limit(seat)
        locked = self.address.patience * SHARE_FOR_LOCKS if persists else 0
        try:
            answer = seat.do(work, tries=TRIES, locked=locked)
            return await self._answered(pool, seat, answer, limit, sent=writes)
        finally:
            pool.release(seat, limit)

    @asynccontextmanager
    async def begin(self) -> AsyncGenerator[Transaction]:
        """An open transaction; commits when left, rolls back on an exception."""
        pool = self._transactions
        seat = await self._acquire(pool)
        limit = self._limit(seat)
        try:
            try:
                begun = seat.do(Connection.begin)
                await self._answered(pool, seat, begun, limit, sent=False)
                transaction = Transaction(seat, self.address.place)
                yield transaction
                transaction.check()
            except BaseException:
                await self._roll_back(pool, seat)
                raise
            await self._answered(pool, seat, seat.do(Connection.commit), limit, sent=True)
        finally:
            pool.release(seat, limit)

    async def close(self) -> None:
        """Waits a little for what is under way, and closes every connection."""
        self._is_closed = True
        await asyncio.gather(self._calls.close(FAREWELL), self._transactions.close(FAREWELL))

    async def _answered(
        self, pool: Pool, seat: Seat, answer: "asyncio.Future[T]", limit: float | None, *, sent: bool
    ) -> T:
        """The answer, in time; a cancelled caller leaves it to come when it comes."""
        done, _ = await asyncio.wait({answer}, timeout=limit)
        if not done:
            pool.abandon(seat)
            raise self._unanswered(sent=sent)
        try:
            return answer.result()
        except Exception as error:
            raise self._told(error, sent=sent) from error

    async def _roll_back(self, pool: Pool, seat: Seat) -> None:
        """What was raised in the transaction counts; without a connection nothing of it was committed."""
        try:
            done, _ = await asyncio.wait({seat.do(Connection.rollback)}, timeout=GRACE)
        except asyncio.CancelledError:
            pool.abandon(seat)
            raise
        if not done:
            pool.abandon(seat)

    def _limit(self, seat: Seat) -> float:
        """Seconds for an answer: what the driver takes, twice if it must sign in first, and a little more."""
        patience = self.address.patience
        return (patience if seat.is_connected else 2 * patience) + GRACE

    def _told(self, error: Exception, *, sent: bool) -> Exception:
        if isinstance(error, Fault) and is_broken(error):
            self._calls.suspect()
            self._transactions.suspect()
        return translated(error, self.address.place, sent=sent)

    def _unanswered(self, *, sent: bool) -> OutcomeUnknown | StoreUnavailable:
        told = f"{self.address.place}: no answer within {self.address.patience:g} s"
        if sent:
            return OutcomeUnknown(f"{told}; it may or may not have been done")
        return StoreUnavailable(f"{told}; nothing was written")

    async def _acquire(self, pool: Pool) -> Seat:
        place, patience = self.address.place, self.address.patience
        try:
            if self._is_closed:
                raise ConnectionError
            return pool.lend() or await pool.acquire(patience)
        except TimeoutError as error:
            raise StoreUnavailable(
                f"{place}: all {self.address.pool} connections were in use for {patience:g} s; allow more of "
                "them with pool=, or wait longer with timeout=; nothing was written"
            ) from error
        except ConnectionError as error:
            raise StoreUnavailable(f"{place}: the session is closed; nothing was written") from error


def _pool(connecting: Connecting, address: Address, patience: float | None) -> Pool:
    return Pool(
        lambda: connecting.open(patience), address.pool, lambda opened: connecting.keep(opened, patience)
    )


@cache
def _warn(text: str) -> None:
    _log.warning(text)
