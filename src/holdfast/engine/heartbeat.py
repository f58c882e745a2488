"""Keeps leases, on a thread, an event loop and a store session of its own.

No handler ever runs here, so a handler that blocks the worker's loop keeps its lease. The janitor shares the
thread, for the same reason.
"""

from __future__ import annotations

import asyncio
import logging
import random
import threading
from collections.abc import Callable, Iterable

from holdfast.engine.hold import Hold, now
from holdfast.engine.janitor import Janitor
from holdfast.engine.notices import Notices
from holdfast.model.errors import HoldfastError
from holdfast.model.outcome import Stop
from holdfast.model.records import Extension, Held
from holdfast.model.settings import Settings
from holdfast.model.timing import SECOND
from holdfast.store import Session, Store

log = logging.getLogger("holdfast.heartbeat")

STRIKES = 3
PRUNE_EVERY = 60.0
SOONEST = 0.5


class Heartbeat:
    """One thread that extends every held lease in time.

    `holds` gives the leases held now; `tell` is called on this thread when an attempt must stop, and must
    only hand it over to the worker's loop.
    """

    def __init__(
        self,
        store: Store,
        settings: Settings,
        worker: str,
        notices: Notices,
        holds: Callable[[], Iterable[Hold]],
        tell: Callable[[Hold, Stop], None],
    ) -> None:
        self._store = store
        self._settings = settings
        self._timing = settings.timing
        self._worker = worker
        self._notices = notices
        self._holds = holds
        self._tell = tell
        self._loop: asyncio.AbstractEventLoop | None = None
        self._wake: asyncio.Event | None = None
        self._stopping = False
        self._nudged = False
        self._ready = threading.Event()
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._main, name="holdfast-heartbeat", daemon=True)

    async def start(self) -> None:
        """Returns once the thread has its session; raises what kept it from getting one."""
        self._thread.start()
        await asyncio.to_thread(self._ready.wait)
        if self._failure is not None:
            raise self._failure

    async def stop(self) -> None:
        self._stopping = True
        self._call(self._set)
        await asyncio.to_thread(self._thread.join)

    def nudge(self) -> None:
        """Asks for a beat soon, because there is progress to tell.

        From any thread; cheap when already asked.
        """
        if not self._nudged:
            self._nudged = True
            self._call(self._set)

    def _call(self, function: Callable[[], None]) -> None:
        loop = self._loop
        if loop is not None and not loop.is_closed():
            try:
                loop.call_soon_threadsafe(function)
            except RuntimeError:
                log.debug("heartbeat already ended")

    def _set(self) -> None:
        if self._wake is not None:
            self._wake.set()

    def _main(self) -> None:
        try:
            asyncio.run(self._serve())
        except BaseException as error:
            self._failure = error
            log.exception("heartbeat ended", extra={"fields": {"worker": self._worker}})
        finally:
            self._ready.set()

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._wake = asyncio.Event()
        session = await self._store.connect(self._settings.namespace)
        try:
            self._ready.set()
            janitor = Janitor(session.jobs, self._worker, self._settings, self._notices)
            sweeping = asyncio.create_task(self._sweep(janitor))
            try:
                await self._beat_until_stopped(session)
            finally:
                sweeping.cancel()
                await asyncio.wait([sweeping])
        finally:
            await session.close()

    async def _beat_until_stopped(self, session: Session) -> None:
        assert self._wake is not None
        last = 0.0
        while not self._stopping:
            pause = self._pause()
            try:
                async with asyncio.timeout(pause):
                    await self._wake.wait()
                    # Progress waits a little, so that a chatty handler costs one beat and not many.
                    await asyncio.sleep(max(0.0, last + min(SOONEST, pause) - now()))
            except TimeoutError:
                self._nudged = False
            self._wake.clear()
            if not self._stopping:
                last = now()
                self._nudged = False
                await self._beat(session)

    def _pause(self) -> float:
        lease = min((hold.lease for hold in self._holds()), default=self._timing.lease / SECOND)
        return min(self._timing.heartbeat / SECOND, lease / 4)

    async def _beat(self, session: Session) -> None:
        holds = [hold for hold in self._holds() if not hold.ended and not self._is_given_up(hold)]
        sent = now()
        try:
            async with asyncio.timeout(self._timing.call_timeout / SECOND):
                _, answers = await asyncio.gather(
                    session.fleet.beat(self._worker, self._timing.lease),
                    session.jobs.extend(self._worker, [self._extension(hold) for hold in holds]),
                )
        except (HoldfastError, TimeoutError, OSError) as error:
            self._missed(holds, error)
            return
        margin = self._timing.margin / SECOND
        for hold, answer in zip(holds, answers, strict=True):
            if answer is Held.LOST:
                self._give_up(hold)
                continue
            hold.missed = 0
            hold.trust_until = sent + hold.lease - min(margin, hold.lease / 20)
            if hold.started is not None:
                hold.start_recorded = True
            if answer is Held.CANCEL_ASKED:
                self._tell(hold, Stop.CANCEL)
        if self._notices:
            self._notices.tell("heartbeat", worker=self._worker, held=len(holds))

    def _extension(self, hold: Hold) -> Extension:
        dirty, hold.progress_dirty = hold.progress_dirty, False
        return Extension(
            job=hold.record.id,
            token=hold.record.token,
            lease=round(hold.lease * SECOND),
            elapsed=hold.elapsed(),
            progress=hold.progress if dirty else None,
            progress_note=hold.progress_note if dirty else None,
        )

    def _is_given_up(self, hold: Hold) -> bool:
        """True for an attempt that outstayed its timeout or its lease: its lease is left to expire."""
        if hold.stop is Stop.LEASE_LOST:
            return True
        if hold.timeout is None or hold.started is None:
            return False
        return now() > hold.started + hold.timeout + self._settings.kill_seconds

    def _missed(self, holds: list[Hold], error: BaseException) -> None:
        fields = {"worker": self._worker, "held": len(holds), "error": str(error) or type(error).__name__}
        log.warning("heartbeat failed", extra={"fields": fields})
        if self._notices:
            self._notices.tell("heartbeat_failed", worker=self._worker, error=error)
        for hold in holds:
            hold.missed += 1
            hold.progress_dirty = hold.progress is not None
            if hold.missed >= STRIKES or now() >= hold.trust_until:
                self._give_up(hold)

    def _give_up(self, hold: Hold) -> None:
        if hold.ended:
            return
        record = hold.record
        fields = {
            "job": record.id,
            "task": record.task,
            "run": record.run,
            "token": record.token,
            "worker": self._worker,
        }
        log.error("lease lost, attempt abandoned", extra={"fields": fields})
        if self._notices:
            self._notices.tell("lease_lost", record=record)
        self._tell(hold, Stop.LEASE_LOST)

    async def _sweep(self, janitor: Janitor) -> None:
        next_prune = now() + random.uniform(0, PRUNE_EVERY)
        while True:
            await asyncio.sleep(self._settings.reclaim_seconds * random.uniform(0.7, 1))
            try:
                await janitor.reclaim()
                if now() >= next_prune:
                    next_prune = now() + PRUNE_EVERY
                    await janitor.prune()
            except (HoldfastError, OSError) as error:
                log.warning("sweep failed", extra={"fields": {"worker": self._worker, "error": str(error)}})
