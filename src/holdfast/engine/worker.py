"""The worker: from registration to retirement, alone or embedded in an application."""

from __future__ import annotations

import asyncio
import logging
import signal
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Self

from holdfast.engine.heartbeat import Heartbeat
from holdfast.engine.hold import Hold
from holdfast.engine.identity import worker_record
from holdfast.engine.notices import Notices
from holdfast.engine.pump import Pump, Results
from holdfast.engine.runner import Runner
from holdfast.model.errors import StoreError
from holdfast.model.outcome import Stop
from holdfast.model.records import JobRecord
from holdfast.model.settings import Settings
from holdfast.model.task import Registry
from holdfast.store import Session, Store

log = logging.getLogger("holdfast.worker")

Hook = Callable[[], Awaitable[None]]
DONE, FAILED, SIGNALLED = 0, 1, 128


class Worker:
    """One worker of one application.

    `await worker.run()` serves until a signal or `stop()`; `async with worker:` serves beside the code of the
    block.
    """

    def __init__(
        self,
        store: Store,
        registry: Registry,
        settings: Settings,
        *,
        queues: tuple[str, ...],
        notices: Notices,
        state: Any = None,
        results: Results | None = None,
        on_startup: Hook | None = None,
        on_shutdown: Hook | None = None,
    ) -> None:
        self.record = worker_record(queues, registry.names, settings.concurrency)
        self.exit_code = DONE
        self._store = store
        self._registry = registry
        self._settings = settings
        self._notices = notices
        self._state = state
        self._results = results
        self._on_startup = on_startup
        self._on_shutdown = on_shutdown
        self._holds: dict[tuple[str, int], Hold] = {}
        self._pump: Pump | None = None
        self._signal: signal.Signals | None = None
        self._embedded: asyncio.Task[int] | None = None

    @property
    def id(self) -> str:
        return self.record.id

    @property
    def running(self) -> list[JobRecord]:
        """The jobs that are being run now."""
        return [
            hold.record for hold in list(self._holds.values()) if hold.started is not None and not hold.ended
        ]

    async def run(self, *, until_idle: bool = False) -> int:
        """Serves until stopped, or with `until_idle` until nothing that is due is left; gives the exit code.

        On the main thread SIGTERM and SIGINT stop it: the first lets running jobs finish within the grace
        period, the second cancels and releases them at once.
        """
        with self._signals():
            return await self._run(until_idle=until_idle, ready=None)

    def stop(self, grace: float | None = None) -> None:
        """Asks the worker to end; running jobs get `grace` seconds, by default the setting."""
        if self._pump is not None:
            self._pump.stop(self._settings.grace_seconds if grace is None else grace)

    async def __aenter__(self) -> Self:
        ready = asyncio.Event()
        self._embedded = asyncio.create_task(self._run(until_idle=False, ready=ready))
        waiting = asyncio.create_task(ready.wait())
        await asyncio.wait([self._embedded, waiting], return_when=asyncio.FIRST_COMPLETED)
        waiting.cancel()
        if not ready.is_set():
            await self._embedded
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
        if self._embedded is not None:
            await self._embedded

    async def _run(self, *, until_idle: bool, ready: asyncio.Event | None) -> int:
        lease = self._settings.timing.lease
        session = await self._store.connect(self._settings.namespace)
        try:
            await session.fleet.register(self.record, lease)
            if self._on_startup is not None:
                await self._on_startup()
            try:
                await self._serve(session, until_idle=until_idle, ready=ready)
            finally:
                if self._on_shutdown is not None:
                    await self._on_shutdown()
                await self._retire(session)
        finally:
            await session.close()
        return self.exit_code

    async def _serve(self, session: Session, *, until_idle: bool, ready: asyncio.Event | None) -> None:
        heartbeat = Heartbeat(
            self._store,
            self._settings,
            self.id,
            self._notices,
            lambda: list(self._holds.values()),
            self._tell_from_heartbeat,
        )
        runner = Runner(self._settings, self._state, self._store.transactions, heartbeat.nudge)
        pump = Pump(
            session,
            self.record,
            self._registry,
            self._settings,
            runner,
            self._holds,
            self._notices,
            self._results,
        )
        self._pump = pump
        await heartbeat.start()
        try:
            self._say("worker started", "worker_started", queues=",".join(self.record.queues))
            if ready is not None:
                ready.set()
            await pump.serve(until_idle=until_idle)
        finally:
            await heartbeat.stop()
            self._pump = None
            if pump.is_wedged:
                self.exit_code = FAILED
            elif pump.was_cut_short and self._signal is not None:
                self.exit_code = SIGNALLED + self._signal
            self._say("worker stopped", "worker_stopped", exit_code=self.exit_code)

    def _tell_from_heartbeat(self, hold: Hold, stop: Stop) -> None:
        if self._pump is not None:
            self._pump.tell_from_thread(hold, stop)

    async def _retire(self, session: Session) -> None:
        try:
            await session.fleet.retire(self.id)
        except StoreError as error:
            fields = {"worker": self.id, "error": str(error)}
            log.warning("cannot retire; the registration will expire", extra={"fields": fields})

    def _say(self, event: str, notice: str, **facts: object) -> None:
        log.info(event, extra={"fields": {"worker": self.id, **facts}})
        if self._notices:
            self._notices.tell(notice, worker=self.id, **facts)

    def _signalled(self, number: signal.Signals) -> None:
        first = self._signal is None
        self._signal = number
        log.info("signal", extra={"fields": {"worker": self.id, "signal": number.name, "forced": not first}})
        self.stop(None if first else 0)

    @contextmanager
    def _signals(self) -> Iterator[None]:
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        loop = asyncio.get_running_loop()
        caught = (signal.SIGTERM, signal.SIGINT)
        for number in caught:
            loop.add_signal_handler(number, self._signalled, number)
        try:
            yield
        finally:
            for number in caught:
                loop.remove_signal_handler(number)
