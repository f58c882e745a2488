"""A worker of several partitions: it serves each as a worker of that store alone would, with shared slots."""

from __future__ import annotations

import asyncio
import logging
import signal
from collections.abc import Mapping
from contextlib import AsyncExitStack
from typing import Any

from holdfast.engine.outage import Outage, pauses, reached
from holdfast.engine.partition_slots import Crew
from holdfast.engine.worker import DONE, FAILED, Serve, Worker
from holdfast.model.errors import StoreError
from holdfast.model.health import Health, any_well
from holdfast.model.records import JobRecord
from holdfast.model.report import WorkerReport, merged
from holdfast.store import Store
from holdfast.store.partitions import Partitioned

log = logging.getLogger("holdfast.worker")

HEAD_START = 1.0
"""How many seconds the other partitions may take once one is served; then those that come later are late."""


class PartWorker(Worker):
    """The part of a worker that serves one partition."""

    def receive(self, number: signal.Signals | None, grace: float | None) -> None:
        """Stops, for a signal if there was one."""
        self._signal = number
        self.stop(grace)


class PartitionedWorker(Worker):
    """One worker of several partitions.

    Each has its own registration, ticks, heartbeat, janitor, candidate and consumers. One that is away, or
    comes back, is of no matter to the others. All share the slots, hooks and signals.
    """

    def __init__(self, store: Store, *args: Any, parts: Mapping[str, Store], **kwargs: Any) -> None:
        super().__init__(store, *args, **kwargs)
        self._parts = parts
        self._servers: dict[str, PartWorker] | None = None
        self._stopping: asyncio.Event = asyncio.Event()
        self._failure: BaseException | None = None

    @property
    def running(self) -> list[JobRecord]:
        return [record for server in (self._servers or {}).values() for record in server.running]

    def health(self) -> Health:
        """As `Worker.health`; ready as long as one partition is served."""
        servers = self._servers
        if not servers:
            return super().health()
        return any_well({f"partition {name}": server.health() for name, server in [*servers.items()]})

    def report(self) -> WorkerReport:
        servers = list((self._servers or {}).values())
        return merged(server.report() for server in servers) if servers else super().report()

    def stop(self, grace: float | None = None) -> None:
        if self._servers is None:
            super().stop(grace)
            return
        self._stopping.set()
        for server in self._servers.values():
            server.receive(self._signal, grace)

    async def _prepare(self, stack: AsyncExitStack) -> Serve:
        """Opens the application, and calls the hooks; what belongs to a partition comes later."""
        if self._opening is not None:
            opening = self._opening
            self._outage = Outage(self.id, self._notices, "start_failed")
            await reached(stack, self._outage, lambda attempt: attempt.enter_async_context(opening))
        if self._on_startup is not None:
            await self._on_startup()
        if self._on_shutdown is not None:
            stack.push_async_callback(self._on_shutdown)
        return self._serve_all

    async def _serve_all(self, until_idle: bool, ready: asyncio.Event | None) -> None:
        settings = self._settings
        crew = Crew(settings.concurrency, settings.poll_seconds, settings.lost_limit)
        self._stopping = asyncio.Event()
        self._failure = None
        self._servers = {}
        self._say("worker started", "worker_started", queues=",".join(self.record.queues))
        try:
            while True:
                before = crew.started
                await self._serve_once(crew, until_idle, ready)
                # What ran in one partition may have enqueued into another that was done before.
                if not until_idle or self._stopping.is_set() or crew.started == before:
                    break
        finally:
            self._servers = None
            self._say("worker stopped", "worker_stopped", exit_code=self.exit_code)
        if self._failure is not None:
            raise self._failure

    async def _serve_once(self, crew: Crew, until_idle: bool, ready: asyncio.Event | None) -> None:
        begun = {name: asyncio.Event() for name in self._parts}
        tasks = [
            asyncio.create_task(
                self._keep(name, part, crew, until_idle, begun[name]), name=f"partition {name}"
            )
            for name, part in self._parts.items()
        ]
        telling = None if ready is None else asyncio.create_task(_tell_ready(list(begun.values()), ready))
        try:
            await asyncio.wait(tasks)
        except asyncio.CancelledError:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)
            raise
        finally:
            if telling is not None:
                telling.cancel()
        codes = [task.result() for task in tasks if not task.cancelled()]
        self.exit_code = FAILED if FAILED in codes else max(codes, default=DONE)

    async def _keep(self, name: str, part: Store, crew: Crew, until_idle: bool, begun: asyncio.Event) -> int:
        """Serves a partition until the worker is stopped, again if its store breaks; the exit code."""
        assert self._servers is not None
        waits = pauses()
        while not self._stopping.is_set():
            server = self._servers[name] = self._make_server(name, part, crew)
            try:
                code = await server.serve(until_idle=until_idle, ready=begun)
            except StoreError as error:
                fields = {"worker": self.id, "partition": name, "error": str(error)}
                log.warning("partition cannot be served for now", extra={"fields": fields})
                await self._rest(next(waits))
                continue
            except Exception as error:  # noqa: BLE001  raised when the others have ended
                self._failure = error
                code = FAILED
            if code == FAILED and not self._stopping.is_set():
                self.stop(None)
            if until_idle or self._stopping.is_set():
                return code
        return DONE

    async def _rest(self, pause: float) -> None:
        try:
            async with asyncio.timeout(pause):
                await self._stopping.wait()
        except TimeoutError:
            return

    def _make_server(self, name: str, part: Store, crew: Crew) -> PartWorker:
        server = PartWorker(
            part,
            self._registry,
            self._settings,
            queues=self._queues,
            notices=self._notices,
            strategy=self._strategy,
            state=self._state,
            subscriptions=self._subscriptions,
            results=self._results,
            make_slots=crew.make_slots,
            partition=name,
        )
        server.record = self.record
        return server


async def _tell_ready(begun: list[asyncio.Event], ready: asyncio.Event) -> None:
    """Ready when all partitions are served, or one is and the others have had a little time."""
    waiting = {asyncio.create_task(each.wait()) for each in begun}
    try:
        _, late = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        if late:
            await asyncio.wait(late, timeout=HEAD_START)
        ready.set()
    finally:
        for task in waiting:
            task.cancel()


def make_worker(store: Store, *args: Any, **kwargs: Any) -> Worker:
    """A worker of the store, or of its partitions."""
    if isinstance(store, Partitioned):
        return PartitionedWorker(store, *args, parts=store.parts, **kwargs)
    return Worker(store, *args, **kwargs)
