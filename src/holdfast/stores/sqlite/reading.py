"""What the reads of jobs do. Each runs in one read transaction, so that what it sees belongs together."""

from collections.abc import Sequence
from copy import copy
from heapq import merge
from itertools import islice
from typing import Any

import msgspec

from holdfast.model.lifecycle import FINISHED, State
from holdfast.model.records import AttemptRecord, JobRecord, Query, QueueCount
from holdfast.stores.sqlite.columns import CODES, STATES
from holdfast.stores.sqlite.rows import attempts
from holdfast.stores.sqlite.transaction import Transaction

_decode_counts = msgspec.json.Decoder(list[tuple[str, int, int, int]]).decode
_CONDITIONS = {
    "queue": "queue = :queue",
    "task": "task = :task",
    # Only where they are JSON: one damaged row must not keep the others from being found.
    "tag": "CASE WHEN json_valid(tags) THEN :tag IN (SELECT value FROM json_each(tags)) END",
    "due_after": "due >= :due_after",
    "due_before": "due < :due_before",
    "cursor": "id < :cursor",
}


def states(tx: Transaction, job_ids: Sequence[str]) -> list[JobRecord | None]:
    found = tx.by_id(list(dict.fromkeys(job_ids)))
    records = [found.get(job_id) for job_id in job_ids]
    return [record and copy(record) for record in records]


def find(tx: Transaction, query: Query) -> list[JobRecord]:
    """Both tables in the order of ids, merged."""
    pages: list[list[JobRecord]] = []
    live = _wanted_codes(query, is_finished=False)
    if live:
        pages.append(_page(tx, "find", query, live))
    done = _wanted_codes(query, is_finished=True)
    if done and query.worker is None:
        pages.append(_page(tx, "find_done", query, done))
    merged = merge(*pages, key=lambda record: record.id, reverse=True)
    return list(islice(merged, max(0, query.limit)))


def _wanted_codes(query: Query, *, is_finished: bool) -> list[int]:
    return [CODES[state] for state in query.states or frozenset(State) if (state in FINISHED) is is_finished]


def _page(tx: Transaction, name: str, query: Query, codes: list[int]) -> list[JobRecord]:
    parameters: dict[str, Any] = {"limit": max(0, query.limit)}
    conditions: list[str] = []
    if query.states:
        # Literal numbers, which let SQLite see that a partial index fits.
        conditions.append(f"state IN ({', '.join(map(str, codes))})")
    if query.worker is not None:
        conditions.append("worker = :worker")
        parameters["worker"] = query.worker
    for field, condition in _CONDITIONS.items():
        value = getattr(query, field)
        if value is not None:
            conditions.append(condition)
            parameters[field] = value
    tail = "".join(f" AND {condition}" for condition in conditions)
    return tx.jobs(name, conditions=tail, **parameters)


def expired(tx: Transaction, limit: int) -> list[JobRecord]:
    return tx.jobs("expired", limit=max(0, limit))


def count(tx: Transaction) -> list[QueueCount]:
    return [
        QueueCount(queue=queue, state=STATES[state], count=jobs, due=due)
        for queue, state, jobs, due in _decode_counts(tx.row("count")[0])
    ]


def history(tx: Transaction, job_id: str) -> list[AttemptRecord]:
    return [attempt for attempt, _ in attempts(tx.row("history", job=job_id)[0])]
