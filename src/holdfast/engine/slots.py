"""The worker's slots: which held jobs wait, which run, and what each ended with."""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import random
from collections import deque
from collections.abc import Callable

import msgspec

from holdfast.engine import surroundings
from holdfast.engine.company import Company
from holdfast.engine.failures import failed, one_line
from holdfast.engine.hold import Hold
from holdfast.engine.processes import Processes
from holdfast.engine.runner import Runner
from holdfast.engine.threads import Threads
from holdfast.engine.timers import Timers
from holdfast.engine.tracing import begun, ended
from holdfast.model import outcome as follow
from holdfast.model.errors import Undecodable
from holdfast.model.outcome import Failed, Outcome, Policy, Stop, Stopped, Succeeded
from holdfast.model.records import Move
from holdfast.model.retry import Never, decode_retry
from holdfast.model.timing import SECOND

Report = Callable[[Hold, Move], None]


class Slots:
    """Starts held jobs as slots are free, tells them to stop, and reports the move that follows each.

    A job leaves its slot when its code has ended, not when it was told to. `verify` is given an attempt that
    says it completed in a transaction, for the store to confirm.
    """

    def __init__(
        self,
        runner: Runner,
        concurrency: int,
        kill_seconds: float,
        report: Report,
        verify: Callable[[Hold, Succeeded], None],
        report_stuck: Callable[[Hold], None],
    ) -> None:
        self._concurrency = concurrency
        self.asked = 0
        """How many jobs the store is being asked for."""
        self.room_made: Callable[[], None] = _nothing
        """Called when there is room though nothing of these slots has ended."""
        self.buffer: deque[Hold] = deque()
        self.running: dict[Hold, None] = {}
        """Those that have a slot, in the order in which they got it."""
        self.stuck: set[Hold] = set()
        self._runner = runner
        self._kill_seconds = kill_seconds
        self._report = report
        self._verify = verify
        self._report_stuck = report_stuck
        self._company = Company(runner.settings.lost_limit)
        self._is_shut = False
        self._loop = asyncio.get_running_loop()
        self._threads = Threads(runner.run_blocking, self._ended)
        self._processes = Processes(runner, kill_seconds)
        self._timeouts: Timers[Hold] = Timers(self._timed_out, _has_ended)
        self._deadlines: Timers[Hold] = Timers(self._overstayed, _has_ended)

    @property
    def concurrency(self) -> int:
        return self._concurrency

    @property
    def free(self) -> int:
        return self._concurrency - len(self.running)

    @property
    def has_room(self) -> bool:
        """For more jobs than wait for a slot or were asked for."""
        return self.free > self.waiting + self.asked

    @property
    def held_up(self) -> int:
        """How many suspects wait here until others of them have ended."""
        return sum(not self._company.admits(hold) for hold in self.buffer) if self._company else 0

    @property
    def waiting(self) -> int:
        """How many jobs wait for a slot. Suspects that are held up leave the slots to others.

        Up to a batch of them; if they counted, nothing else would be claimed while those run.
        """
        return len(self.buffer) - min(self.held_up, self._runner.settings.batch)

    def add(self, holds: list[Hold]) -> None:
        """Takes jobs that were claimed, to be begun as slots are free; those that are not to be end here."""
        self.buffer += holds
        if any(hold.record.flow is not None for hold in holds):
            self._forgo(holds)

    def _forgo(self, holds: list[Hold]) -> None:
        for hold in holds:
            # The first token of a job is the instant of its claim.
            move = follow.forgo(hold.record, hold.record.token)
            if move is not None:
                self.buffer.remove(hold)
                self._report(hold, move)

    def fill(self) -> None:
        """Starts waiting jobs while there are free slots.

        A job that was told to stop meanwhile, or whose lease is no longer trusted, is not started.
        """
        if self._is_shut:
            self.give_back("shutdown")
            return
        for _ in range(len(self.buffer)):
            if len(self.running) >= self._concurrency:
                return
            self._take_next()

    def _take_next(self) -> None:
        hold = self.buffer.popleft()
        moment = surroundings.now()
        if hold.stop is not None:
            self._report(hold, self._after_stop(hold, hold.stop))
        elif hold.trust_until <= moment:
            self._report(hold, follow.release(hold.record, None, "the lease ran out before the start"))
        elif hold.record.suspect:
            self._admit_suspect(hold)
        else:
            self._start(hold, moment)

    def shut(self) -> None:
        """Starts nothing more and gives back what has not started."""
        self._is_shut = True
        self.give_back("shutdown")
        for hold in list(self.running):
            if hold.started is None:
                self.tell(hold, Stop.SHUTDOWN)

    def start_recorded(self, hold: Hold) -> None:
        """The store has the start: a suspect job that waited for this may run, if it still may."""
        hold.start_recorded = True
        if not hold.record.suspect or hold.started is not None or hold.ended:
            return
        moment = surroundings.now()
        if hold.stop is None and hold.trust_until > moment:
            self._start(hold, moment)
        else:
            hold.started = moment
            self._ended(hold, Stopped(hold.stop or Stop.LEASE_LOST))

    def drop(self, hold: Hold) -> None:
        """Forgets an attempt whose start the store refused; its code never ran."""
        self._leave(hold)

    def tell(self, hold: Hold, stop: Stop) -> None:
        """Tells an attempt to stop, once. One that has not started ends here and now."""
        if not hold.ended and hold.stop is None:
            hold.stop = stop
            self.enforce(hold, stop)

    def enforce(self, hold: Hold, stop: Stop) -> None:
        """Does what can be done to end an attempt that has been told to."""
        if hold.ended:
            return
        if hold.started is None:
            if hold in self.buffer:
                self.buffer.remove(hold)
                self._report(hold, self._after_stop(hold, stop))
            return
        patience = self._kill_seconds
        if hold.definition.run_in == "process":
            patience *= 2  # It is killed when the first half is over.
        if hold.task is not None and not _is_unbegun(hold.task):
            hold.task.cancel()
        self._deadlines.at(self._loop.time() + patience, hold)

    def give_back(self, reason: str, keep: Callable[[Hold], bool] = lambda hold: False) -> None:
        """Releases the jobs that wait, except those to keep."""
        kept: deque[Hold] = deque()
        for hold in self.buffer:
            if keep(hold):
                kept.append(hold)
            else:
                self._report(hold, follow.release(hold.record, None, reason))
        self.buffer = kept

    def unrecordable(self, hold: Hold, reason: str) -> Move:
        """The failure to record when an attempt's own move cannot be stored."""
        return self._move(hold, Failed(reason))

    async def close(self) -> None:
        """Ends what can be ended: idle threads, child processes, and attempts that do as they are told."""
        self._timeouts.clear()
        self._deadlines.clear()
        self._threads.close()
        await self._processes.close()
        if tasks := [hold.task for hold in self.running if hold not in self.stuck and hold.task is not None]:
            await asyncio.wait(tasks, timeout=self._kill_seconds)
        for hold in self.running:
            if hold.task is not None:
                # It does not heed being cancelled, and `asyncio.run` would wait for it for ever.
                asyncio.tasks._unregister_task(hold.task)  # noqa: SLF001  documented for just this

    def _admit_suspect(self, hold: Hold) -> None:
        """Holds a suspect job until its start is stored, and lets only so many run side by side.

        So a job that kills its worker is counted, and in the end the only one that is. An earlier attempt of
        the same job that does not end keeps it waiting, until it goes back for others to take.
        """
        earlier = any(other.record.id == hold.record.id for other in self.running)
        if earlier or not self._company.admits(hold):
            self.buffer.append(hold)
            return
        self._company.join(hold)
        self.running[hold] = None
        self._report(hold, follow.start(hold.record, 0))

    def _start(self, hold: Hold, moment: float) -> None:
        hold.started = moment
        self.running[hold] = None
        try:
            self._launch(hold)
        except Undecodable as error:
            self._leave(hold)
            self._report(hold, follow.dead_letter(hold.record, one_line(f"undecodable: {error}")))
        except BaseException as error:  # noqa: BLE001  decoding runs the validators of user code
            self._leave(hold)
            self._report(hold, self._move(hold, failed(error, self._runner.settings.error_bytes)))

    def _launch(self, hold: Hold) -> None:
        definition, record = hold.definition, hold.record
        tracer = self._runner.notices.tracer
        if tracer is None:
            context = contextvars.Context()
        else:
            context, hold.span = begun(lambda: tracer.running(record))
        if record.damaged is not None:
            raise Undecodable("row", record.damaged)
        args, kwargs = self._runner.arguments(hold)
        timeout = definition.timeout if record.timeout is None else record.timeout
        if timeout is not None:
            hold.timeout = timeout / SECOND
            self._timeouts.at(self._loop.time() + hold.timeout, hold)
        if definition.run_in == "thread":
            self._threads.submit(context, hold, args, kwargs)
            return
        if definition.run_in == "process":
            coroutine = self._processes.run(hold, self._ended)
        else:
            coroutine = self._runner.run(hold, args, kwargs, self._ended)
        # Not by the loop's factory: an eager task would run the handler, and end, inside this call.
        hold.task = asyncio.Task(coroutine, loop=self._loop, name=definition.name, context=context)

    def _ended(self, hold: Hold, outcome: Outcome) -> None:
        self._leave(hold)
        if hold.span is not None:
            ended(hold.span, outcome)
        if hold.committed and isinstance(outcome, Succeeded):
            self._verify(hold, outcome)
        else:
            if hold.stop is not None:
                outcome = follow.after_stop(outcome, hold.stop)
            self._report(hold, self._move(hold, outcome))
        if self.buffer:
            self.fill()

    def _leave(self, hold: Hold) -> None:
        hold.ended = True
        self.running.pop(hold, None)
        self.stuck.discard(hold)
        self._company.leave(hold)

    def _move(self, hold: Hold, outcome: Outcome) -> Move:
        elapsed = hold.elapsed() or 0
        if isinstance(outcome, Succeeded):
            return follow.succeed(hold.record, elapsed, outcome)
        if isinstance(outcome, Failed):
            return follow.fail(hold.record, elapsed, outcome, self._policy(hold), random.random())
        return self._after_stop(hold, outcome.why)

    def _after_stop(self, hold: Hold, stop: Stop) -> Move:
        elapsed = hold.elapsed()
        if stop is Stop.CANCEL:
            return follow.cancel(hold.record, elapsed)
        return follow.release(hold.record, elapsed, stop.value)

    def _policy(self, hold: Hold) -> Policy:
        definition = hold.definition
        stored = hold.record.retry
        if stored is None:
            default = self._runner.settings.retry_strategy
            return Policy(default if definition.retry is None else definition.retry, definition.dead_letter)
        try:
            return Policy(decode_retry(stored), definition.dead_letter)
        except msgspec.DecodeError:
            return Policy(Never(), definition.dead_letter)

    def _timed_out(self, hold: Hold) -> None:
        self.tell(hold, Stop.TIMEOUT)

    def _overstayed(self, hold: Hold) -> None:
        self.stuck.add(hold)
        # It will be found stuck; the suspects behind it need not wait for that.
        self._company.leave(hold)
        self._report_stuck(hold)
        self.fill()


def _nothing() -> None:
    """Nobody waits for room."""


def _has_ended(hold: Hold) -> bool:
    return hold.ended


def _is_unbegun(task: asyncio.Task[None]) -> bool:
    """Whether the task has not taken its first step.

    Then it must not be cancelled, because it would end without a word; it sees for itself that it has to
    stop.
    """
    coroutine = task.get_coro()
    return inspect.iscoroutine(coroutine) and inspect.getcoroutinestate(coroutine) == inspect.CORO_CREATED
