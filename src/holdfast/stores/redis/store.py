"""The factory of Redis sessions."""

import asyncio
from collections import defaultdict
from typing import Final

from holdfast.model.errors import SchemaMismatch
from holdfast.store import Migrations, Transactions
from holdfast.stores.bell import Bell
from holdfast.stores.listeners import Listeners
from holdfast.stores.marks import process_mark
from holdfast.stores.redis.address import Address, parse
from holdfast.stores.redis.database import Clock, Database
from holdfast.stores.redis.events import RedisEvents
from holdfast.stores.redis.facts import check, facts, told
from holdfast.stores.redis.faults import translated
from holdfast.stores.redis.finder import Finder
from holdfast.stores.redis.fleet import RedisFleet
from holdfast.stores.redis.flow import LAYOUT, RedisFlow
from holdfast.stores.redis.jobs import RedisJobs
from holdfast.stores.redis.listener import RedisWakeups
from holdfast.stores.redis.locks import RedisLocks
from holdfast.stores.redis.schedules import RedisSchedules
from holdfast.stores.redis.wire import FAULTS
from holdfast.stores.waiters import Waiters

FIRST_LAYOUT: Final = 1
"""The form in which jobs are stored as long as nothing but their due time holds them back."""


class RedisSession:
    """One namespace of a server, for one event loop."""

    def __init__(self, database: Database, listeners: Listeners, waiters: Waiters) -> None:
        self._database = database
        self._bell = Bell(listeners, process_mark(), self._publish if database.address.notify else None)
        self._is_closed = False
        self.wakeups = RedisWakeups(database, listeners, waiters)
        self.jobs = RedisJobs(database, self._bell, self.wakeups)
        self.fleet = RedisFleet(database, self._bell)
        self.locks = RedisLocks(database, waiters, self.wakeups)
        self.schedules = RedisSchedules(database, self._bell, listeners)
        self.events = RedisEvents(database, self._bell)
        self.flow = RedisFlow(database, self._bell)

    async def close(self) -> None:
        if not self._is_closed:
            self._is_closed = True
            await self.wakeups.close()
            await self._bell.close()
            await self._database.close()

    async def _publish(self, message: str) -> None:
        await self._database.ask("PUBLISH", self._database.prefix + b"wake", message)


class RedisStore:
    """Jobs in a Redis server, which any number of machines may share.

    `clock` replaces the server's own and is for tests.
    """

    migrations: Migrations | None = None
    transactions: Transactions | None = None

    def __init__(self, address: Address, *, clock: Clock | None = None) -> None:
        self._address = address
        self._clock = clock
        self._listeners: defaultdict[str, Listeners] = defaultdict(Listeners)
        self._waiters: defaultdict[str, Waiters] = defaultdict(Waiters)

    @classmethod
    def from_url(cls, url: str, auto_migrate: bool | None = None) -> "RedisStore":
        """The store of a server: `redis://user:password@host:port/database`.

        `rediss` is with TLS; `redis+sentinel://host,host/service` asks Sentinels, `redis+cluster://host,host`
        a Cluster; `redis+unix:///path` is a socket; `valkey` says the same as `redis`. After a `?` may follow
        `prefix` of all keys, `notify=off` (no wake-ups), `timeout` in seconds, and `ssl_ca_certs`,
        `ssl_certfile`, `ssl_keyfile`, `ssl_cert_reqs`, `ssl_check_hostname`.
        """
        return cls(parse(url))

    async def connect(self, namespace: str) -> RedisSession:
        database = Database(self._address, namespace, self._clock)
        try:
            await self._look_at(database)
        except BaseException:
            await database.close()
            raise
        return RedisSession(database, self._listeners[namespace], self._waiters[namespace])

    async def facts(self) -> dict[str, str]:
        try:
            wire = await Finder(self._address).open()
            try:
                async with asyncio.timeout(self._address.patience):
                    return await facts(wire, self._address)
            finally:
                await wire.end()
        except FAULTS as error:
            raise translated(error, self._address.place, sent=False) from error

    async def close(self) -> None:
        """Nothing to end: sessions have the connections."""

    async def _look_at(self, database: Database) -> None:
        """Refuses a server on which jobs would not be safe, or that newer versions have filled."""
        await database.run("queues", writes=False)  # a Cluster then has told where the namespace is
        check(told(await database.ask("INFO")), self._address)
        layout: bytes = await database.run("layout", FIRST_LAYOUT)
        if not layout.isdigit():
            key = (database.prefix + b"v").decode(errors="replace")
            raise SchemaMismatch(
                f"{self._address.place}: {key} is {ascii(layout)[1:][:60]}, which is no layout: somebody has "
                "overwritten it. If all programs here are of this version of Holdfast, repair it: "
                f"SET {key} {LAYOUT}"
            )
        stored = int(layout)
        if stored > LAYOUT:
            raise SchemaMismatch(
                f"{self._address.place}: its layout is {stored}, and this version of Holdfast knows "
                f"{LAYOUT}: upgrade Holdfast"
            )
