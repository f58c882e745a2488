"""The worker: from registration to retirement, alone or embedded in an application."""

from __future__ import annotations

import asyncio
import logging
import signal
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from functools import partial
from types import TracebackType
from typing import Any, Self

import msgspec

from holdfast.engine import surroundings
from holdfast.engine.account import Account
from holdfast.engine.consumers import Consumers
from holdfast.engine.heartbeat import Heartbeat
from holdfast.engine.hold import Hold
from holdfast.engine.identity import worker_record
from holdfast.engine.ledger import Ledger, Results
from holdfast.engine.limits import declare
from holdfast.engine.notices import Notices
from holdfast.engine.outage import Outage, reached
from holdfast.engine.pump import Pump
from holdfast.engine.runner import Runner
from holdfast.engine.shares import followed, learning
from holdfast.engine.signals import listening
from holdfast.engine.slots import Slots
from holdfast.engine.telling import stands
from holdfast.model.errors import ConfigurationError
from holdfast.model.health import Health, Phase, Vitals, judge
from holdfast.model.outcome import Stop
from holdfast.model.records import JobRecord
from holdfast.model.report import WorkerReport
from holdfast.model.settings import Settings
from holdfast.model.strategy import Rotating, Strategy
from holdfast.model.subscription import Subscription
from holdfast.model.task import Registry
from holdfast.model.timing import SECOND
from holdfast.store import Session, Store

log = logging.getLogger("holdfast.worker")

Hook = Callable[[], Awaitable[None]]
Serve = Callable[[bool, asyncio.Event | None], Awaitable[None]]
DONE, FAILED, SIGNALLED = 0, 1, 128


