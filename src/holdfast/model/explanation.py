"""Why is this job not running? A sentence, and the facts behind it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from holdfast.model.lifecycle import FINISHED, LEASED, State
from holdfast.model.records import JobRecord, QueueCount, QueueRecord, WorkerRecord
from holdfast.model.report import decode_report
from holdfast.model.timing import SECOND, moment

Facts = Mapping[str, object]

FRESH = 30 * SECOND
"""How old a report of a worker may be to say how it stands."""


@dataclass(frozen=True, slots=True)
class Explanation:
    """What keeps a job, or what became of it."""

    sentence: str
    facts: Facts

    def __str__(self) -> str:
        return self.sentence


@dataclass(frozen=True, slots=True)
class Hindrance:
    """What holds a job back beside its due time, and the facts behind it."""

    sentence: str
    facts: Facts


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What a job's fate depends on, as far as it does. `now` is the store's, in microseconds since 1970.

    `retries` is how many the job may have, None if that is not known.
    """

    now: int
    workers: Sequence[WorkerRecord] = ()
    queues: Sequence[QueueRecord] = ()
    counts: Sequence[QueueCount] = ()
    hindrance: Hindrance | None = None
    retries: int | None = None


def explain(job_id: str, record: JobRecord | None, around: Surroundings) -> Explanation:
    if record is None:
        return Explanation(
            f"No job {job_id} is stored: it was never there, was deleted, or retention removed it.",
            {"id": job_id, "stored": False},
        )
    facts: dict[str, object] = {
        "id": record.id,
        "stored": True,
        "task": record.task,
        "queue": record.queue,
        "state": record.state.value,
        "run": record.run,
        "failures": record.failures,
        "lost": record.lost,
        "reason": record.reason,
    }
    if record.state in FINISHED:
        return Explanation(_finished(record), facts)
    if record.state in LEASED:
        return _leased(record, around, facts)
    return _waiting(record, around, facts)


def _finished(record: JobRecord) -> str:
    when = "" if record.finished is None else f" at {_shown(record.finished)}"
    runs = "1 run" if record.run == 1 else f"{record.run} runs"
    because = record.reason or "no reason recorded"
    match record.state:
        case State.SUCCESS:
            return f"It succeeded{when}, after {runs}."
        case State.CANCELLED:
            because = "" if record.reason in (None, "cancelled") else f", because: {record.reason}"
            return f"It was cancelled{when}{because}."
        case State.DLQ:
            return f"It was dead-lettered{when}, after {runs}, because: {because}. Replay it to try again."
        case _:
            return f"It failed for good{when}, after {runs}, because: {because}. Replay it to try again."


def _leased(record: JobRecord, around: Surroundings, facts: dict[str, object]) -> Explanation:
    alive = any(worker.id == record.worker and worker.live for worker in around.workers)
    facts |= {"worker": record.worker, "worker_live": alive, "cancel_asked": record.cancel_asked}
    if record.state is State.RUNNING and record.started is not None:
        facts["started"] = moment(record.started)
        sentence = (
            f"It has been running since {_shown(record.started)} on worker {record.worker}, run {record.run}"
        )
    else:
        sentence = f"It was claimed by worker {record.worker}, which has not reported its start yet"
        if record.suspect:
            sentence += f"; {_SUSPECT}"
    facts["suspect"] = record.suspect
    if record.progress is not None:
        note = f" ({record.progress_note})" if record.progress_note else ""
        sentence += f", at {record.progress:.0%}{note}"
    if record.cancel_asked:
        sentence += "; it was asked to stop"
    if record.lease_until is not None:
        facts["lease_until"] = moment(record.lease_until)
        sentence += f"; {_lease(record.lease_until, around.now, alive)}"
    return Explanation(sentence + ".", facts)


def _lease(until: int, now: int, alive: bool) -> str:
    if until <= now:
        return f"its lease ended at {_shown(until)}, and the first worker that looks takes the job back"
    if alive:
        return f"its lease is held until {_shown(until)}, and prolonged while that worker lives"
    return f"that worker is not live, and the job is taken back when its lease ends at {_shown(until)}"


