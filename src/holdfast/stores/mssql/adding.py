"""Jobs on their way in, as JSON with their bytes beside it; and the answer."""

from collections.abc import Sequence
from typing import Any

from msgspec.structs import replace

from holdfast.model.flow import NO_FLOW, NewFlow, or_none
from holdfast.model.records import Added, NewJob, as_added
from holdfast.stores.mssql.driver import Row
from holdfast.stores.mssql.rows import Bytes, record
from holdfast.stores.mssql.texts import stored, stored_or_none


def as_dicts(jobs: Sequence[NewJob], held: Bytes, *, joined: bool = False) -> list[dict[str, Any]]:
    """The jobs for `open_new`, counted from 1. Those that are `joined` belong to somebody else's write."""
    return [_as_dict(n, job, held, joined=joined) for n, job in enumerate(jobs, start=1)]


def _as_dict(n: int, job: NewJob, held: Bytes, *, joined: bool) -> dict[str, Any]:
    told: dict[str, Any] = {
        "n": n,
        "id": job.id,
        "task": stored(job.task),
        "queue": stored(job.queue),
        "priority": job.priority,
        **held.put("payload", job.payload),
        **held.put("headers", job.headers),
        **held.put("retry", job.retry),
    }
    told |= {
        name: value
        for name, value in (
            ("due", job.due),
            ("delay", job.delay or None),
            ("key", stored_or_none(job.key)),
            ("key_ttl", job.key_ttl or None),
            ("tags", [stored(tag) for tag in job.tags] or None),
            ("lease", job.lease),
            ("timeout", job.timeout),
            ("joined", joined or None),
        )
        if value is not None
    }
    return told | _flow(job.flow) if job.flow is not None else told


def _flow(flow: NewFlow) -> dict[str, Any]:
    told: dict[str, Any] = {name: getattr(flow, name) for name in flow.__struct_fields__}
    told |= {name: stored_or_none(told[name]) for name in ("limit_key", "fair_key", "sequence")}
    return {
        name: value
        for name, value in told.items()
        if value is not None and value is not False and value != ()
    }


def answers(jobs: Sequence[NewJob], told: Sequence[Sequence[Row]]) -> list[Added]:
    """One answer for each job from the result sets of `add`."""
    [[now]], stood, flows = told
    added: list[Added] = [Added(record=as_added(job, now), created=True) for job in jobs]
    for n, conflict, *row in stood:
        added[n - 1] = Added(record=record(row), created=False, conflict=conflict)
    for n, rank, unmet, gate in flows:
        place: int = n - 1
        found = added[place].record
        flow = found.flow or NO_FLOW
        found.flow = or_none(
            replace(flow, rank=rank if flow.fair_key is not None else None, unmet=unmet or 0, parked=gate)
        )
    return added
