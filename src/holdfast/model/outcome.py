"""What a handler did, and the move that follows from it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from holdfast.model import lifecycle
from holdfast.model.events import NewEvent
from holdfast.model.lifecycle import Ending, State
from holdfast.model.records import JobRecord, Move, NewJob
from holdfast.model.retry import Again, Failure, Retry, RetryStrategy
from holdfast.model.timing import FAR, SECOND, seconds

FOLD: Final = 4
"""For each loss that a suspect can still bear, so many times as many may run beside each other."""
MOST_FOLDS: Final = 10


class Stop(StrEnum):
    """Why a running attempt was told to stop."""

    CANCEL = "cancel asked"
    TIMEOUT = "timeout"
    SHUTDOWN = "shutdown"
    LEASE_LOST = "lease lost"
    ABANDONED = "abandoned after failed heartbeats"


@dataclass(frozen=True, slots=True)
class Succeeded:
    """The handler returned; `result` is its encoded value, None if the task keeps none."""

    result: bytes | None
    children: tuple[NewJob, ...] = ()
    events: tuple[NewEvent, ...] = ()


@dataclass(frozen=True, slots=True)
class Failed:
    """The handler raised, or could not be run. `error` is the traceback as text."""

    reason: str
    error: str | None = None
    exception: BaseException | None = None


@dataclass(frozen=True, slots=True)
class Stopped:
    """The handler ended because it was told to."""

    why: Stop


Outcome = Succeeded | Failed | Stopped


@dataclass(frozen=True, slots=True)
class Policy:
    """What a task says about its failures."""

    retry: RetryStrategy
    dead_letter: bool = True


def after_stop(outcome: Outcome, stop: Stop) -> Outcome:
    """What counts of an attempt that had been told to stop before it ended.

    Of an abandoned one nothing does. A success that arrives first wins over everything else, if the store
    finds its token current. A failure does not, because what a handler raises when it is stopped says nothing
    about the job, unless it is Retry.
    """
    if stop is Stop.ABANDONED:
        return Stopped(stop)
    if not isinstance(outcome, Failed) or stop is Stop.TIMEOUT:
        return outcome
    if stop is Stop.SHUTDOWN and isinstance(outcome.exception, Retry):
        return outcome
    return Stopped(stop)


def succeed(record: JobRecord, elapsed: int, outcome: Succeeded) -> Move:
    return Move(
        job=record.id,
        token=record.token,
        path=lifecycle.SUCCEEDED,
        outcome=Ending.SUCCESS,
        elapsed=elapsed,
        failures=record.failures,
        lost=record.lost,
        result=outcome.result,
        children=outcome.children,
        events=outcome.events,
    )


def fail(record: JobRecord, elapsed: int, outcome: Failed, policy: Policy, random: float) -> Move:
    """The move after a failure: again later, again at once, or the dead-letter queue.

    A strategy that itself fails, or gives what is no answer, ends the job, and the reason says so.
    """
    failures = record.failures + 1
    failure = Failure(failures, record.run, record.task, outcome.exception)
    again, flaw = decide_again(failure, policy.retry, random)
    reason = f"{outcome.reason}{flaw}"
    move = Move(
        job=record.id,
        token=record.token,
        path=lifecycle.DEAD_LETTERED if policy.dead_letter else lifecycle.FAILED_FOR_GOOD,
        outcome=Ending.FAILED,
        elapsed=elapsed,
        failures=failures if again is None or again.count else record.failures,
        lost=record.lost,
        reason=reason,
        error=outcome.error,
    )
    if again is not None:
        move.outcome = Ending.RETRY
        if again.after is None:
            move.path = lifecycle.RELEASED_AT_ONCE
        else:
            move.path = lifecycle.RETRIED
            move.delay = min(max(round(again.after * SECOND), 0), FAR)
    return move


def decide_again(failure: Failure, strategy: RetryStrategy, random: float) -> tuple[Again | None, str]:
    """Whether and when to try again, and what to add to the reason if the strategy itself failed."""
    try:
        return _checked(_decide(failure, strategy, random)), ""
    except BaseException as error:  # noqa: BLE001  a strategy is user code
        return None, f"; not retried, because its retry strategy failed: {type(error).__name__}"


def _decide(failure: Failure, strategy: RetryStrategy, random: float) -> Again | None:
    exception = failure.error
    if isinstance(exception, Retry) and not exception.count:
        return Again(exception.after, count=False)
    again = strategy.decide(failure, random)
    if again is not None and isinstance(exception, Retry):
        return Again(exception.after, again.count)
    return again


def _checked(again: Again | None) -> Again | None:
    """The decision with plain numbers in it; raises if it is none."""
    if again is None:
        return None
    if again.after is None:
        return Again(None, bool(again.count))
    after = seconds(again.after)
    if not math.isfinite(after):
        raise ValueError(f"{after} is not a time to wait")
    return Again(after, bool(again.count))


def dead_letter(record: JobRecord, reason: str) -> Move:
    """The move for a job that can never be run as it is stored."""
    return Move(
        job=record.id,
        token=record.token,
        path=lifecycle.DEAD_LETTERED,
        outcome=Ending.FAILED,
        failures=record.failures + 1,
        lost=record.lost,
        reason=reason,
    )


def cancel(record: JobRecord, elapsed: int | None) -> Move:
    return Move(
        job=record.id,
        token=record.token,
        path=lifecycle.CANCELLED_UNSTARTED if elapsed is None else lifecycle.CANCELLED_RUNNING,
        outcome=Ending.CANCELLED,
        elapsed=elapsed,
        failures=record.failures,
        lost=record.lost,
        reason="cancelled",
    )


def forgo(record: JobRecord, claimed: int) -> Move | None:
    """The move for a claimed job that is not to be begun: it is too late, or what it needed is not there.

    None for one that is. `claimed` is when it was, by the store's clock.
    """
    flow = record.flow
    if flow is None:
        return None
    if flow.expires is not None and record.run == 1 and flow.expires <= claimed:
        reason = "expired"
    elif flow.unmet and not flow.after_any:
        reason = f"{flow.unmet} of the jobs that it comes after did not succeed"
    else:
        return None
    move = cancel(record, None)
    move.reason = reason
    return move


def release(record: JobRecord, elapsed: int | None, reason: str) -> Move:
    """Gives the job back with its due time unchanged and nothing counted against it."""
    return Move(
        job=record.id,
        token=record.token,
        path=lifecycle.RETURNED if elapsed is None else lifecycle.INTERRUPTED,
        outcome=Ending.RELEASED,
        elapsed=elapsed,
        failures=record.failures,
        lost=record.lost,
        suspect=record.suspect,
        reason=reason,
    )


def start(record: JobRecord, elapsed: int) -> Move:
    return Move(
        job=record.id,
        token=record.token,
        path=lifecycle.STARTED,
        elapsed=elapsed,
        failures=record.failures,
        lost=record.lost,
        suspect=record.suspect,
    )


def most_suspects(lost: int, lost_limit: int) -> int:
    """How many suspects that were lost as often as this one, or more often, may run beside each other.

    After a crash there are many, and nearly all are innocent: they run together, so that they are soon
    through. The guilty one among them takes what runs beside it along, each time fewer, and nobody to the
    limit: where one more loss is the last, a suspect runs alone.
    """
    return int(FOLD ** min(max(lost_limit - lost - 1, 0), MOST_FOLDS))


def reclaim(record: JobRecord, lost_limit: int, *, retired: bool = False) -> Move:
    """The move for a job whose lease has expired.

    Only a recorded start counts as a loss. Every job of a vanished worker becomes suspect, because any of
    them may have been running when it vanished. A `retired` worker took its leave while a handler would not
    stop: that is nobody's fault, so nothing is counted.
    """
    lost = record.lost + (record.state is State.RUNNING and not retired)
    move = Move(
        job=record.id,
        token=record.token,
        path=(record.state, State.FAILED, State.SCHEDULED),
        outcome=Ending.LOST,
        failures=record.failures,
        lost=lost,
        suspect=record.suspect or not retired,
        reason="its worker ended before it did" if retired else "worker lost",
        if_expired=True,
    )
    if record.cancel_asked:
        move.path = (record.state, State.CANCELLED)
        move.reason = "cancelled; its worker was lost"
    elif lost >= lost_limit:
        move.path = (record.state, State.FAILED, State.DLQ)
        move.error = f"{lost} workers were lost while they ran this job"
    return move
