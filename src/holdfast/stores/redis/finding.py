"""Finding jobs, in steps so small that no other caller waits for long."""

from typing import Any, Final

from holdfast.model.lifecycle import LEASED, WAITING, State
from holdfast.model.records import JobRecord, Query
from holdfast.stores.redis.database import Database
from holdfast.stores.redis.records import CODES, job

STEP: Final = 500
"""How many jobs one call looks at."""

FEW: Final = 5_000
"""So many jobs that are not finished are looked at rather than all."""

_REST = frozenset({State.FAILED, State.DLQ, State.CANCELLED})


async def find(database: Database, query: Query) -> list[JobRecord]:
    """The jobs that match, by id, highest first.

    Those that are not finished, if they are few, and those that ended otherwise than by success are found
    without looking at all others.
    """
    if query.limit < 1:
        return []
    if query.worker is not None or (query.states and query.states <= LEASED | WAITING):
        are_waiting = query.worker is None and not query.states <= LEASED
        ids = await database.run("live", FEW, int(are_waiting), writes=False)
        if ids is not None:
            return await _among(database, query, ids)
    return await _among_index(database, query)


async def _among_index(database: Database, query: Query) -> list[JobRecord]:
    index = "d" if query.states and query.states <= _REST else "i"
    bound = b"+" if query.cursor is None else b"(" + query.cursor.encode()
    states = "".join(str(CODES[state]) for state in query.states)
    found: list[JobRecord] = []
    while len(found) < query.limit:
        last, *told = await database.run(
            "find", index, bound, STEP, states, query.queue or "", query.task or "", writes=False
        )
        found += _matching(told, query)
        if last is None:
            break
        bound = b"(" + last
    return found[: query.limit]


async def _among(database: Database, query: Query, ids: list[bytes]) -> list[JobRecord]:
    after = query.cursor.encode() if query.cursor is not None else None
    wanted = sorted((job_id for job_id in ids if after is None or job_id < after), reverse=True)
    found: list[JobRecord] = []
    for first in range(0, len(wanted), STEP):
        told = await database.run("read", *wanted[first : first + STEP], writes=False)
        found += _matching([each for each in told if each is not None], query)
        if len(found) >= query.limit:
            break
    return found[: query.limit]


def _matching(told: list[Any], query: Query) -> list[JobRecord]:
    return [record for record in map(job, told) if _matches(record, query)]


def _matches(record: JobRecord, query: Query) -> bool:
    return (
        (not query.states or record.state in query.states)
        and (query.queue is None or record.queue == query.queue)
        and (query.task is None or record.task == query.task)
        and (query.tag is None or query.tag in record.tags)
        and (query.worker is None or record.worker == query.worker)
        and (query.due_after is None or record.due >= query.due_after)
        and (query.due_before is None or record.due < query.due_before)
    )
