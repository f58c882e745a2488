"""The loop between store and slots.

It is paced by its own ticks: while one is in flight, finished attempts and free slots gather, and when it
returns the next one leaves with all of them. When there is nothing to do it waits for a wake-up, the next due
time, or the poll.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress

from holdfast.engine.appetite import Appetite
from holdfast.engine.confirm import Confirmations
from holdfast.engine.exchange import Answer, Exchange, GaveUp, Report
from holdfast.engine.forks import guarding
from holdfast.engine.hold import Hold, now
from holdfast.engine.ledger import Ledger
from holdfast.engine.notices import Notices
from holdfast.engine.runner import Runner
from holdfast.engine.slots import Slots
from holdfast.model.lifecycle import State
from holdfast.model.outcome import Stop, Succeeded, start
from holdfast.model.records import Move, Ticked, Verdict, WorkerRecord
from holdfast.model.settings import Settings
from holdfast.model.strategy import Strategy
from holdfast.model.task import Registry
from holdfast.model.timing import SECOND
from holdfast.store import Session

log = logging.getLogger("holdfast.worker")

FEW = 16
"""So many claimed jobs are taken in at once; with more, the next tick is sent before."""

REVIEW_SECONDS = 0.2
"""How often, at load, running attempts are shown as such and waiting ones are looked through."""


class Pump:
    """Moves jobs from the store into the slots, and what became of them back."""

    def __init__(
        self,
        session: Session,
        worker: WorkerRecord,
        registry: Registry,
        settings: Settings,
        runner: Runner,
        ledger: Ledger,
        notices: Notices,
        strategy: Strategy,
    ) -> None:
        self._session = session
        self._worker = worker
        self._settings = settings
        self._call_timeout = settings.timing.call_timeout / SECOND
        self._ledger = ledger
        self._notices = notices
        self._loop = asyncio.get_running_loop()
        self._kick = asyncio.Event()
        self._outbox: list[Report] = []
        self._answer: Answer | None = None
        self._appetite = Appetite(worker.queues, registry, settings, strategy)
        self._is_registered = True
        self._registered = 0.0
        self._reviewed = 0.0
        self._ticked = 0.0
        self._is_stopping = False
        self._was_cut_off = False
        self._has_given_up = False
        self._timers: list[asyncio.TimerHandle] = []
        self.was_cut_short = False
        self.has_failed = False
        self.slots = Slots(
            runner, settings.concurrency, settings.kill_seconds, self._report, self._verify, self._stuck
        )
        self._exchange = Exchange(
            session.jobs, worker.id, self._call_timeout, notices, self.slots.unrecordable, self._cut_off
        )
        self._confirmations = Confirmations(session.jobs, ledger, settings, self._uncommitted)

    async def serve(self, *, until_idle: bool) -> None:
        """Serves until stopped, or with `until_idle` until nothing that is due is left.

        However it ends, no attempt is left running that could have been ended.
        """
        wakeups = self._session.wakeups
        end_listening = wakeups.listen(self.wake) if wakeups is not None else None
        try:
            with guarding(self._loop):
                await self._serve(until_idle=until_idle)
        except BaseException:
            self.stop(0)
            with suppress(Exception):
                await self._serve(until_idle=False)
            raise
        finally:
            if end_listening is not None:
                end_listening()
            for timer in self._timers:
                timer.cancel()
            self._confirmations.close()
            await self.slots.close()
        if self._was_cut_off:
            raise asyncio.CancelledError

    def stop(self, grace: float) -> None:
        """Claims nothing more, gives back what waits, and lets running attempts go on for `grace` seconds.

        Then they are told to stop, have `kill_seconds` for that, and the store as long again to hear of it.
        """
        self._is_stopping = True
        self.slots.shut()
        if grace > 0:
            self._timers.append(self._loop.call_later(grace, self._force))
        else:
            self._force()
        patience = grace + 2 * self._settings.kill_seconds
        self._timers.append(self._loop.call_later(patience, self._give_up))
        self._kick.set()

    @property
    def left_something(self) -> bool:
        """Whether code of a handler still runs, or the store has not heard of everything."""
        return bool(self.slots.stuck) or self._has_given_up

    def fail(self) -> None:
        """Ends at once, because this worker can do no good any more."""
        self.has_failed = True
        self.stop(0)

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

    async def _serve(self, *, until_idle: bool) -> None:
        while not self._has_given_up:
            try:
                await self._step()
            except GaveUp:
                return
            if self._is_done(until_idle=until_idle):
                return
            await self._pause()

    def _is_done(self, *, until_idle: bool) -> bool:
        slots = self.slots
        if self._outbox or self._confirmations:
            return False
        if self._is_stopping:
            return not slots.buffer and slots.running <= slots.stuck
        if not until_idle or self._appetite.hungry or not self._is_registered:
            return False
        return len(self._ledger) <= len(slots.stuck)

    async def _step(self) -> None:
        """One turn: say what is finished, and ask for more."""
        slots, appetite = self.slots, self._appetite
        want = None
        if not self._is_stopping and (appetite.hungry or self._outbox):
            want = appetite.want(slots.free, slots.waiting + self._undigested)
        reports = self._take_reports()
        if not reports and want is None and not self._wants_to_listen():
            self._digest()
            return
        sent = now()
        try:
            answer = await self._exchange.send(reports, want)
        finally:
            self._digest()
        self._ticked = now()
        run_times = [
            move.elapsed for _, move in reports if move.outcome is not None and move.elapsed is not None
        ]
        appetite.observe(run_times, self._ticked - sent)
        self._answer = answer
        if answer.ticked is None:
            appetite.hungry = True
        elif want is not None:
            appetite.feed(want, answer.ticked)
            if not answer.ticked.registered:
                self._digest()
                await self._register()
                return
            self._is_registered = True
        if self._undigested > FEW and appetite.hungry and not self._is_stopping:
            # The next tick leaves first; the store works on it while this answer is taken in.
            self._loop.call_soon(self._digest)
        else:
            self._digest()

    @property
    def _undigested(self) -> int:
        """How many jobs were claimed by the last tick and are not taken in yet."""
        return len(self._answer.ticked.claimed) if self._answer and self._answer.ticked else 0

    def _digest(self) -> None:
        """Takes in the last answer, unless that is done."""
        answer, self._answer = self._answer, None
        if answer is None:
            return
        for (hold, move), verdict in zip(answer.reports, answer.verdicts, strict=True):
            if move.outcome is None:
                self._start_settled(hold, verdict)
            else:
                self._ledger.settle(hold, move, verdict)
        if answer.ticked is not None:
            self._take_in(answer.ticked, answer.sent)
        self.slots.fill()

    def _take_reports(self) -> list[Report]:
        batch = self._settings.batch
        if now() - self._reviewed > REVIEW_SECONDS:
            self._review()
        reports, self._outbox = self._outbox[:batch], self._outbox[batch:]
        return reports

    def _review(self) -> None:
        """Shows long attempts as running, and gives back what has waited too long for a slot."""
        self._reviewed = now()
        before = self._reviewed - REVIEW_SECONDS
        self._outbox += [
            (hold, start(hold.record, hold.elapsed() or 0))
            for hold in self.slots.running
            if not hold.start_recorded and hold.started is not None and hold.started < before
        ]
        oldest = self._reviewed - self._settings.prefetch_seconds
        if any(hold.claimed <= oldest for hold in self.slots.buffer):
            self.slots.give_back("waited too long for a slot", lambda hold: hold.claimed > oldest)

    def _wants_to_listen(self) -> bool:
        """With all slots taken there is nothing to say or to ask, but somebody may want a job cancelled."""
        return self._appetite.hungry and bool(self._ledger) and now() - self._ticked > REVIEW_SECONDS

    def _take_in(self, ticked: Ticked, sent: float) -> None:
        slots, ledger = self.slots, self._ledger
        slots.buffer += ledger.take(ticked.claimed, sent)
        for job_id, token in ticked.cancel_asked:
            asked = ledger.find(job_id, token)
            if asked is not None:
                slots.tell(asked, Stop.CANCEL)
        if ticked.paused and slots.buffer:
            slots.give_back("queue paused", lambda hold: hold.record.queue not in ticked.paused)

    async def _register(self) -> None:
        """Makes itself known again, after a pause so long that the store took this worker for dead."""
        self._is_registered = False
        try:
            async with asyncio.timeout(self._call_timeout):
                await self._session.fleet.register(self._worker, self._settings.timing.lease)
        except Exception as error:  # noqa: BLE001  whatever it is, it is tried again at the next poll
            fields = {"worker": self._worker.id, "error": str(error) or type(error).__name__}
            log.warning("cannot register", extra={"fields": fields})
        else:
            # A store that forgets at once is asked again at the next poll, not all the time.
            self._is_registered = now() - self._registered > self._settings.poll_seconds
            self._registered = now()
            self._appetite.hungry = True

    def _start_settled(self, hold: Hold, verdict: Verdict) -> None:
        if verdict is Verdict.ACCEPTED:
            hold.record.state = State.RUNNING
            self.slots.start_recorded(hold)
        elif hold.started is None:
            self.slots.drop(hold)
            self._ledger.drop(hold)
        else:
            self.slots.tell(hold, Stop.LEASE_LOST)

    def _report(self, hold: Hold, move: Move) -> None:
        self._outbox.append((hold, move))
        self._kick.set()

    def _verify(self, hold: Hold, outcome: Succeeded) -> None:
        self._confirmations.ask(hold, outcome, self._kick.set)

    def _uncommitted(self, hold: Hold) -> None:
        self._report(hold, self.slots.unrecordable(hold, "the handler's transaction was not committed"))

    def _stuck(self, hold: Hold) -> None:
        fields = {**hold.facts(), "stop": hold.stop}
        log.error("attempt does not stop; its slot stays taken", extra={"fields": fields})
        if self._notices:
            self._notices.tell("stuck", record=hold.record)
        if len(self.slots.stuck) >= self.slots.concurrency and not self._is_stopping:
            log.critical("all slots are stuck; ending", extra={"fields": {"worker": self._worker.id}})
            self.fail()
        self._kick.set()

    def _force(self) -> None:
        for hold in list(self.slots.running):
            self.was_cut_short = True
            self.slots.tell(hold, Stop.SHUTDOWN)

    def _give_up(self) -> None:
        """Ends without the store, if it has not answered by now: the leases will expire."""
        log.error(
            "ending before the store heard of everything", extra={"fields": {"worker": self._worker.id}}
        )
        self.was_cut_short = self._has_given_up = True
        self._exchange.give_up()
        self._kick.set()

    def _cut_off(self) -> None:
        """This worker's task was cancelled while a tick was under way."""
        self._was_cut_off = True
        self.stop(0)

    def _woken(self) -> None:
        self._appetite.hungry = True
        self._kick.set()

    async def _pause(self) -> None:
        """Waits until there is something to say or to ask for."""
        slots, appetite = self.slots, self._appetite
        if self._answer is not None:
            return
        self._kick.clear()
        may_claim = not self._is_stopping and self._is_registered and slots.free > slots.waiting
        if self._outbox or (appetite.hungry and may_claim):
            await asyncio.sleep(0)
            return
        try:
            async with asyncio.timeout(appetite.pause()):
                await self._kick.wait()
        except TimeoutError:
            appetite.time_passed()
