"""What an application has open: its store, and a client for each of its faces."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable
from typing import Any
from weakref import WeakSet

import msgspec

from holdfast.background import Background
from holdfast.engine.client import Client
from holdfast.engine.lock_renewer import Renewer
from holdfast.engine.locks import Locks
from holdfast.engine.notices import Notices
from holdfast.model.errors import ConfigurationError, NotOpen
from holdfast.model.partition import is_in_memory
from holdfast.model.records import JobRecord
from holdfast.model.settings import Settings
from holdfast.model.task import Registry
from holdfast.model.timing import Seconds
from holdfast.store import Session, Store
from holdfast.stores import open_store


class Opening:
    """Opens the store for the event loop that enters and for blocking code; closes it after the last one.

    `is_of_handler` is set in the child process that runs a handler, where nobody else opens it.
    """

    def __init__(self, settings: Callable[[], Settings], registry: Registry, notices: Notices) -> None:
        self._settings = settings
        self._registry = registry
        self._notices = notices
        self._given: Store | None = None
        self.is_of_handler = False
        self.background = Background(self._connect, self._disconnect)
        self.forget()
        _all.add(self)

    def forget(self) -> None:
        """Drops all that was opened, without closing it: it belongs to another process."""
        self._guard = threading.Lock()
        self._renewer = Renewer(self._open_session, self._notices)
        self._opened: Store | None = None
        self._client: Client | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._entering = asyncio.Lock()
        self._entered = 0
        self._users = 0

    @property
    def settings(self) -> Settings:
        """The settings, with the store in use: one that was given is in the memory of this process.

        Schedules are then fired by whoever gave it, not by a worker whenever it looks.
        """
        settings = self._settings()
        if self._given is None:
            return settings
        return msgspec.structs.replace(settings, store="memory://", leader_candidate=False)

    @property
    def store(self) -> Store:
        if self._given is not None:
            return self._given
        with self._guard:
            if self._opened is None:
                settings = self._settings()
                self._opened = open_store(settings.store, auto_migrate=settings.auto_migrate)
            return self._opened

    def use(self, store: Store | None) -> None:
        """Takes this store for the one of the settings; None ends that."""
        self.check_unused()
        self._given = store

    def reopen(self) -> None:
        """Makes the next use follow settings that have changed."""
        self.check_unused()
        self._opened = None

    def check_unused(self) -> None:
        if self._users:
            raise ConfigurationError(
                "the application is open; leave it before changing its store or settings"
            )

    @property
    def client(self) -> Client:
        """The client of the event loop that entered."""
        if self._client is None and self.is_of_handler:
            raise NotOpen(
                "the application is not open in the process that runs this handler; use "
                "ctx.enqueue(task.call(...)), or open it here with `async with app:`"
            )
        if self._client is None:
            raise NotOpen(
                "the application is not open; use it inside `async with app:`, or use its blocking calls"
            )
        if asyncio.get_running_loop() is not self._loop:
            raise NotOpen("the application was opened on another event loop; open it on the one that uses it")
        return self._client

    async def enter(self) -> None:
        """Opens for the running event loop. Entering again there only counts."""
        loop = asyncio.get_running_loop()
        if self._loop is not loop:
            if self._loop is not None and not self._loop.is_closed():
                raise NotOpen("the application is open on another event loop; leave it there first")
            if self._client is not None:
                self._count(-1)  # its loop ended without leaving
            self._loop, self._client, self._entered, self._entering = loop, None, 0, asyncio.Lock()
        self._entered += 1
        try:
            async with self._entering:
                if self._client is None:
                    self._client = await self._connect()
        except BaseException:
            self._count_out()
            raise

    async def leave(self) -> None:
        client = self._client
        if self._count_out() and client is not None:
            await self._disconnect(client)

    async def wait(self, job_id: str, timeout: Seconds | None) -> Any:
        """Waits for a job's result with the client of the running event loop, whichever the job came from."""
        return await self.client.results.wait(job_id, timeout)

    def settled(self, record: JobRecord) -> None:
        """Tells whoever waits in this process that a worker of it finished a job."""
        for client in (self._client, self.background.client):
            if client is not None:
                client.results.settled(record)

    def _count_out(self) -> bool:
        self._entered -= 1
        if self._entered == 0:
            self._client = self._loop = None
        return self._entered == 0

    def _count(self, change: int) -> int:
        """Counts those who have the store open; event loops on several threads do."""
        with self._guard:
            self._users += change
            return self._users

    async def _connect(self) -> Client:
        settings, store = self._settings(), self.store
        if self.is_of_handler and is_in_memory(settings.store):
            raise ConfigurationError(
                "this handler runs in a process of its own and cannot reach a store in the memory of its "
                "worker; use ctx.enqueue(task.call(...)), or a store that processes share, such as "
                "sqlite:///jobs.db",
                setting="store",
            )
        self._count(+1)
        try:
            session = await store.connect(settings.namespace)
        except BaseException:
            self._count(-1)
            raise
        locks = Locks(session.locks, self._renewer, self._notices)
        return Client(
            session,
            settings,
            self._registry,
            locks=locks,
            notices=self._notices,
            source=self,
        )

    async def _open_session(self) -> Session:
        return await self.store.connect(self._settings().namespace)

    async def _disconnect(self, client: Client) -> None:
        store = self.store
        try:
            await client.close()
        finally:
            if self._count(-1) == 0:
                await self._renewer.stop()
                await store.close()


_all: WeakSet[Opening] = WeakSet()
_of_the_parent: list[object] = []


def _forget_all() -> None:
    for opening in list(_all):
        # Kept, because a connection must not even be closed by a process that did not open it.
        _of_the_parent.append(vars(opening).copy())
        opening.forget()


os.register_at_fork(after_in_child=_forget_all)
