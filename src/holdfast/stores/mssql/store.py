"""The factory of SQL Server sessions."""

from collections import defaultdict
from collections.abc import Callable

from holdfast.stores.bell import Bell
from holdfast.stores.listeners import Listeners
from holdfast.stores.mssql.address import Address, parse
from holdfast.stores.mssql.database import Database
from holdfast.stores.mssql.events import MssqlEvents
from holdfast.stores.mssql.facts import facts
from holdfast.stores.mssql.fleet import MssqlFleet
from holdfast.stores.mssql.flow import MssqlFlow
from holdfast.stores.mssql.jobs import MssqlJobs
from holdfast.stores.mssql.locks import MssqlLocks
from holdfast.stores.mssql.queries import queries
from holdfast.stores.mssql.schedules import MssqlSchedules
from holdfast.stores.mssql.schema import MssqlMigrations, missing
from holdfast.stores.mssql.transactions import MssqlTransactions
from holdfast.stores.waiters import Waiters


class MssqlWakeups:
    """Hints to this process; the engine has none that reach others without a connection that waits."""

    def __init__(self, listeners: Listeners) -> None:
        self._listeners = listeners

    def listen(self, wake: Callable[[], None]) -> Callable[[], None]:
        return self._listeners.add(wake)


class MssqlSession:
    """One namespace of a database, for one event loop."""

    def __init__(self, database: Database, ns: int, listeners: Listeners, waiters: Waiters) -> None:
        address = database.address
        bell = Bell(listeners, "", None)
        self._database = database
        self._is_closed = False
        self.wakeups = MssqlWakeups(listeners)
        self.jobs = MssqlJobs(database, queries(address), ns, bell)
        self.fleet = MssqlFleet(database, ns, bell)
        self.locks = MssqlLocks(database, ns, waiters)
        self.schedules = MssqlSchedules(database, ns, bell)
        self.events = MssqlEvents(database, ns, bell)
        self.flow = MssqlFlow(database, ns, bell)

    async def close(self) -> None:
        if not self._is_closed:
            self._is_closed = True
            await self._database.close()


class MssqlStore:
    """Jobs in a schema of a SQL Server database, which any number of machines may share."""

    def __init__(self, address: Address, *, auto_migrate: bool | None = None) -> None:
        self._address = address
        self._auto_migrate = auto_migrate is True
        self._listeners: defaultdict[int, Listeners] = defaultdict(Listeners)
        self._waiters: defaultdict[int, Waiters] = defaultdict(Waiters)
        self.migrations = MssqlMigrations(address)
        self.transactions = MssqlTransactions(address)

    @classmethod
    def from_url(cls, url: str, auto_migrate: bool | None = None) -> "MssqlStore":
        """The store of a database: `mssql://host/database`, signed in by Entra ID.

        A local server also takes `mssql://user:password@host:port/database`. After a `?` may follow `schema`
        of the tables, `pool` (connections of an event loop), `timeout` in seconds, `client_id` of a managed
        identity, `encrypt`, `trust_server_certificate` and `password_beyond_local`.
        """
        return cls(parse(url), auto_migrate=auto_migrate)

    async def connect(self, namespace: str) -> MssqlSession:
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
        return MssqlSession(database, ns, self._listeners[ns], self._waiters[ns])

    async def facts(self) -> dict[str, str]:
        database = Database(self._address)
        try:
            return await database.run(lambda connection: facts(connection, self._address), writes=False)
        finally:
            await database.close()

    async def close(self) -> None:
        """Ends the connections of transactions; sessions end their own."""
        await self.transactions.close()
