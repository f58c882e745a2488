"""What the reads of jobs do. Each runs in one read transaction, so that what it sees belongs together."""

from collections.abc import Sequence
from copy import copy
from heapq import merge
from itertools import islice
from operator import attrgetter
from typing import Any

from holdfast.model.lifecycle import FINISHED, State
from holdfast.model.records import AttemptRecord, JobRecord, Query, QueueCount
from holdfast.stores.sqlite.answers import reader
from holdfast.stores.sqlite.columns import CODES, STATES
from holdfast.stores.sqlite.rows import attempts
from holdfast.stores.sqlite.transaction import Transaction

_decode_counts = reader(list[tuple[str, int, int, int, int]])
_CONDITIONS = {
    "worker": "worker = :worker",
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
    """Pages in the order of ids, merged: one of the live jobs, one of each wanted state of finished ones."""
    wanted = query.states or frozenset(State)
    limit = max(0, query.limit)
    live = [CODES[state] for state in wanted - FINISHED]
    pages: list[list[JobRecord]] = []
    if live:
        pages.append(_page(tx, "find", query, f"state IN ({', '.join(map(str, live))})", limit))
    if query.worker is None:
        for code in sorted(CODES[state] for state in wanted & FINISHED):
            # Literal numbers, because only then SQLite sees that a partial index fits.
            state = f"state = {code}" + (" AND state <> 3" if code != 3 else "")
            pages.append(_page(tx, "find_done", query, state, min(limit, _finished(tx, query, code))))
    return list(islice(merge(*pages, key=attrgetter("id"), reverse=True), limit))


def _finished(tx: Transaction, query: Query, code: int) -> int:
    """How many there are at most: nobody should look through a million jobs for one that is not there."""
    conditions = "" if query.queue is None else " AND queue = :queue"
    found = tx.sql.get("finished", conditions)
    row = tx.run_statement(found, {"queue": query.queue, "state": code}).fetchone()
    return int(row[0])


def _page(tx: Transaction, name: str, query: Query, state: str, limit: int) -> list[JobRecord]:
    if not limit:
        return []
    parameters: dict[str, Any] = {"limit": limit}
    conditions = [state]
    for field, condition in _CONDITIONS.items():
        value = getattr(query, field)
        if value is not None:
            conditions.append(condition)
            parameters[field] = value
    return tx.jobs(name, conditions="".join(f" AND {each}" for each in conditions), **parameters)


def expired(tx: Transaction, limit: int) -> list[JobRecord]:
    return tx.jobs("expired", limit=max(0, limit))


def count(tx: Transaction) -> list[QueueCount]:
    return [
        QueueCount(queue=queue, state=STATES[state], count=jobs, due=due, parked=parked)
        for queue, state, jobs, due, parked in _decode_counts(tx.row("count")[0])
    ]


def history(tx: Transaction, job_id: str) -> list[AttemptRecord]:
    return [attempt for attempt, _ in attempts(tx.row("history", job=job_id)[0])]
