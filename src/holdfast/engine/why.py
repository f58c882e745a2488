"""Gathers what an explanation needs, and no more than that."""

from __future__ import annotations

import msgspec

from holdfast.engine.hindrance import hindrance
from holdfast.model.explanation import Explanation, Surroundings, explain
from holdfast.model.lifecycle import FINISHED, LEASED
from holdfast.model.records import JobRecord
from holdfast.model.retry import decode_retry, most_retries
from holdfast.model.settings import Settings
from holdfast.model.task import Registry
from holdfast.store import Session

_MOST_COUNTED = 2_000


async def why(
    session: Session, registry: Registry, settings: Settings, job_id: str, record: JobRecord | None
) -> Explanation:
    """Why the job is not running, or what became of it."""
    if record is None or record.state in FINISHED:
        return explain(job_id, record, Surroundings(now=0))
    now = (await session.schedules.get([])).now
    workers = await session.fleet.workers()
    if record.state in LEASED:
        return explain(job_id, record, Surroundings(now=now, workers=workers))
    around = Surroundings(
        now=now,
        workers=workers,
        queues=await session.fleet.queues(),
        counts=await session.jobs.count(_MOST_COUNTED),
        hindrance=await hindrance(session, record),
        retries=_retries(record, registry, settings),
    )
    return explain(job_id, record, around)


def _retries(record: JobRecord, registry: Registry, settings: Settings) -> int | None:
    """How many retries the job may have; None if there is no limit, or if only its worker knows."""
    if record.retry is not None:
        try:
            return most_retries(decode_retry(record.retry))
        except msgspec.DecodeError:
            return None
    definition = registry.find(record.task)
    if definition is None:
        return None
    return most_retries(settings.retry_strategy if definition.retry is None else definition.retry)
