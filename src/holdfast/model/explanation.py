"""Why is this job not running? A sentence, and the facts behind it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from holdfast.model.lifecycle import FINISHED, LEASED, State
from holdfast.model.records import JobRecord, QueueCount, QueueRecord, WorkerRecord
from holdfast.model.timing import SECOND, moment

Facts = Mapping[str, object]


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
    """What a job's fate depends on, read together. `now` is microseconds since 1970, near the store's now."""

    workers: Sequence[WorkerRecord]
    queues: Sequence[QueueRecord]
    counts: Sequence[QueueCount]
    now: int
    hindrance: Hindrance | None = None


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
    if record.progress is not None:
        note = f" ({record.progress_note})" if record.progress_note else ""
        sentence += f", at {record.progress:.0%}{note}"
    if record.cancel_asked:
        sentence += "; it was asked to stop"
    if not alive and record.lease_until is not None:
        facts["lease_until"] = moment(record.lease_until)
        sentence += (
            f"; that worker is not live, and the job is taken back when its lease ends at "
            f"{_shown(record.lease_until)}"
        )
    return Explanation(sentence + ".", facts)


def _waiting(record: JobRecord, around: Surroundings, facts: dict[str, object]) -> Explanation:
    live = [worker for worker in around.workers if worker.live]
    serving = [worker for worker in live if record.queue in worker.queues]
    knowing = [worker for worker in serving if record.task in worker.tasks]
    paused = any(queue.name == record.queue and queue.paused for queue in around.queues)
    due_count = sum(each.due for each in around.counts if each.queue == record.queue)
    is_due = record.due <= around.now
    others = max(0, due_count - is_due)
    facts |= {
        "due": moment(record.due),
        "is_due": is_due,
        "queue_paused": paused,
        "live_workers": len(live),
        "serving_workers": len(serving),
        "knowing_workers": len(knowing),
        "due_in_queue": due_count,
        "suspect": record.suspect,
    }
    reasons: list[str] = []
    if not is_due:
        reasons.append(_not_due(record, around.now))
    if paused:
        reasons.append(f"queue {record.queue!r} is paused")
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
        turn = f"{others} other due jobs" if others != 1 else "1 other due job"
        reasons.append(
            f"it is due and waits for its turn, with {turn} in queue {record.queue!r} and "
            f"{len(knowing)} live worker{'s' if len(knowing) != 1 else ''} that can run it"
        )
    sentence = "; ".join(reasons)
    return Explanation(sentence[0].upper() + sentence[1:] + ".", facts)


def _not_due(record: JobRecord, now: int) -> str:
    when = f"{_shown(record.due)}, in {(record.due - now) / SECOND:,.0f} s"
    if record.state is State.RETRY:
        return f"it is tried again at {when}, after failure {record.failures}: {record.reason}"
    return f"it is not due before {when}"


def _shown(instant: int) -> str:
    return moment(instant).isoformat(sep=" ", timespec="seconds")