class Worker:
    """One worker of one application.

    `await worker.run()` serves until a signal or `stop()`; `async with worker:` serves beside the code of the
    block. It may be run again after it has ended, and is then another worker for the store. `opening` is open
    while it runs, hooks included.
    """

    def __init__(
        self,
        store: Store,
        registry: Registry,
        settings: Settings,
        *,
        queues: tuple[str, ...],
        notices: Notices,
        strategy: Strategy | None = None,
        state: Any = None,
        subscriptions: Sequence[Subscription] = (),
        results: Results | None = None,
        opening: AbstractAsyncContextManager[Any] | None = None,
        on_startup: Hook | None = None,
        on_shutdown: Hook | None = None,
        make_slots: Callable[..., Slots] = Slots,
        partition: str | None = None,
    ) -> None:
        if not queues:
            raise ConfigurationError("a worker needs at least one queue to serve", setting="queues")
        self.exit_code = DONE
        self._queues = queues
        self._strategy = Rotating() if strategy is None else followed(strategy)
        self._store = store
        self._registry = registry
        self._settings = settings
        self._notices = notices
        self._state = state
        self._subscriptions = subscriptions
        self._results = results
        self._opening = opening
        self._on_startup = on_startup
        self._on_shutdown = on_shutdown
        self._make_slots = make_slots
        self._partition = partition
        self.record = worker_record(queues, registry.names, settings.concurrency)
        self._is_running = self._has_run = self._is_wedged = False
        self._starting: asyncio.Timeout | None = None
        self._outage: Outage | None = None
        self._account = Account()
        self._ledger: Ledger | None = None
        self._pump: Pump | None = None
        self._consumers: Consumers | None = None
        self._was_stopped = False
        self._signal: signal.Signals | None = None
        self._embedded: asyncio.Task[int] | None = None

    @property
    def id(self) -> str:
        return self.record.id

    @property
    def running(self) -> list[JobRecord]:
        """The jobs that are being run now."""
        return [hold.record for hold in self._held() if hold.started is not None and not hold.ended]

    def health(self) -> Health:
        """Whether it is well, and why not. From any thread, also while its event loop is blocked."""
        return judge(self._vitals(), self._settings.health_limit_seconds + self._settings.poll_seconds)

    def _vitals(self) -> Vitals:
        pump, outage, moment = self._pump, self._outage, surroundings.now()
        if pump is None:
            away = None if outage is None or outage.since is None else moment - outage.since
            ended: Phase = "failed" if self.exit_code == FAILED else "stopped"
            return Vitals(phase="starting" if self._is_running else ended, away=away)
        known = [each.away_since for each in pump.exchanges]
        since = min((each for each in known if each is not None), default=None)
        return Vitals(
            phase="draining" if pump.is_stopping else "serving",
            silent=moment - pump.heard,
            away=None if since is None else moment - since,
            slots=pump.slots.concurrency,
            stuck=len(pump.slots.stuck),
        )

    def report(self) -> WorkerReport:
        """How it stands now, as it tells the store. From any thread."""
        return stands(self._pump, self._account, self._settings.concurrency)

    async def run(self, *, until_idle: bool = False) -> int:
        """Serves until stopped, or with `until_idle` until nothing that is due is left; gives the exit code.

        On the main thread SIGTERM and SIGINT stop it: the first lets running jobs finish within the grace
        period, the second cancels and releases them at once.
        """
        with listening(self._signalled):
            return await self.serve(until_idle=until_idle, ready=None)

    def stop(self, grace: float | None = None) -> None:
        """Asks the worker to end; running jobs get `grace` seconds, by default the setting."""
        if self._pump is not None:
            grace = self._settings.grace_seconds if grace is None else grace
            self._pump.stop(grace)
            if self._consumers is not None:
                self._consumers.stop(grace)
        elif self._starting is not None and not self._starting.expired():
            self._was_stopped = True
            self._starting.reschedule(asyncio.get_running_loop().time())

    async def __aenter__(self) -> Self:
        ready = asyncio.Event()
        self._embedded = asyncio.create_task(self.serve(until_idle=False, ready=ready))
        waiting = asyncio.create_task(ready.wait())
        try:
            await asyncio.wait([self._embedded, waiting], return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            self._embedded.cancel()
            raise
        finally:
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

    async def serve(self, *, until_idle: bool, ready: asyncio.Event | None) -> int:
        """As `run` does, without heeding signals; `ready` is set when it is ready for the first job."""
        if self._is_running:
            raise RuntimeError("this worker is already running; make another one with app.worker()")
        self._begin_anew()
        try:
            async with AsyncExitStack() as stack:
                serve = await self._start_up(stack)
                if serve is not None:
                    await serve(until_idle, ready)
        finally:
            self._is_running = False
        return self.exit_code

    def _begin_anew(self) -> None:
        """A new identity for each run, and the tasks that are known by now."""
        record = worker_record(self._queues, self._registry.names, self._settings.concurrency)
        self.record = record if self._has_run else msgspec.structs.replace(record, id=self.record.id)
        self._is_running = self._has_run = True
        self._account = Account()
        self.exit_code = DONE
        self._signal = None
        self._was_stopped = False

    async def _start_up(self, stack: AsyncExitStack) -> Serve | None:
        """All that comes before the first job; None if the worker was stopped meanwhile."""
        self._starting = starting = asyncio.timeout(None)
        try:
            async with starting:
                serve = await self._prepare(stack)
            # One that was asked to stop in the very turn in which it was ready has not been interrupted.
            if not self._was_stopped:
                return serve
        except TimeoutError:
            if not starting.expired():
                raise
        finally:
            self._starting = None
        log.info("stopped before it had started", extra={"fields": {"worker": self.id}})
        return None

    async def _prepare(self, stack: AsyncExitStack) -> Serve:
        store, settings, notices = self._store, self._settings, self._notices
        self._outage = Outage(self.id, notices, "start_failed")
        session, heartbeat = await reached(stack, self._outage, self._join)
        if self._on_startup is not None:
            await self._on_startup()
        if self._on_shutdown is not None:
            stack.push_async_callback(self._on_shutdown)
        await stack.enter_async_context(learning(self._strategy, session, settings.reclaim_seconds))
        runner = Runner(settings, self._state, store.transactions, heartbeat.nudge, notices, self._partition)
        self._consumers = Consumers(
            store, session, self._subscriptions, settings, notices, self.id, self._state
        )

        def make_pump() -> Pump:
            self._ledger = Ledger(
                self._registry, settings, notices, self._results, heartbeat.look, self._account
            )
            pump = Pump(
                session,
                self.record,
                self._registry,
                settings,
                runner,
                self._ledger,
                notices,
                self._strategy,
                self._make_slots,
            )
            if not heartbeat.is_alive:
                pump.fail()
            return pump

        return partial(self._serve, make_pump)

    async def _join(self, stack: AsyncExitStack) -> tuple[Session, Heartbeat]:
        """All that the start needs of the store."""
        store, settings = self._store, self._settings
        session = await store.connect(settings.namespace)
        stack.push_async_callback(self._tidy, session.close)
        async with asyncio.timeout(settings.timing.call_timeout / SECOND):
            await session.fleet.register(self.record, settings.timing.lease)
        stack.push_async_callback(self._tidy, lambda: self._retire(session))
        async with asyncio.timeout(settings.timing.call_timeout / SECOND):
            await declare(session.flow, self._registry.limits)
        heartbeat = Heartbeat(
            store,
            settings,
            self.id,
            self._notices,
            self._held,
            self._tell_from_heartbeat,
            self._heartbeat_died,
            self.report,
        )
        stack.push_async_callback(heartbeat.stop)
        await heartbeat.start()
        if self._opening is not None:
            await stack.enter_async_context(self._opening)
        return session, heartbeat

    async def _serve(
        self, make_pump: Callable[[], Pump], until_idle: bool, ready: asyncio.Event | None
    ) -> None:
        consumers = self._consumers
        assert consumers is not None
        pump = self._pump = make_pump()
        try:
            self._say("worker started", "worker_started", queues=",".join(self.record.queues))
            if ready is not None:
                ready.set()
            if not until_idle:
                consumers.start()
            await pump.serve(until_idle=until_idle)
            while until_idle and not pump.is_stopping and await consumers.drain():
                pump = self._pump = make_pump()
                await pump.serve(until_idle=True)
        finally:
            if not consumers.is_stopping:
                consumers.stop(0)
            await consumers.close()
            if self._ledger is not None:
                self._ledger.close()
            self._ledger = self._pump = self._consumers = None
            self._is_wedged = any(hold.stop is not Stop.SHUTDOWN for hold in pump.slots.stuck)
            self.exit_code = self._code_after(pump)
            self._say("worker stopped", "worker_stopped", exit_code=self.exit_code)

    def _code_after(self, pump: Pump) -> int:
        if pump.has_failed:
            return FAILED
        if pump.was_cut_short and self._signal is not None:
            return SIGNALLED + self._signal
        return FAILED if pump.left_something else DONE

    async def _retire(self, session: Session) -> None:
        """Takes leave, unless an attempt that should have ended by itself is left: that counts as a loss."""
        if not self._is_wedged:
            await session.fleet.retire(self.id)

    def _held(self) -> list[Hold]:
        return [] if self._ledger is None else self._ledger.holds()

    def _tell_from_heartbeat(self, hold: Hold, stop: Stop) -> None:
        if self._pump is not None:
            self._pump.tell_from_thread(hold, stop)

    def _heartbeat_died(self) -> None:
        if self._pump is not None:
            self._pump.fail()

    async def _tidy(self, farewell: Hook) -> None:
        """Says goodbye to the store. If it does not hear it, sessions and registrations end by themselves."""
        settings = self._settings
        try:
            async with asyncio.timeout(min(settings.timing.call_timeout / SECOND, settings.kill_seconds)):
                await farewell()
        except Exception as error:  # noqa: BLE001  nothing rests on it
            fields = {"worker": self.id, "error": str(error) or type(error).__name__}
            log.warning("cannot take leave of the store", extra={"fields": fields})

    def _say(self, event: str, notice: str, **facts: object) -> None:
        if self._partition is not None:
            event, notice = f"partition: {event}", f"partition_{notice}"
            facts["partition"] = self._partition
        log.info(event, extra={"fields": {"worker": self.id, **facts}})
        if self._notices:
            self._notices.tell(notice, worker=self.id, **facts)

    def _signalled(self, number: signal.Signals) -> None:
        first = self._signal is None
        self._signal = number
        log.info("signal", extra={"fields": {"worker": self.id, "signal": number.name, "forced": not first}})
        self.stop(None if first else 0)
