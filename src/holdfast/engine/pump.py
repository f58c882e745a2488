"""The loop between store and slots.

It is paced by its own ticks: while one is in flight, finished attempts and free slots gather, and when it
returns the next one leaves with all of them. If a crowd gathers before it returns, a second tick takes that
along, so that store and handlers need not wait for each other. When there is nothing to do it waits for a
wake-up, the next due time, or the poll.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections.abc import Callable
from contextlib import suppress
from threading import get_ident

from holdfast.engine import surroundings
from holdfast.engine.appetite import Appetite
from holdfast.engine.confirm import Confirmations
from holdfast.engine.exchange import Exchange, GaveUp
from holdfast.engine.forks import guarding
from holdfast.engine.hold import Hold
from holdfast.engine.inbox import Inbox
from holdfast.engine.ledger import Ledger
from holdfast.engine.notices import Notices
from holdfast.engine.outbox import Outbox
from holdfast.engine.registration import Registration
from holdfast.engine.runner import Runner
from holdfast.engine.slots import Slots
from holdfast.engine.standing import Standing
from holdfast.model.outcome import Stop, Succeeded, start
from holdfast.model.records import JobRecord, Move, WorkerRecord
from holdfast.model.settings import Settings
from holdfast.model.strategy import Strategy
from holdfast.model.task import Registry
from holdfast.model.timing import SECOND
from holdfast.store import Handovers, Session

log = logging.getLogger("holdfast.worker")

FEW = 16
"""So many claimed jobs are taken in at once; with more, the next tick is sent before."""

SLACK = 1.0
"""An idle worker asks again at each poll. One that is so late is frozen, or cut off, and gets nothing."""

REVIEW_SECONDS = 0.2
"""How often, at load, running attempts are shown as such and waiting ones are looked through."""


class Pump:
    """Moves jobs from the store into the slots and outcomes back. `heard` is when it answered last."""

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
        make_slots: Callable[..., Slots] = Slots,
    ) -> None:
        self._session = session
        self._worker = worker
        self._settings = settings
        self._ledger = ledger
        self._notices = notices
        self._loop = asyncio.get_running_loop()
        self._thread = get_ident()
        self._kick = asyncio.Event()
        self._outbox = Outbox(settings.batch)
        self._crowd = max(settings.batch // 2, 1)
        self._crowded = asyncio.Event()
        self._appetite = Appetite(worker.queues, registry, settings, strategy)
        self._registration = Registration(session.fleet, worker, settings)
        self._reviewed = 0.0
        self.heard = surroundings.now()
        self.is_stopping = False
        self._was_cut_off = False
        self._has_given_up = False
        self._failure: Exception | None = None
        self._timers: list[asyncio.TimerHandle] = []
        self.was_cut_short = False
        self.has_failed = False
        self.slots = make_slots(
            runner, settings.concurrency, settings.kill_seconds, self._report, self._verify, self._stuck
        )
        self.slots.room_made = self._kick.set
        self._inbox = Inbox(self.slots, ledger)
        self._standing = Standing(worker.id, self._handed)
        seqs = itertools.count(1)
        self.exchanges = self._first, self._second = tuple(
            Exchange(
                session.jobs,
                worker.id,
                seqs,
                self._standing,
                settings.timing.call_timeout / SECOND,
                notices,
                self.slots.unrecordable,
                self._cut_off,
            )
            for _ in range(2)
        )
        self._confirmations = Confirmations(session.jobs, ledger, settings, self._uncommitted)

    async def serve(self, *, until_idle: bool) -> None:
        """Serves until stopped, or with `until_idle` until nothing that is due is left.

        However it ends, no attempt is left running that could have been ended.
        """
        crowd = self._loop.create_task(self._serve_crowd())
        listening = self._listen(until_idle=until_idle)
        try:
            with guarding(self._loop):
                await self._serve(until_idle=until_idle)
        except BaseException:
            self.stop(0)
            with suppress(Exception):
                await self._serve(until_idle=False)
            raise
        finally:
            for end_listening in listening:
                end_listening()
            for timer in self._timers:
                timer.cancel()
            self._dismiss(crowd)
            self._confirmations.close()
            await self.slots.close()
            await asyncio.wait([crowd])
        if self._was_cut_off:
            raise asyncio.CancelledError

    def _listen(self, *, until_idle: bool) -> list[Callable[[], None]]:
        """Hears of work. One who serves until nothing is left lets nothing be claimed for it at its end."""
        wakeups = self._session.wakeups
        if wakeups is None:
            return []
        listening = [wakeups.listen(self.wake)]
        if isinstance(wakeups, Handovers) and not until_idle:
            listening.append(wakeups.receive(self._standing.receive))
            self._appetite.stands = round((2 * self._settings.poll_seconds + SLACK) * SECOND)
        return listening

    def stop(self, grace: float) -> None:
        """Claims nothing more, gives back what waits, and lets running attempts go on for `grace` seconds.

        Then they are told to stop, have `kill_seconds` for that, and the store as long again to hear of it.
        """
        self.is_stopping = True
        self._standing.end()
        self.slots.shut()
        if grace > 0:
            self._timers.append(self._loop.call_later(grace, self._force))
        else:
            self._force()
        self._timers.append(self._loop.call_later(self._settings.kill_seconds, self._leave))
        patience = grace + 2 * self._settings.kill_seconds
        self._timers.append(self._loop.call_later(patience, self._give_up))
        self._kick.set()

    @property
    def left_something(self) -> bool:
        """Whether code of a handler still runs, or the store has not heard of everything."""
        return bool(self.slots.stuck) or self._has_given_up

    @property
    def is_claiming(self) -> bool:
        """Whether it asks for work when it has room. From any thread."""
        is_unsettled = self._first.is_unsettled or self._second.is_unsettled
        return self._registration.holds and not (self.is_stopping or is_unsettled)

    def fail(self) -> None:
        """Ends at once, because this worker can do no good any more."""
        self.has_failed = True
        self.stop(0)

    def wake(self) -> None:
        """A hint, from any thread, that there may be work."""
        if get_ident() == self._thread:
            self._woken()
            return
        try:
            self._loop.call_soon_threadsafe(self._woken)
        except RuntimeError:
            log.debug("wake-up after the end", extra={"fields": {"worker": self._worker.id}})

    def tell_from_thread(self, hold: Hold, stop: Stop) -> None:
        """Tells an attempt to stop, from any thread; the handler sees it even if the loop is blocked."""
        if hold.ended or hold.stop is not None:
            return
        hold.stop = stop
        try:
            self._loop.call_soon_threadsafe(self.slots.enforce, hold, stop)
        except RuntimeError:
            log.debug("stop after the end", extra={"fields": {"worker": self._worker.id}})

    def _dismiss(self, crowd: asyncio.Task[None]) -> None:
        """Ends the second line of ticks; one that is still in flight there is given up."""
        self._second.give_up()
        if not self._second.is_busy:
            crowd.cancel()

    async def _serve(self, *, until_idle: bool) -> None:
        while not self._has_given_up:
            if self._failure is not None:
                failure, self._failure = self._failure, None
                raise failure
            try:
                await self._step(self._first, self._second)
            except GaveUp:
                return
            if self._is_done(until_idle=until_idle):
                return
            await self._pause()

    async def _serve_crowd(self) -> None:
        """Sends the second tick, whenever a crowd gathers while the first is in flight."""
        try:
            while not self._has_given_up:
                await self._crowded.wait()
                self._crowded.clear()
                if self._first.is_busy and len(self._outbox) >= self._crowd:
                    await self._step(self._second, self._first)
                    self._kick.set()
        except GaveUp:
            return
        except Exception as error:  # noqa: BLE001  raised where the worker waits for it
            self._failure = error
            self._kick.set()

    def _is_done(self, *, until_idle: bool) -> bool:
        slots = self.slots
        if len(self._outbox) or self._second.is_busy or self._confirmations:
            return False
        if self.is_stopping:
            return not slots.buffer and slots.running.keys() <= slots.stuck and not self._standing.is_to_end
        if not until_idle or self._appetite.hungry or not self._registration.holds:
            return False
        return len(self._ledger) <= len(slots.stuck)

    async def _step(self, exchange: Exchange, other: Exchange) -> None:
        """One turn: say what is finished, and ask for more. Nothing new while the other does not know."""
        slots, appetite = self.slots, self._appetite
        if other.is_unsettled:
            self._inbox.take_in()
            return
        want = None
        if surroundings.now() - self._reviewed > REVIEW_SECONDS:
            self._review()
        if not self.is_stopping and (appetite.hungry or self._outbox):
            want = appetite.want(slots.free, slots.waiting + self._inbox.claimed + slots.asked)
        reports = self._outbox.take()
        is_silent = not reports and want is None and not self._standing.is_to_end
        if is_silent and not self._wants_to_listen():
            self._inbox.take_in()
            return
        if want is None and slots.buffer and not self.is_stopping:
            want = appetite.look()
        sent = surroundings.now()
        limit = 0 if want is None else want.limit
        slots.asked += limit
        try:
            answer = await exchange.send(reports, want)
        finally:
            slots.asked -= limit
            self._outbox.settle(reports)
        ticked = surroundings.now()
        ends = [move.elapsed for _, move in reports if move.outcome is not None]
        appetite.observe([elapsed for elapsed in ends if elapsed is not None], ticked - sent)
        self._inbox.put(answer)
        if answer.ticked is None:
            appetite.hungry = True
        elif want is not None:
            appetite.feed(want, answer.ticked)
            if not answer.ticked.registered:
                self._inbox.take_in()
                if await self._registration.renew(sent):
                    appetite.hungry = True
                return
            self._registration.holds = True
        self.heard = ticked
        if self._inbox.claimed > FEW and appetite.hungry and not self.is_stopping:
            # The next tick leaves first; the store works on it while this answer is taken in.
            self._loop.call_soon(self._inbox.take_in)
        else:
            self._inbox.take_in()

    def _review(self) -> None:
        """Shows long attempts as running, and gives back what has waited too long for a slot."""
        self._reviewed = surroundings.now()
        before = self._reviewed - REVIEW_SECONDS
        for hold in self.slots.running:
            if hold.runs_unseen_since(before) and not self._outbox.is_starting(hold):
                self._outbox.put(hold, start(hold.record, hold.elapsed() or 0))
        oldest = self._reviewed - self._settings.prefetch_seconds
        if any(hold.claimed <= oldest for hold in self.slots.buffer):
            if self.slots.held_up:
                # Other workers may have nothing to do, while this one would be the first to claim them again.
                self._appetite.rest()
            self.slots.give_back("waited too long for a slot", lambda hold: hold.claimed > oldest)

    def _wants_to_listen(self) -> bool:
        """With all slots taken there is nothing to say or to ask, but somebody may want a job cancelled."""
        return (
            self._appetite.hungry and bool(self._ledger) and surroundings.now() - self.heard > REVIEW_SECONDS
        )

    def _report(self, hold: Hold, move: Move) -> None:
        self._outbox.put(hold, move)
        self._kick.set()
        if len(self._outbox) >= self._crowd:
            self._crowded.set()

    def _verify(self, hold: Hold, outcome: Succeeded) -> None:
        self._confirmations.ask(hold, outcome, self._kick.set)

    def _uncommitted(self, hold: Hold) -> None:
        self._report(hold, self.slots.unrecordable(hold, "the handler's transaction was not committed"))

    def _stuck(self, hold: Hold) -> None:
        fields = {**hold.facts(), "stop": hold.stop}
        log.error("attempt does not stop; its slot stays taken", extra={"fields": fields})
        if self._notices:
            self._notices.tell("stuck", record=hold.record)
        if len(self.slots.stuck) >= self.slots.concurrency and not self.is_stopping:
            log.critical("all slots are stuck; ending", extra={"fields": {"worker": self._worker.id}})
            self.fail()
        self._kick.set()

    def _force(self) -> None:
        for hold in list(self.slots.running):
            self.was_cut_short = True
            self.slots.tell(hold, Stop.SHUTDOWN)

    def _leave(self) -> None:
        """Ends without the store if it need only hear that nothing is wanted: what stands there runs out."""
        if not self._ledger and not self._confirmations:
            self._first.give_up()
            self._kick.set()

    def _give_up(self) -> None:
        """Ends without the store, if it has not answered by now: the leases will expire."""
        fields = {"worker": self._worker.id}
        log.error("ending before the store heard of everything", extra={"fields": fields})
        self.was_cut_short = self._has_given_up = True
        self._first.give_up()
        self._kick.set()

    def _cut_off(self) -> None:
        """This worker's task was cancelled while a tick was under way."""
        self._was_cut_off = True
        self.stop(0)

    def _handed(self, claimed: list[JobRecord], sent: float) -> None:
        """The store has claimed jobs for this worker, or calls it to claim some."""
        self._inbox.receive(claimed, sent)
        self._woken()

    def _woken(self) -> None:
        self._appetite.hungry = True
        self._kick.set()

    async def _pause(self) -> None:
        """Waits until there is something to say or to ask for."""
        if self._inbox:
            return
        self._kick.clear()
        if self._has_errand:
            await asyncio.sleep(0)
            return
        timer = self._loop.call_later(self._appetite.pause(), self._time_passed)
        try:
            await self._kick.wait()
        finally:
            timer.cancel()

    def _time_passed(self) -> None:
        self._appetite.time_passed()
        self._kick.set()

    @property
    def _has_errand(self) -> bool:
        """Whether a tick is to leave now. While another is in flight, one leaves for a crowd or for want."""
        slots = self.slots
        if self._second.is_unsettled:
            return False
        if self._second.is_busy and slots.buffer and len(self._outbox) < self._crowd:
            return False
        if self._outbox or self._standing.is_to_end:
            return True
        return self._appetite.asks and not self.is_stopping and self._registration.holds and slots.has_room
