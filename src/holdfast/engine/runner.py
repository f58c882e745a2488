"""One attempt: call the handler and say what it did. Knows no store."""

from __future__ import annotations

import asyncio
import traceback
from collections.abc import Callable
from typing import Any

from holdfast.engine.context import Context, Link
from holdfast.engine.hold import Hold
from holdfast.engine.ids import new_id
from holdfast.model.errors import InvalidJob, LeaseLost
from holdfast.model.outcome import Failed, Outcome, Stop, Stopped, Succeeded, succeed
from holdfast.model.records import JobRecord, Move
from holdfast.model.retry import Retry
from holdfast.model.settings import Settings
from holdfast.model.task import Call
from holdfast.store import Transactions

REASON_LENGTH = 300


def plain_text(text: str, limit: int) -> str:
    """The text without what some store cannot keep (NUL, lone surrogates), cut in its middle to the limit."""
    text = text.replace("\x00", "\\x00").encode("utf-8", "backslashreplace").decode()
    if len(text) <= limit:
        return text
    half = (limit - 7) // 2
    return f"{text[:half]}\n [...] {text[-half:]}"


def failed(error: BaseException, limit: int) -> Failed:
    """A failure as it is stored: one line of reason, and the traceback."""
    message = plain_text(" ".join(str(error).split()), REASON_LENGTH)
    reason = f"{type(error).__name__}: {message}" if message else type(error).__name__
    text = "" if isinstance(error, Retry) else "".join(traceback.format_exception(error))
    return Failed(reason, plain_text(text, limit) or None, error)


def outcome_of(error: BaseException, hold: Hold, limit: int) -> Outcome:
    """What an exception out of the handler means for this attempt."""
    if isinstance(error, LeaseLost):
        return Stopped(Stop.LEASE_LOST)
    if isinstance(error, asyncio.CancelledError):
        if hold.stop is None:
            return Failed("the handler cancelled itself", exception=error)
        if hold.stop is Stop.TIMEOUT:
            return Failed(f"timeout after {hold.timeout:g} s", exception=TimeoutError())
        return Stopped(hold.stop)
    return failed(error, limit)


class HoldLink(Link):
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
        hold.progress_note = None if note is None else plain_text(note, REASON_LENGTH)
        hold.progress_dirty = True
        self._runner.nudge()

    def enqueue(self, call: Call) -> str:
        job = call.to_new_job(new_id())
        hold = self._hold
        if hold.children is None:
            hold.children = []
        hold.children.append(job)
        return job.id

    def success(self, value: object) -> Move:
        hold = self._hold
        return succeed(hold.record, hold.elapsed() or 0, self._runner.succeeded(hold, value))

    def committed(self) -> None:
        self._hold.committed = True


class Runner:
    """Calls handlers. `nudge` asks for an early heartbeat, to carry progress."""

    def __init__(
        self,
        settings: Settings,
        state: Any,
        transactions: Transactions | None,
        nudge: Callable[[], None],
    ) -> None:
        self.settings = settings
        self.state = state
        self.transactions = transactions
        self.nudge = nudge

    def arguments(self, hold: Hold) -> tuple[list[Any], dict[str, Any]]:
        """The decoded arguments, the context first if the handler takes one. Raises Undecodable."""
        definition = hold.definition
        args, kwargs = definition.decode_arguments(hold.record.payload)
        if definition.takes_context:
            args = [Context(HoldLink(hold, self), self.state), *args]
        return args, kwargs

    async def run(self, hold: Hold, args: list[Any], kwargs: dict[str, Any]) -> Outcome:
        try:
            return self.succeeded(hold, await hold.definition.function(*args, **kwargs))
        except BaseException as error:  # noqa: BLE001  whatever user code does is one failed attempt
            return outcome_of(error, hold, self.settings.error_bytes)

    def run_blocking(self, hold: Hold, args: list[Any], kwargs: dict[str, Any]) -> Outcome:
        try:
            return self.succeeded(hold, hold.definition.function(*args, **kwargs))
        except BaseException as error:  # noqa: BLE001  whatever user code does is one failed attempt
            return outcome_of(error, hold, self.settings.error_bytes)

    def succeeded(self, hold: Hold, value: object) -> Succeeded:
        definition = hold.definition
        children = () if hold.children is None else tuple(hold.children)
        if not definition.keep_result:
            return Succeeded(None, children)
        try:
            return Succeeded(definition.encode_result(value, self.settings.result_bytes), children)
        except InvalidJob as error:
            raise TypeError(f"the result cannot be stored: {error}") from None
