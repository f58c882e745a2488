"""The worker's slots: which held jobs wait, which run, and what each ended with."""

from __future__ import annotations

import asyncio
import contextvars
import random
from collections import deque
from collections.abc import Callable
from typing import Any

from holdfast.engine.hold import Hold, now
from holdfast.engine.processes import Processes
from holdfast.engine.runner import Runner
from holdfast.engine.threads import Threads
from holdfast.engine.timers import Timers
from holdfast.model import outcome as follow
from holdfast.model.errors import Undecodable
from holdfast.model.outcome import Failed, Outcome, Policy, Stop, Stopped, Succeeded
from holdfast.model.records import Move
from holdfast.model.retry import decode_retry
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
        verify: Callable[[Hold], None],
        report_stuck: Callable[[Hold], None],
    ) -> None:
        self.concurrency = concurrency
        self.buffer: deque[Hold] = deque()
        self.running: set[Hold] = set()
        self.stuck: set[Hold] = set()
        self._runner = runner
        self._kill_seconds = kill_seconds
        self._report = report
        self._verify = verify
        self._report_stuck = report_stuck
        self._suspect: Hold | None = None
        self._loop = asyncio.get_running_loop()
        self._threads = Threads(runner.run_blocking, self._ended)
        self._processes = Processes(runner, kill_seconds)
        self._timeouts: Timers[Hold] = Timers(self._timed_out)
        self._deadlines: Timers[Hold] = Timers(self._overstayed)

    @property
    def free(self) -> int:
        return self.concurrency - len(self.running)

    def fill(self) -> None:
        """Starts waiting jobs while there are free slots.

        A job whose lease is no longer trusted is not started.
        """
        buffer = self.buffer
        for _ in range(len(buffer)):
            if len(self.running) >= self.concurrency:
                return
            hold = buffer.popleft()
            if hold.trust_until <= now():
                self._report(hold, follow.release(hold.record, None, "the lease ran out before the start"))
            elif hold.record.suspect:
                self._admit_suspect(hold)
            else:
                self._start(hold)

    def start_recorded(self, hold: Hold) -> None:
        """The store has the start: a suspect job that waited for this may run."""
        hold.start_recorded = True
        if hold is self._suspect and hold.started is None and not hold.ended:
            if hold.stop is None:
                self._start(hold)
            else:
                hold.started = now()
                self._ended(hold, Stopped(hold.stop))

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
        if hold.task is not None:
            hold.task.cancel()
        self._deadlines.at(self._loop.time() + self._kill_seconds, hold)

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
        return follow.fail(
            hold.record, hold.elapsed() or 0, Failed(reason), self._policy(hold), random.random()
        )

    async def close(self) -> None:
        self._timeouts.clear()
        self._deadlines.clear()
        self._threads.close()
        await self._processes.close()

    def _admit_suspect(self, hold: Hold) -> None:
        """Holds a suspect job until its start is stored, and lets only one of them run at a time.

        So a job that kills its worker is the only suspect that is found running.
        """
        if self._suspect is not None:
            self.buffer.append(hold)
            return
        self._suspect = hold
        self.running.add(hold)
        self._report(hold, follow.start(hold.record, 0))

    def _start(self, hold: Hold) -> None:
        definition = hold.definition
        hold.started = now()
        self.running.add(hold)
        try:
            if hold.record.damaged is not None:
                raise Undecodable("row", hold.record.damaged)
            timeout = definition.timeout if hold.record.timeout is None else hold.record.timeout
            if definition.run_in == "process":
                definition.decode_arguments(hold.record.payload)
                coroutine = self._run_process(hold)
            else:
                args, kwargs = self._runner.arguments(hold)
                if definition.run_in == "thread":
                    if timeout is not None:
                        self._limit(hold, timeout)
                    self._threads.submit(hold, args, kwargs)
                    return
                coroutine = self._run(hold, args, kwargs)
        except Undecodable as error:
            self._leave(hold)
            self._report(hold, follow.dead_letter(hold.record, f"undecodable: {error}"))
            return
        if timeout is not None:
            self._limit(hold, timeout)
        hold.task = self._loop.create_task(coroutine, context=contextvars.Context())

    def _limit(self, hold: Hold, timeout: int) -> None:
        hold.timeout = timeout / SECOND
        self._timeouts.at(self._loop.time() + hold.timeout, hold)

    async def _run(self, hold: Hold, args: list[Any], kwargs: dict[str, Any]) -> None:
        self._ended(hold, await self._runner.run(hold, args, kwargs))

    async def _run_process(self, hold: Hold) -> None:
        self._ended(hold, await self._processes.run(hold))

    def _ended(self, hold: Hold, outcome: Outcome) -> None:
        self._leave(hold)
        if hold.committed and isinstance(outcome, Succeeded):
            self._verify(hold)
        else:
            self._report(hold, self._move(hold, outcome))
        if self.buffer:
            self.fill()

    def _leave(self, hold: Hold) -> None:
        hold.ended = True
        self.running.discard(hold)
        self.stuck.discard(hold)
        if hold is self._suspect:
            self._suspect = None

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
        retry = definition.retry if stored is None else decode_retry(stored)
        return Policy(retry, definition.dead_letter)

    def _timed_out(self, hold: Hold) -> None:
        self.tell(hold, Stop.TIMEOUT)

    def _overstayed(self, hold: Hold) -> None:
        if not hold.ended:
            self.stuck.add(hold)
            self._report_stuck(hold)
