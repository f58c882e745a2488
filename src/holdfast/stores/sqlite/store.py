"""The factory of SQLite sessions."""

from collections.abc import Callable

from holdfast.stores.sqlite.address import Address, parse
from holdfast.stores.sqlite.aside import aside
from holdfast.stores.sqlite.clock import Clock
from holdfast.stores.sqlite.database import Database
from holdfast.stores.sqlite.events import SqliteEvents
from holdfast.stores.sqlite.facts import facts
from holdfast.stores.sqlite.fleet import SqliteFleet
from holdfast.stores.sqlite.flow import SqliteFlow
from holdfast.stores.sqlite.jobs import SqliteJobs
from holdfast.stores.sqlite.locks import SqliteLocks
from holdfast.stores.sqlite.namespaces import find_namespace, make_namespace
from holdfast.stores.sqlite.schedules import SqliteSchedules
from holdfast.stores.sqlite.schema import SqliteMigrations
from holdfast.stores.sqlite.transactions import SqliteTransactions


class SqliteWakeups:
    """Wake-ups from all processes that use the file."""

    def __init__(self, database: Database, ns: int) -> None:
        self._database = database
        self._ns = ns

    def listen(self, wake: Callable[[], None]) -> Callable[[], None]:
        return self._database.listeners.add(self._ns, wake)


class SqliteSession:
    """One namespace of a file."""

    def __init__(self, database: Database, ns: int) -> None:
        self._database: Database | None = database
        self.jobs = SqliteJobs(database, ns)
        self.fleet = SqliteFleet(database, ns)
        self.locks = SqliteLocks(database, ns)
        self.schedules = SqliteSchedules(database, ns)
        self.events = SqliteEvents(database, ns)
        self.flow = SqliteFlow(database, ns)
        self.wakeups = SqliteWakeups(database, ns)

    async def close(self) -> None:
        database, self._database = self._database, None
        if database is not None:
            await aside(database.release)


class SqliteStore:
    """Jobs in a SQLite file, which any number of processes of one machine may share.

    `clock` gives microseconds and must never go backwards; without one the file keeps time.
    """

    def __init__(
        self, address: Address, *, auto_migrate: bool | None = None, clock: Clock | None = None
    ) -> None:
        self._address = address
        self._auto_migrate = auto_migrate is not False
        self._clock = clock
        self.migrations = SqliteMigrations(address)
        self.transactions = SqliteTransactions(address, clock)

    @classmethod
    def from_url(
        cls, url: str, auto_migrate: bool | None = None, *, clock: Clock | None = None
    ) -> "SqliteStore":
        """The store of a file: `sqlite:///relative.db`, `sqlite:////absolute.db`.

        After a `?` may follow `prefix` of the tables, `synchronous` (full, extra, or normal, which is weaker)
        and `timeout`, the seconds to wait for a lock.
        """
        return cls(parse(url), auto_migrate=auto_migrate, clock=clock)

    async def connect(self, namespace: str) -> SqliteSession:
        database = Database.share(self._address, self._clock)
        try:
            await aside(lambda: database.prepare(auto_migrate=self._auto_migrate))
            ns = await database.read(0, lambda tx: find_namespace(tx, namespace))
            if ns is None:
                ns = await database.write(0, lambda tx: make_namespace(tx, namespace))
        except BaseException:
            await aside(database.release)
            raise
        return SqliteSession(database, ns)

    async def facts(self) -> dict[str, str]:
        return await aside(lambda: facts(self._address))

    async def close(self) -> None:
        """Nothing to end: sessions let go of the file."""
