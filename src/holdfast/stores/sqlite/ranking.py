"""The ranks of new jobs with fair keys."""

from collections.abc import Sequence
from typing import TypeAlias

from holdfast.model.flow import STRIDE
from holdfast.model.records import NewJob
from holdfast.stores.sqlite.answers import reader
from holdfast.stores.sqlite.feed import as_json
from holdfast.stores.sqlite.limits import standing
from holdfast.stores.sqlite.transaction import Transaction

Place: TypeAlias = tuple[str, int]
"""Queue and priority."""

MANY = 1_000
"""So many keys of a queue are kept, however long they had nothing."""

_decode_names = reader(list[str])
_decode_floors = reader(list[tuple[int | None, int | None]])
_decode_last = reader(list[int | None])


def fair_keys(jobs: Sequence[NewJob]) -> list[tuple[NewJob, str]]:
    """The jobs that have a fair key, with it."""
    return [(job, job.flow.fair_key) for job in jobs if job.flow and job.flow.fair_key is not None]


def floors(tx: Transaction, jobs: Sequence[NewJob]) -> dict[Place, int]:
    """How the queues stand in which jobs with fair keys are to be put."""
    places = sorted({(job.queue, job.priority) for job, _ in fair_keys(jobs)})
    if not places:
        return {}
    found = _decode_floors(tx.row("fair_floors", places=as_json(places))[0])
    return {
        place: max(highest or 0, tx.now) if lowest is None else lowest
        for place, (lowest, highest) in zip(places, found, strict=True)
    }


def ranks(tx: Transaction, jobs: Sequence[NewJob], floors: dict[Place, int]) -> dict[str, int]:
    """The rank of each job that has a fair key, by its id."""
    fair = fair_keys(jobs)
    if not fair:
        return {}
    limits = standing(tx).limits
    lines = list(dict.fromkeys((job.queue, key) for job, key in fair))
    stored = _decode_last(tx.row("fair_last", keys=as_json(lines))[0])
    last = dict(zip(lines, stored, strict=True))
    found: dict[str, int] = {}
    for job, key in fair:
        floor = floors[job.queue, job.priority]
        before = last[job.queue, key]
        rank = max(floor, floor if before is None else before) + int(STRIDE / limits.weight(key))
        found[job.id] = last[job.queue, key] = rank
    tx.run("fair_keep", rows=as_json([(*line, rank) for line, rank in last.items()]))
    return found


def forget_ranks(tx: Transaction, limit: int) -> None:
    """Forgets keys that are behind all that is ready, where there are many."""
    for queue in _decode_names(tx.row("fair_queues", many=MANY)[0]):
        tx.run("fair_forget", queue=queue, limit=limit)
