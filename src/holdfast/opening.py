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
from holdfast.config import load_keys
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
from holdfast.stores import open_store, seal


class Opened:
    """What one process has open of an application."""

    def __init__(self, renewer: Renewer) -> None:
        self.guard = threading.Lock()
        self.renewer = renewer
        self.store: Store | None = None
        self.client: Client | None = None
        self.loop: asyncio.AbstractEventLoop | None = None
        self.entering = asyncio.Lock()
        self.entered = 0
        self.users = 0


class Opening:
    """Opens the store for the event loop that enters and for blocking code; closes it after the last one.

    `is_of_handler` is set in the child process that runs a handler, where nobody else opens it.
    """

    def __init__(self, settings: Callable[[], Settings], registry: Registry, notices: Notices) -> None:
        self._settings = settings
        self._registry = registry
        self._notices = notices
        self._given: Store | None = None
        self._may_lead = False
        self.is_of_handler = False
        self.background = Background(self._connect, self._disconnect)
        self.forget()
        _all.add(self)

    def forget(self) -> None:
        """Drops all that was opened, without closing it: it belongs to another process."""
        self.opened = self.made()

    def made(self) -> Opened:
        """What a process has that has opened nothing yet."""
        return Opened(Renewer(self._open_session, self._notices))

    @property
    def settings(self) -> Settings:
        """The settings, with the store in use: one that was given is in the memory of this process."""
        settings = self._settings()
        if self._given is None:
            return settings
        leads = settings.leader_candidate and self._may_lead
        return msgspec.structs.replace(settings, store="memory://", leader_candidate=leads)

    @property
    def store(self) -> Store:
        if self._given is not None:
            return self._given
        with self.opened.guard:
            if self.opened.store is None:
                settings = self._settings()
                self.opened.store = open_store(
                    settings.store, auto_migrate=settings.auto_migrate, keys=load_keys(settings)
                )
            return self.opened.store

    def sealed(self, store: Store) -> Store:
        """The store, encrypted if the settings say so."""
        return seal(store, load_keys(self._settings()))

    def use(self, store: Store | None, *, may_lead: bool = False) -> None:
        """Takes this store for the one of the settings; None ends that.

        Unless workers `may_lead`, schedules are then fired by whoever gave it, not when a worker looks.
        """
        self.check_unused()
        self._given = store
        self._may_lead = may_lead

    def reopen(self) -> None:
        """Makes the next use follow settings that have changed."""
        self.check_unused()
        self.opened.store = None

    def check_unused(self) -> None:
        if self.opened.users:
            raise ConfigurationError(
                "the application is open; leave it before changing its store or settings"
            )

    @property
    def client(self) -> Client:
        """The client of the event loop that entered."""
        opened = self.opened
        if opened.client is None and self.is_of_handler:
            raise NotOpen(
                "the application is not open in the process that runs this handler; use "
                "ctx.enqueue(task.call(...)), or open it here with `async with app:`"
            )
        if opened.client is None:
            raise NotOpen(
                "the application is not open; use it inside `async with app:`, or use its blocking calls"
            )
        if asyncio.get_running_loop() is not opened.loop:
            raise NotOpen("the application was opened on another event loop; open it on the one that uses it")
        return opened.client

    async def enter(self) -> None:
        """Opens for the running event loop. Entering again there only counts."""
        loop, opened = asyncio.get_running_loop(), self.opened
        if opened.loop is not loop:
            if opened.loop is not None and not opened.loop.is_closed():
                raise NotOpen("the application is open on another event loop; leave it there first")
            if opened.client is not None:
                self._count(-1)  # its loop ended without leaving
            opened.loop, opened.client = loop, None
            opened.entered, opened.entering = 0, asyncio.Lock()
        opened.entered += 1
        try:
            async with self.opened.entering:
                if self.opened.client is None:
                    self.opened.client = await self._connect()
        except BaseException:
            self._count_out()
            raise

    async def leave(self) -> None:
        client = self.opened.client
        if self._count_out() and client is not None:
            await self._disconnect(client)

    async def wait(self, job_id: str, timeout: Seconds | None) -> Any:
        """Waits for a job's result with the client of the running event loop, whichever the job came from."""
        return await self.client.results.wait(job_id, timeout)

    def settled(self, record: JobRecord) -> None:
        """Tells whoever waits in this process that a worker of it finished a job."""
        for client in (self.opened.client, self.background.client):
            if client is not None:
                client.results.settled(record)

    def _count_out(self) -> bool:
        self.opened.entered -= 1
        if self.opened.entered == 0:
            self.opened.client = self.opened.loop = None
        return self.opened.entered == 0

    def _count(self, change: int) -> int:
        """Counts those who have the store open; event loops on several threads do."""
        with self.opened.guard:
            self.opened.users += change
            return self.opened.users

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
        locks = Locks(session.locks, self.opened.renewer, self._notices)
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
                await self.opened.renewer.stop()
                await store.close()


_all: WeakSet[Opening] = WeakSet()
_of_the_parent: list[object] = []


def _forget_all() -> None:
    for opening in list(_all):
        # Kept, because a connection must not even be closed by a process that did not open it.
        _of_the_parent.append(vars(opening).copy())
        opening.forget()


os.register_at_fork(after_in_child=_forget_all)
