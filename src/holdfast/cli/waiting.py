"""What a job waits for beside its due time, as `holdfast jobs show` tells it."""

from __future__ import annotations

from holdfast.app import Holdfast
from holdfast.model.flow import AFTER, Flow
from holdfast.model.timing import moment


async def flow_of(app: Holdfast, job_id: str) -> dict[str, object]:
    """The keys of a job, when it expires, and what holds it back; nothing for most jobs."""
    session = app.client.session
    record = await session.jobs.get(job_id)
    if record is None or record.flow is None:
        return {}
    flow = record.flow
    awaited = await session.flow.awaited(job_id)
    return {
        "limit_key": flow.limit_key,
        "fair_key": flow.fair_key,
        "sequence_key": flow.sequence,
        "on_failure": _on_failure(flow),
        "expires": None if flow.expires is None else moment(flow.expires),
        "waits_for": _waits_for(flow.parked),
        "comes_after": awaited.total if awaited is not None and awaited.total else None,
        "not_done": awaited.pending if awaited is not None and awaited.total else None,
        "not_succeeded": flow.unmet,
    }


def _on_failure(flow: Flow) -> str | None:
    if flow.sequence is None:
        return None
    return "halt" if flow.halts else "continue"


def _waits_for(parked: str | None) -> str | None:
    if parked is None or parked == AFTER:
        return None if parked is None else "other jobs"
    return parked.replace(":", " ", 1)