def _waiting(record: JobRecord, around: Surroundings, facts: dict[str, object]) -> Explanation:
    live = [worker for worker in around.workers if worker.live]
    serving = [worker for worker in live if record.queue in worker.queues]
    knowing = [worker for worker in serving if record.task in worker.tasks]
    queue = next((each for each in around.queues if each.name == record.queue), None)
    is_paused = queue is not None and queue.paused
    is_due = record.due <= around.now
    facts |= {
        "due": moment(record.due),
        "is_due": is_due,
        "queue_paused": is_paused,
        "live_workers": len(live),
        "serving_workers": len(serving),
        "knowing_workers": len(knowing),
        "due_in_queue": sum(each.due for each in around.counts if each.queue == record.queue),
        "oldest_wait": None if queue is None or queue.oldest is None else queue.oldest / SECOND,
        "suspect": record.suspect,
    }
    reasons: list[str] = []
    if not is_due:
        reasons.append(_not_due(record, around, facts))
    if queue is not None and is_paused:
        facts["queue_paused_since"] = None if queue.paused_since is None else moment(queue.paused_since)
        reasons.append(paused(f"queue {record.queue!r}", queue.paused_since))
    if around.hindrance is not None:
        reasons.append(around.hindrance.sentence)
        facts |= around.hindrance.facts
    if not live:
        reasons.append("no live worker is known")
    elif not serving:
        reasons.append(f"no live worker serves queue {record.queue!r}")
    elif not knowing:
        reasons.append(f"no live worker of queue {record.queue!r} knows task {record.task!r}")
    if not reasons:
        reasons.append(_turn(record, knowing, around.now, facts))
    if record.suspect:
        reasons.append(_SUSPECT)
    sentence = "; ".join(reasons)
    return Explanation(sentence[0].upper() + sentence[1:] + ".", facts)


_SUSPECT = (
    "it is a suspect, because a worker that held it was lost: a worker begins it only when the store knows "
    "of that, and runs the fewer of them at a time the more often they were lost"
)


def _turn(record: JobRecord, knowing: Sequence[WorkerRecord], now: int, facts: dict[str, object]) -> str:
    """What a job waits for that nothing holds back: a slot, or only its turn."""
    told = [
        decode_report(worker.report, worker.reported)
        for worker in knowing
        if worker.report is not None and now - worker.reported <= FRESH
    ]
    reports = [report for report in told if report is not None]
    others = _others(record, facts)
    workers = f"{len(knowing)} live worker{'s' if len(knowing) != 1 else ''} that can run it"
    if len(reports) < len(knowing):
        return f"it is due and waits for its turn, with {others} and {workers}"
    slots, stuck = sum(report.slots for report in reports), sum(report.stuck for report in reports)
    facts |= {"slots": slots, "busy_slots": sum(report.busy for report in reports), "stuck_slots": stuck}
    if not any(report.claiming for report in reports):
        return f"the {workers} {_verb(knowing)} not ask for work: stopping, or cut off from the store"
    if all(report.is_full for report in reports if report.claiming):
        are_stuck = f", {stuck} of them with code that does not end" if stuck else ""
        return (
            f"all {slots} slots of the {workers} are busy{are_stuck}; it waits with {others}{_oldest(facts)}"
        )
    return f"it is due and waits for its turn, with {others} and {workers}"


def _verb(workers: Sequence[WorkerRecord]) -> str:
    return "does" if len(workers) == 1 else "do"


def _others(record: JobRecord, facts: dict[str, object]) -> str:
    due = facts["due_in_queue"]
    others = max(0, due - 1) if isinstance(due, int) else 0
    return f"{others} other due job{'s' if others != 1 else ''} in queue {record.queue!r}"


def _oldest(facts: dict[str, object]) -> str:
    waited = facts["oldest_wait"]
    return f", the first of all for {_long(waited)}" if isinstance(waited, float) else ""


def _not_due(record: JobRecord, around: Surroundings, facts: dict[str, object]) -> str:
    when = f"{_shown(record.due)}, in {_long((record.due - around.now) / SECOND)}"
    if record.state is not State.RETRY:
        return f"it is not due before {when}"
    if not record.failures:
        return f"it is tried again at {when}: {record.reason}"
    facts |= {"retry": record.failures, "retries": around.retries}
    most = "" if around.retries is None else f" of {around.retries}"
    return f"it waits for retry {record.failures}{most} at {when}, after failing with: {record.reason}"


def paused(what: str, since: int | None) -> str:
    """That something is paused, and since when if that is known."""
    return f"{what} is paused" if since is None else f"{what} has been paused since {_shown(since)}"


def _shown(instant: int) -> str:
    return moment(instant).replace(tzinfo=None).isoformat(sep=" ", timespec="seconds") + " UTC"


def _long(duration: float) -> str:
    """So many seconds, as people say it."""
    seconds = round(duration)
    minutes, hours = seconds // 60, seconds // 3_600
    if hours >= 48:
        return f"{hours // 24:,} d {hours % 24} h"
    if hours >= 2:
        return f"{hours} h {minutes % 60} min"
    return f"{minutes} min" if minutes >= 10 else f"{seconds} s"
