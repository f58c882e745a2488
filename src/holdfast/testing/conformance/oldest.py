"""How long a queue says that its jobs have waited, held against the jobs themselves."""

from collections.abc import Sequence

from holdfast.model.lifecycle import WAITING
from holdfast.model.records import JobRecord, QueueRecord


def check_oldest(queues: Sequence[QueueRecord], jobs: Sequence[JobRecord], now: int) -> None:
    """One has waited as long as told, and no other longer that comes first in its priority."""
    for queue in queues:
        waiting = [job for job in jobs if job.queue == queue.name and _is_waiting(job, now)]
        waits = {job.id: now - max(job.due, job.created) for job in waiting}
        if queue.oldest is None:
            assert not waits
        else:
            assert queue.oldest in waits.values()
            assert queue.oldest >= max(waits[job.id] for job in _firsts(waiting))


def _is_waiting(job: JobRecord, now: int) -> bool:
    is_parked = job.flow is not None and job.flow.parked is not None
    return job.state in WAITING and job.due <= now and not is_parked


def _firsts(waiting: Sequence[JobRecord]) -> list[JobRecord]:
    last_to_first = sorted(waiting, key=lambda job: (_rank(job), job.id), reverse=True)
    return list({job.priority: job for job in last_to_first}.values())


def _rank(job: JobRecord) -> int:
    return job.due if job.flow is None or job.flow.rank is None else job.flow.rank
