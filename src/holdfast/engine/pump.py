"""The loop between store and slots.

It is paced by its own ticks: while one is in flight, finished attempts and free slots gather, and when it
returns the next one leaves with all of them. When there is nothing to do it waits for a wake-up, the next due
time, or the poll.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Protocol

from holdfast.engine.appetite import Appetite
from holdfast.engine.exchange import Answer, Exchange, Report
from holdfast.engine.hold import Hold, now
from holdfast.engine.notices import Notices
from holdfast.engine.runner import Runner
from holdfast.engine.slots import Slots
from holdfast.model.errors import StoreError
from holdfast.model.lifecycle import FINISHED, State
from holdfast.model.outcome import Stop, start
from holdfast.model.records import JobRecord, Move, Ticked, Verdict, Want, WorkerRecord
from holdfast.model.settings import Settings
from holdfast.model.task import Registry
from holdfast.model.timing import SECOND
from holdfast.store import Session

log = logging.getLogger("holdfast.worker")

SHOW_START_AFTER = 0.2


class Results(Protocol):
    """Whoever waits for results in this process."""

    def settled(self, record: JobRecord) -> None: ...


class Pump:
    """Moves jobs from the store into the slots, and what became of them back."""

    def __init__(
        self,
        session: Session,
        worker: WorkerRecord,
        registry: Registry,
        settings: Settings,
        runner: Runner,
        holds: dict[tuple[str, int], Hold],
        notices: Notices,
        results: Results | None,
    ) -> None:
        self._session = session
        self._worker = worker
        self._registry = registry
        self._settings = settings
        self._lease = settings.timing.lease
        self._margin = settings.timing.margin / SECOND
        self._holds = holds
        self._notices = notices
        self._results = results
        self._loop = asyncio.get_running_loop()
        self._kick = asyncio.Event()
        self._outbox: list[Report] = []
        self._appetite = Appetite(settings.batch)
        self._verifying: set[asyncio.Task[None]] = set()
        self._turn = 0
        self._hungry = True
        self._next_due: float | None = None
        self._last_shown = 0.0
        self._stop_by: float | None = None
        self._told_all = False
        self.was_cut_short = False
        self.is_wedged = False
        self.slots = Slots(
            runner, settings.concurrency, settings.kill_seconds, self._report, self._verify, self._stuck
        )
        self._exchange = Exchange(
            session.jobs, worker.id, settings.timing.call_timeout / SECOND, notices, self.slots.unrecordable
        )

    async def serve(self, *, until_idle: bool) -> None:
        """Serves until stopped, or with `until_idle` until nothing that is due is left."""
        wakeups = self._session.wakeups
        end_listening = wakeups.listen(self.wake) if wakeups is not None else None
        try:
            while True:
                await self._step()
                if self._is_done(until_idle=until_idle):
                    return
                await self._pause()
        finally:
            if end_listening is not None:
                end_listening()
            await self.slots.close()

    def stop(self, grace: float) -> None:
        """Claims nothing more, gives back what waits, and lets running attempts go on for `grace` seconds."""
        self._stop_by = min(now() + grace, self._stop_by or float("inf"))
        self._kick.set()

    def wake(self) -> None:
        """A hint, from any thread, that there may be work."""
        try:
            self._loop.call_soon_threadsafe(self._woken)
        except RuntimeError:
            log.debug("wake-up after the end", extra={"fields": {"worker": self._worker.id}})

    def tell_from_thread(self, hold: Hold, stop: Stop) -> None:
        """Tells an attempt to stop, from any thread.

        The handler sees it at once, even if the loop is blocked.
        """
        if hold.ended or hold.stop is not None:
            return
        hold.stop = stop
        try:
            self._loop.call_soon_threadsafe(self.slots.enforce, hold, stop)
        except RuntimeError:
            log.debug("stop after the end", extra={"fields": {"worker": self._worker.id}})

    def _woken(self) -> None:
        self._hungry = True
        self._kick.set()

    def _is_done(self, *, until_idle: bool) -> bool:
        if self._outbox or self._verifying:
            return False
        if self._stop_by is not None:
            return not self.slots.buffer and self.slots.running <= self.slots.stuck
        return until_idle and not self._hungry and not self._holds

    async def _step(self) -> None:
        """One turn: say what is finished, and ask for more."""
        if self._stop_by is not None:
            self._wind_down(self._stop_by)
        want = self._want()
        reports = self._take_reports()
        if reports or want is not None:
            sent = now()
            answer = await self._exchange.send(reports, want)
            self._appetite.observe(len(reports), sent, now())
            await self._settle(reports, want, answer)

    def _wind_down(self, stop_by: float) -> None:
        self.slots.give_back("shutdown")
        if now() >= stop_by and not self._told_all:
            self._told_all = True
            for hold in list(self.slots.running):
                self.was_cut_short = True
                self.slots.tell(hold, Stop.SHUTDOWN)

    def _want(self) -> Want | None:
        slots = self.slots
        if self._stop_by is not None or not (self._hungry or self._outbox):
            return None
        limit = min(slots.free + self._appetite.prefetch - len(slots.buffer), self._settings.batch)
        if limit <= 0:
            return None
        # Each tick begins with another queue, so that a busy one cannot starve those after it.
        queues = self._worker.queues
        self._turn = (self._turn + 1) % len(queues)
        return Want(
            queues=queues[self._turn :] + queues[: self._turn],
            tasks=self._registry.names,
            limit=limit,
            lease=self._lease,
        )

    def _take_reports(self) -> list[Report]:
        batch = self._settings.batch
        reports, self._outbox = self._outbox[:batch], self._outbox[batch:]
        if now() - self._last_shown > SHOW_START_AFTER:
            self._last_shown = now()
            reports += self._long_starts()
        return reports

    def _long_starts(self) -> list[Report]:
        """Starts of attempts that have been running for a while and still stand as claimed."""
        before = now() - SHOW_START_AFTER
        return [
            (hold, start(hold.record, hold.elapsed() or 0))
            for hold in self.slots.running
            if not hold.start_recorded and hold.started is not None and hold.started < before
        ]

    async def _settle(self, reports: list[Report], want: Want | None, answer: Answer) -> None:
        ticked = answer.ticked
        for (hold, move), verdict in zip(reports, ticked.verdicts, strict=True):
            if move.outcome is None:
                self._start_settled(hold, verdict)
            else:
                self._settled(hold, move, verdict)
        self._take_in_hand(ticked, answer.sent)
        for job_id, token in ticked.cancel_asked:
            asked = self._holds.get((job_id, token))
            if asked is not None:
                self.slots.tell(asked, Stop.CANCEL)
        if ticked.paused and self.slots.buffer:
            self.slots.give_back("queue paused", lambda hold: hold.record.queue not in ticked.paused)
        if want is not None:
            self._hungry = len(ticked.claimed) >= want.limit
            self._next_due = None if ticked.next_due is None else now() + ticked.next_due / SECOND
            if not ticked.registered:
                await self._register()
        self.slots.fill()

    async def _register(self) -> None:
        """Makes itself known again, after a pause so long that the store took this worker for dead."""
        try:
            await self._session.fleet.register(self._worker, self._lease)
            self._hungry = True
        except StoreError as error:
            log.warning("cannot register", extra={"fields": {"worker": self._worker.id, "error": str(error)}})

    def _take_in_hand(self, ticked: Ticked, sent: float) -> None:
        """Trust in a lease counts from when the call that got it left."""
        for record in ticked.claimed:
            definition = self._registry.find(record.task)
            if definition is None:
                fields = {"worker": self._worker.id, "job": record.id, "task": record.task}
                log.error("the store gave a job of a task that was not wanted", extra={"fields": fields})
                continue
            lease = (self._lease if record.lease is None else record.lease) / SECOND
            hold = Hold(record, definition, lease, sent + lease - min(self._margin, lease / 20), sent)
            self._holds[record.id, record.token] = hold
            self.slots.buffer.append(hold)
            if self._notices:
                self._notices.tell("claimed", record=record)

    def _start_settled(self, hold: Hold, verdict: Verdict) -> None:
        if verdict is Verdict.ACCEPTED:
            hold.record.state = State.RUNNING
            self.slots.start_recorded(hold)
        elif hold.started is None:
            self.slots.drop(hold)
            self._forget(hold)
        else:
            self.slots.tell(hold, Stop.LEASE_LOST)

    def _settled(self, hold: Hold, move: Move, verdict: Verdict) -> None:
        self._forget(hold)
        if verdict is Verdict.ACCEPTED:
            record = hold.record
            record.state = move.path[-1]
            if self._results is not None and record.state in FINISHED:
                record.result, record.reason, record.error = move.result, move.reason, move.error
                self._results.settled(record)
        else:
            log.warning(
                "late report refused", extra={"fields": {**self._fields(hold), "outcome": move.outcome}}
            )
        if self._notices:
            self._notices.tell("settled", record=hold.record, move=move, verdict=verdict)
        if log.isEnabledFor(logging.DEBUG):
            log.debug("job settled", extra={"fields": {**self._fields(hold), "outcome": move.outcome}})

    def _forget(self, hold: Hold) -> None:
        self._holds.pop((hold.record.id, hold.record.token), None)

    def _report(self, hold: Hold, move: Move) -> None:
        self._outbox.append((hold, move))
        self._kick.set()

    def _verify(self, hold: Hold) -> None:
        """An attempt that says it committed its own completion: only the store knows whether it did."""
        task = self._loop.create_task(self._confirm(hold))
        self._verifying.add(task)
        task.add_done_callback(self._verifying.discard)

    async def _confirm(self, hold: Hold) -> None:
        while True:
            try:
                record = await self._session.jobs.get(hold.record.id)
                break
            except StoreError as error:
                fields = {**self._fields(hold), "error": str(error)}
                log.warning("cannot confirm a completion yet", extra={"fields": fields})
                await asyncio.sleep(self._settings.poll_seconds)
        if record is not None and record.state is State.SUCCESS and record.token == hold.record.token:
            self._forget(hold)
            if self._results is not None:
                self._results.settled(record)
            if self._notices:
                self._notices.tell("settled", record=record, move=None, verdict=Verdict.ACCEPTED)
            self._kick.set()
        else:
            self._report(hold, self.slots.unrecordable(hold, "the handler's transaction was not committed"))

    def _stuck(self, hold: Hold) -> None:
        fields = {**self._fields(hold), "stop": hold.stop}
        log.error("attempt does not stop; its slot stays taken", extra={"fields": fields})
        if self._notices:
            self._notices.tell("stuck", record=hold.record)
        if len(self.slots.stuck) >= self.slots.concurrency:
            self.is_wedged = True
            log.critical("all slots are stuck; ending", extra={"fields": {"worker": self._worker.id}})
            self.stop(0)
        self._kick.set()

    async def _pause(self) -> None:
        """Waits until there is something to say or to ask for."""
        self._kick.clear()
        if self._outbox or (self._hungry and self._want_later()):
            await asyncio.sleep(0)
            return
        limit = now() + self._settings.poll_seconds
        for moment in (self._next_due, self._stop_by if not self._told_all else None):
            if moment is not None:
                limit = min(limit, moment)
        try:
            async with asyncio.timeout(max(0.0, limit - now())):
                await self._kick.wait()
        except TimeoutError:
            self._hungry = True
        if self.slots.buffer:
            oldest = now() - self._settings.prefetch_seconds
            self.slots.give_back("waited too long for a slot", lambda hold: hold.claimed > oldest)

    def _want_later(self) -> bool:
        return self._stop_by is None and self.slots.free > len(self.slots.buffer)

    def _fields(self, hold: Hold) -> dict[str, object]:
        record = hold.record
        return {
            "job": record.id,
            "task": record.task,
            "run": record.run,
            "token": record.token,
            "worker": self._worker.id,
        }
