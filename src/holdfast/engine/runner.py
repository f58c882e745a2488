"""One attempt: call the handler and say what it did. Knows no store."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from holdfast.engine import surroundings
from holdfast.engine.context import Context, JobLink
from holdfast.engine.failures import committed_result, encoded_result, failed, one_line
from holdfast.engine.forks import end_copy, generation
from holdfast.engine.hold import Hold
from holdfast.engine.ids import new_id, new_id_beside
from holdfast.engine.notices import Notices
from holdfast.engine.tracing import made
from holdfast.model.events import Event
from holdfast.model.outcome import Failed, Outcome, Stop, Stopped, Succeeded, succeed
from holdfast.model.records import JobRecord, Move
from holdfast.model.settings import Settings
from holdfast.model.task import Call
from holdfast.store import Transactions

Ended = Callable[[Hold, Outcome], None]


def outcome_of(error: BaseException, hold: Hold, limit: int) -> Outcome:
    """What an exception out of the handler means for this attempt."""
    if not isinstance(error, asyncio.CancelledError):
        return failed(error, limit)
    if hold.stop is None:
        return Failed("the handler cancelled itself", exception=error)
    return stopped(hold, hold.stop)


def stopped(hold: Hold, stop: Stop) -> Outcome:
    """How an attempt ends that did as it was told."""
    if stop is Stop.TIMEOUT:
        return Failed(f"timeout after {hold.timeout:g} s", exception=TimeoutError())
    return Stopped(stop)


class HoldLink(JobLink):
    """The link of a handler that runs in this process."""

    def __init__(self, hold: Hold, runner: Runner) -> None:
        self.record: JobRecord = hold.record
        self.namespace = runner.settings.namespace
        self.worker = hold.record.worker or ""
        self._hold = hold
        self._runner = runner

    @property
    def stop(self) -> Stop | None:
        return self._hold.stop

    @property
    def transactions(self) -> Transactions | None:
        return self._runner.transactions

    def progress(self, fraction: float, note: str | None) -> None:
        hold = self._hold
        hold.progress = fraction
        hold.progress_note = None if note is None else one_line(note)
        hold.progress_dirty = True
        self._runner.nudge()

    def enqueue(self, call: Call) -> str:
        job = made(self._runner.notices, call.to_new_job(new_id_beside(self.record.id)))
        hold = self._hold
        if hold.children is None:
            hold.children = []
        hold.children.append(job)
        return job.id

    def emit(self, event: Event[Any]) -> str:
        new = made(self._runner.notices, event.stored(new_id(), self._runner.settings.payload_bytes))
        hold = self._hold
        if hold.events is None:
            hold.events = []
        hold.events.append(new)
        return new.id

    def success(self, value: object) -> Move:
        hold = self._hold
        result = committed_result(hold.definition, value, self._runner.settings.result_bytes)
        done = Succeeded(result, tuple(hold.children or ()), tuple(hold.events or ()))
        return succeed(hold.record, hold.elapsed() or 0, done)

    def committed(self) -> None:
        self._hold.committed = True


class Runner:
    """Calls handlers. `nudge` asks for an early heartbeat, to carry progress.

    `partition` is the one that the jobs are in, if there are several.
    """

    def __init__(
        self,
        settings: Settings,
        state: Any,
        transactions: Transactions | None,
        nudge: Callable[[], None],
        notices: Notices,
        partition: str | None = None,
    ) -> None:
        self.settings = settings
        self.state = state
        self.transactions = transactions
        self.nudge = nudge
        self.notices = notices
        self.partition = partition

    def arguments(self, hold: Hold) -> tuple[list[Any], dict[str, Any]]:
        """The decoded arguments, the context first if the handler takes one. Raises Undecodable."""
        definition = hold.definition
        args, kwargs = definition.decode_arguments(hold.record.payload)
        if definition.takes_context:
            args = [Context(HoldLink(hold, self), self.state), *args]
        return args, kwargs

    async def run(self, hold: Hold, args: list[Any], kwargs: dict[str, Any], ended: Ended) -> None:
        """Runs an async handler, unless it must not start any more, and tells its outcome."""
        outcome: Outcome
        if hold.stop is not None or hold.trust_until <= surroundings.now():
            outcome = stopped(hold, hold.stop or Stop.LEASE_LOST)
        else:
            before = generation()
            try:
                outcome = self.succeeded(hold, await hold.definition.function(*args, **kwargs))
            except BaseException as error:  # noqa: BLE001  whatever user code does is one failed attempt
                outcome = outcome_of(error, hold, self.settings.error_bytes)
            end_copy(before)
        ended(hold, outcome)

    def run_blocking(self, hold: Hold, args: list[Any], kwargs: dict[str, Any]) -> Outcome:
        """The same for a blocking handler, on whatever thread this is called."""
        if hold.stop is not None or hold.trust_until <= surroundings.now():
            return stopped(hold, hold.stop or Stop.LEASE_LOST)
        before = generation()
        try:
            return self.succeeded(hold, hold.definition.function(*args, **kwargs))
        except BaseException as error:  # noqa: BLE001  whatever user code does is one failed attempt
            return outcome_of(error, hold, self.settings.error_bytes)
        finally:
            end_copy(before)

    def succeeded(self, hold: Hold, value: object) -> Succeeded:
        result = encoded_result(hold.definition, value, self.settings.result_bytes)
        if hold.children is None and hold.events is None:
            return Succeeded(result)
        return Succeeded(result, tuple(hold.children or ()), tuple(hold.events or ()))
