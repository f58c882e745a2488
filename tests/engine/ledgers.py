"""A group whose effects are rows of its store's own database, committed with its progress, in three ways."""

import asyncio
import inspect
import sqlite3
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any

import asyncpg
import psycopg

from holdfast import Context, Event, Fixed, Holdfast
from tests.chaos.waiting import until_async
from tests.engine.rig import Seen
from tests.postgres.shop import Shop, open_shop

TOPIC, GROUP = "orders", "billing"
LOCK = f"holdfast.on:{GROUP}:{TOPIC}"
QUICK = Fixed(5, wait=0)
Work = Callable[[Context, str], object]


def _nothing(ctx: Context, name: str) -> None:
    """The default of what is done meanwhile."""


class Books(ABC):
    """An application and a ledger in its database. What is paid in a transaction shares its fate."""

    def __init__(self, app: Holdfast) -> None:
        self.app = app
        self.seen = Seen(app.notices)

    @abstractmethod
    async def pay(self, connection: Any, entry: str) -> None: ...

    @abstractmethod
    def pay_sync(self, connection: Any, entry: str) -> None: ...

    @abstractmethod
    def own(self) -> Any:
        """A blocking connection of the user's own, with a transaction open; the user commits."""

    @abstractmethod
    async def ledger(self) -> list[str]: ...

    async def settled(self, offset: int) -> None:
        """Waits until the group has passed that position, and nothing waits."""

        async def stands() -> list[Any]:
            return [(info.offset, info.waiting) for info in await self.app.events.groups()]

        await until_async(stands, f"all up to {offset} are done", lambda found: found == [(offset, [])])

    async def emit(self, *names: str) -> None:
        """Events by their data; the aggregate is the letter before the number."""
        await self.app.emit(*[Event(topic=TOPIC, type="t", data=name, aggregate=name[0]) for name in names])

    async def depose(self) -> None:
        """Takes the lock away from whoever consumes, who does not hear of it at once."""
        locks = self.app.client.session.locks
        holder = await locks.holder(LOCK)
        assert holder is not None
        await locks.release(LOCK, holder.owner, holder.token)

    def on(
        self,
        way: str,
        before: Work = _nothing,
        inside: Work = _nothing,
        behind: Work = _nothing,
        **options: Any,
    ) -> None:
        """Subscribes a handler that pays each event in this way, and does something meanwhile.

        That is called with the context and the event's data; in an async handler it may give an awaitable.
        """

        async def transaction(ctx: Context, event: Event[str]) -> None:
            await _done(before(ctx, event.data))
            async with ctx.transaction() as tx:
                await self.pay(tx.connection, event.data)
                await _done(inside(ctx, event.data))
            await _done(behind(ctx, event.data))

        def sync_transaction(ctx: Context, event: Event[str]) -> None:
            before(ctx, event.data)
            with ctx.sync_transaction() as tx:
                self.pay_sync(tx.connection, event.data)
                inside(ctx, event.data)
            behind(ctx, event.data)

        def own(ctx: Context, event: Event[str]) -> None:
            before(ctx, event.data)
            with closing(self.own()) as connection:
                self.pay_sync(connection, event.data)
                ctx.complete_in_sync(connection)
                inside(ctx, event.data)
                connection.commit()
            behind(ctx, event.data)

        handlers: dict[str, Callable[..., object]] = {
            "transaction": transaction,
            "sync_transaction": sync_transaction,
            "own": own,
        }
        self.app.on(TOPIC, group=GROUP, **{"retry": QUICK, **options})(handlers[way])


async def _done(answer: object) -> None:
    if inspect.isawaitable(answer):
        await answer


class SqliteBooks(Books):
    def __init__(self, folder: Path, **settings: Any) -> None:
        self._path = folder / "jobs.db"
        with closing(sqlite3.connect(self._path)) as connection:
            connection.execute("CREATE TABLE ledger (entry TEXT)")
        super().__init__(Holdfast(f"sqlite:///{self._path}", **{"poll_seconds": 0.05, **settings}))

    async def pay(self, connection: Any, entry: str) -> None:
        await connection.execute("INSERT INTO ledger VALUES (?)", [entry])

    def pay_sync(self, connection: Any, entry: str) -> None:
        connection.execute("INSERT INTO ledger VALUES (?)", [entry])

    def own(self) -> sqlite3.Connection:
        connection = sqlite3.connect(self._path)
        connection.execute("BEGIN IMMEDIATE")
        return connection

    async def ledger(self) -> list[str]:
        return await asyncio.to_thread(self._read)

    def _read(self) -> list[str]:
        with closing(sqlite3.connect(self._path)) as connection:
            return [entry for (entry,) in connection.execute("SELECT entry FROM ledger ORDER BY entry")]


class PostgresBooks(Books):
    def __init__(self, url: str, **settings: Any) -> None:
        self.shop: Shop = open_shop(url, **{"poll_seconds": 0.05, **settings})
        super().__init__(self.shop.app)

    async def pay(self, connection: Any, entry: str) -> None:
        await connection.execute(self.shop.pay(entry))

    def pay_sync(self, connection: Any, entry: str) -> None:
        connection.execute(self.shop.pay(entry))

    def own(self) -> Any:
        return psycopg.connect(self.shop.database)

    @asynccontextmanager
    async def own_async(self) -> AsyncGenerator[Any]:
        connection = await asyncpg.connect(self.shop.database)
        try:
            yield connection
        finally:
            await connection.close()

    async def ledger(self) -> list[str]:
        return await self.shop.ledger()
