"""What a schedule fires, and when: deciding, apart from writing.

A store keeps a Schedule, its ScheduleState, what it fires, and the job of its last firing while that is live.
It asks `decide` about schedules that are neither paused nor waiting and whose next due time has come, and
writes firings and new state together.

Due times that have passed without a firing are chosen by the misfire policy: `once` fires the latest of them,
`skip` the latest if it is not later than the grace time, `all` each of them, at most the latest `catch_up`.
The rest are missed. Of those that are chosen the overlap policy fires: `allow` all; `skip` the latest, and
none while a run is live; `queue` the oldest as soon as no run is live, and the others after it. So unless
overlap is allowed, one job of a schedule is live at most, and a waiting job counts as live.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import Literal, TypeAlias, get_args

import msgspec
from msgspec.structs import replace

from holdfast.model.errors import ConfigurationError, InvalidJob
from holdfast.model.names import check_name
from holdfast.model.recurrence import (
    MOST_COUNTED,
    Recurrence,
    check_recurrence,
    due_after_run,
    first_due,
    passed,
    waits_for_run,
)
from holdfast.model.timing import SECOND, Seconds, micros

Misfire: TypeAlias = Literal["skip", "once", "all"]
Overlap: TypeAlias = Literal["skip", "queue", "allow"]

GRACE = 60 * SECOND
CATCH_UP = 1_000
LONGEST_JITTER = 86_400 * SECOND


class Schedule(msgspec.Struct, frozen=True, kw_only=True):
    """A recurring rule as it is defined; durations are microseconds."""

    name: str
    recurrence: Recurrence
    misfire: Misfire = "once"
    overlap: Overlap = "skip"
    jitter: int = 0
    catch_up: int = CATCH_UP
    grace: int = GRACE

    def __post_init__(self) -> None:
        check_name(self.name, "schedule")
        for field, value, allowed in (
            ("misfire", self.misfire, get_args(Misfire)),
            ("overlap", self.overlap, get_args(Overlap)),
        ):
            if value not in allowed:
                raise ConfigurationError(
                    f"{ascii(value)[:40]} is not one of {', '.join(allowed)}", setting=f"schedule.{field}"
                )
        if not 0 <= self.jitter <= LONGEST_JITTER:
            raise ConfigurationError("jitter is from 0 seconds to one day", setting="schedule.jitter")
        if not 1 <= self.catch_up <= MOST_COUNTED:
            raise ConfigurationError(
                f"{self.catch_up} is not a number from 1 to {MOST_COUNTED}", setting="schedule.catch_up"
            )
        if self.grace < 0:
            raise ConfigurationError("a time of grace is not negative", setting="schedule.grace")


class ScheduleState(msgspec.Struct, frozen=True, kw_only=True):
    """Where a schedule stands; instants are the store's.

    `origin`: when its recurrence was put there. `waiting`: nothing is to be decided before its live job has
    ended. `missed`: due times that the misfire policy dropped; `skipped`: those that the overlap policy did.
    A schedule without a next due time that is not waiting has nothing more to fire.
    """

    origin: int
    next_due: int | None
    last_due: int | None = None
    missed: int = 0
    skipped: int = 0
    paused: bool = False
    waiting: bool = False


class Occurrence(msgspec.Struct, frozen=True):
    """One occurrence: unique by (schedule, due). Its job is due at `job_due`, which jitter may put later."""

    due: int
    job_due: int


class Decision(msgspec.Struct, frozen=True):
    """What to write, in one write: these firings, oldest first, and the state that follows."""

    firings: tuple[Occurrence, ...]
    state: ScheduleState


def schedule(
    name: str,
    recurrence: Recurrence,
    *,
    misfire: Misfire = "once",
    overlap: Overlap = "skip",
    jitter: Seconds = 0,
    catch_up: int = CATCH_UP,
    grace: Seconds = GRACE / SECOND,
) -> Schedule:
    """A schedule from what users write; ConfigurationError or InvalidJob names what is wrong."""
    try:
        return Schedule(
            name=check_name(name, "schedule"),
            recurrence=check_recurrence(recurrence),
            misfire=misfire,
            overlap=overlap,
            jitter=micros(jitter, "jitter"),
            catch_up=catch_up,
            grace=micros(grace, "grace"),
        )
    except InvalidJob as error:
        if error.field == "schedule":
            raise
        raise ConfigurationError(error.problem, setting=f"schedule.{error.field}") from None


_decoder: msgspec.json.Decoder[Schedule] = msgspec.json.Decoder(Schedule)


def encode_schedule(schedule: Schedule) -> bytes:
    return msgspec.json.encode(schedule)


def decode_schedule(stored: bytes) -> Schedule:
    """Raises msgspec.DecodeError for what is not a stored schedule, or not one that works here."""
    try:
        return _decoder.decode(stored)
    except ConfigurationError as error:
        raise msgspec.ValidationError(str(error)) from error


def begin(schedule: Schedule, now: int) -> ScheduleState:
    """The state of a schedule that is new at that instant."""
    return ScheduleState(origin=now, next_due=first_due(schedule.recurrence, now, origin=now))


def edit(before: Schedule, after: Schedule, state: ScheduleState, now: int) -> ScheduleState:
    """The state once the definition is another, or is declared again.

    While the recurrence is the same nothing is lost or repeated. Another one begins now: what was due by the
    old one and has not been fired never is. A single time up to the last one that was fired is over.
    """
    waits = waits_for_run(after.recurrence)
    if before.recurrence == after.recurrence:
        return state if waits or not state.waiting else replace(state, waiting=False)
    if waits and state.waiting:
        return replace(state, origin=now, next_due=None)
    due = first_due(after.recurrence, now, origin=now)
    if due is not None and state.last_due is not None and due <= state.last_due:
        due = after.recurrence.next_after(state.last_due, now)
    return replace(state, origin=now, next_due=due, waiting=False)


def pause(state: ScheduleState) -> ScheduleState:
    return replace(state, paused=True)


def resume(schedule: Schedule, state: ScheduleState, now: int) -> ScheduleState:
    """What passed during the pause is neither fired nor missed, except the one time of `at(...)`."""
    state = replace(state, paused=False)
    if state.next_due is None or state.next_due > now:
        return state
    return replace(state, next_due=first_due(schedule.recurrence, now, origin=state.origin), waiting=False)


def decide(
    schedule: Schedule, state: ScheduleState, now: int, *, live: bool, most: int = MOST_COUNTED
) -> Decision:
    """What to fire now; `live` says whether the job of the last firing has not ended.

    If that is more than `most`, the next due time is one that has come.
    """
    due, recurrence = state.next_due, schedule.recurrence
    if state.paused or due is None or due > now:
        return Decision((), state)
    waits = waits_for_run(recurrence)
    if live and (waits or schedule.overlap == "queue"):
        return Decision((), replace(state, waiting=True))
    keep = schedule.catch_up if schedule.misfire == "all" else 1
    past = passed(recurrence, due, now, state.origin, keep)
    chosen: tuple[int, ...] = past.latest
    following = past.following
    if schedule.misfire == "skip" and now - chosen[-1] > schedule.grace:
        chosen = ()
        following = first_due(recurrence, now, state.origin) if waits else following
    fired = _allowed(schedule, chosen, live=live)[:most]
    held = () if schedule.overlap == "skip" else chosen[len(fired) :]
    return Decision(
        tuple(Occurrence(due, due + jitter_of(schedule, due)) for due in fired),
        replace(
            state,
            next_due=held[0] if held else following,
            last_due=fired[-1] if fired else state.last_due,
            missed=state.missed + past.count - len(chosen),
            skipped=state.skipped + len(chosen) - len(fired) - len(held),
            waiting=bool((held and schedule.overlap == "queue") or (waits and fired)),
        ),
    )


def _allowed(schedule: Schedule, chosen: tuple[int, ...], *, live: bool) -> tuple[int, ...]:
    if schedule.overlap == "allow":
        return chosen
    if schedule.overlap == "queue":
        return chosen[:1]
    return () if live else chosen[-1:]


def run_now(schedule: Schedule, state: ScheduleState, now: int, *, live: bool) -> Decision:
    """One firing more, due now, also of a paused schedule; none if it would overlap a run and may not."""
    waits = waits_for_run(schedule.recurrence)
    if live and (waits or schedule.overlap != "allow"):
        return Decision((), state)
    state = replace(state, last_due=now)
    if waits:
        state = replace(state, next_due=None, waiting=True)
    return Decision((Occurrence(now, now),), state)


def run_ended(schedule: Schedule, state: ScheduleState, *, started: int | None, ended: int) -> ScheduleState:
    """The state once the live job has ended, however it did; `started` is None if it never ran or is gone."""
    if waits_for_run(schedule.recurrence):
        state = replace(state, next_due=due_after_run(schedule.recurrence, started, ended))
    return replace(state, waiting=False)


def jitter_of(schedule: Schedule, due: int) -> int:
    """How much later than its due time a firing's job is due: always the same for the same firing."""
    if not schedule.jitter:
        return 0
    drawn = blake2b(f"{schedule.name} {due}".encode(), digest_size=8).digest()
    return int.from_bytes(drawn) % schedule.jitter
