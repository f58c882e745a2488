"""The factory of PostgreSQL sessions."""

from collections import defaultdict

from holdfast.stores.bell import Bell
from holdfast.stores.listeners import Listeners
from holdfast.stores.marks import process_mark
from holdfast.stores.postgres.address import Address, parse
from holdfast.stores.postgres.database import Database
from holdfast.stores.postgres.driver import connect
from holdfast.stores.postgres.events import PostgresEvents
from holdfast.stores.postgres.facts import facts
from holdfast.stores.postgres.faults import translated
from holdfast.stores.postgres.fleet import PostgresFleet
from holdfast.stores.postgres.flow import PostgresFlow
from holdfast.stores.postgres.jobs import PostgresJobs
from holdfast.stores.postgres.listener import PostgresWakeups
from holdfast.stores.postgres.locks import PostgresLocks
from holdfast.stores.postgres.queries import queries
from holdfast.stores.postgres.schedules import PostgresSchedules
from holdfast.stores.postgres.schema import PostgresMigrations, missing
from holdfast.stores.postgres.transactions import PostgresTransactions
from holdfast.stores.waiters import Waiters


class PostgresSession:
    """One namespace of a database, for one event loop."""

    def __init__(self, database: Database, ns: int, listeners: Listeners, waiters: Waiters) -> None:
        address = database.address
        known = queries(address)
        self._database = database
        self._queries = known
        self._bell = Bell(
            listeners, f"{address.channel(ns)} {process_mark()}", self._notify if address.notify else None
        )
        self._is_closed = False
        self.wakeups = PostgresWakeups(address, ns, listeners, waiters)
        self.jobs = PostgresJobs(database, known, ns, self._bell, self.wakeups)
        self.fleet = PostgresFleet(database, known, ns, self._bell)
        self.locks = PostgresLocks(database, known, ns, waiters, self.wakeups)
        self.schedules = PostgresSchedules(database, known, ns, self._bell)
        self.events = PostgresEvents(database, known, ns, self._bell)
        self.flow = PostgresFlow(database, known, ns, self._bell)

    async def close(self) -> None:
        if not self._is_closed:
            self._is_closed = True
            await self.wakeups.close()
            await self._bell.close()
            await self._database.close()

    async def _notify(self, message: str) -> None:
        await self._database.value(self._queries.notify, *message.split())


class PostgresStore:
    """Jobs in a schema of a PostgreSQL database, which any number of machines may share."""

    def __init__(self, address: Address, *, auto_migrate: bool | None = None) -> None:
        self._address = address
        self._auto_migrate = auto_migrate is True
        self._listeners: defaultdict[int, Listeners] = defaultdict(Listeners)
        self._waiters: defaultdict[int, Waiters] = defaultdict(Waiters)
        self.migrations = PostgresMigrations(address)
        self.transactions = PostgresTransactions(address)

    @classmethod
    def from_url(cls, url: str, auto_migrate: bool | None = None) -> "PostgresStore":
        """The store of a database: `postgresql://user:password@host:port/database`.

        After a `?` may follow `schema` and `prefix` of the tables, `pool` (connections of an event loop),
        `notify=off` (no wake-ups), `prepared=off` (behind a transaction pooler), `timeout` in seconds, and
        what the driver knows, such as `sslmode` and `target_session_attrs`.
        """
        return cls(parse(url), auto_migrate=auto_migrate)

    async def connect(self, namespace: str) -> PostgresSession:
        if self._auto_migrate:
            await self.migrations.apply()
        else:
            names = await self.migrations.pending()
            if names:
                raise missing(self._address, names)
        database = Database(self._address)
        try:
            ns: int = await database.value(queries(self._address).namespace, namespace)
        except BaseException:
            await database.close()
            raise
        return PostgresSession(database, ns, self._listeners[ns], self._waiters[ns])

    async def facts(self) -> dict[str, str]:
        try:
            connection = await connect(self._address)
        except Exception as error:
            raise translated(error, self._address.place, sent=False) from error
        try:
            return await facts(connection, self._address)
        finally:
            await connection.close()

    async def close(self) -> None:
        """Ends the connections of transactions; sessions end their own."""
        await self.transactions.close()
