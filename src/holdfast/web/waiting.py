"""What a job waits for beside its due time."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

import msgspec

from holdfast.app import Holdfast
from holdfast.model.lifecycle import WAITING
from holdfast.model.timing import moment


class FlowDocument(msgspec.Struct, kw_only=True):
    """The keys of a job, when it expires, and what holds it back.

    It comes after so many other jobs, of which so many are not done, and so many were done without success.
    With `is_open` it is the one at the end of a batch, of the same id, to which more may be added.
    """

    limit_key: str | None
    fair_key: str | None
    sequence_key: str | None
    on_failure: Literal["continue", "halt"] | None
    expires: datetime | None
    waits_for: str | None
    comes_after: int
    not_done: int
    not_succeeded: int
    is_open: bool


async def flow_document(app: Holdfast, job_id: str) -> FlowDocument | None:
    """None for the many jobs that wait for nothing but their turn."""
    session = app.client.session
    record = await session.jobs.get(job_id)
    if record is None or record.flow is None:
        return None
    flow = record.flow
    awaited = await session.flow.awaited(job_id)
    on_failure: Literal["continue", "halt"] = "halt" if flow.halts else "continue"
    return FlowDocument(
        limit_key=flow.limit_key,
        fair_key=flow.fair_key,
        sequence_key=flow.sequence,
        on_failure=None if flow.sequence is None else on_failure,
        expires=None if flow.expires is None else moment(flow.expires),
        waits_for=flow.parked,
        comes_after=0 if awaited is None else awaited.total,
        not_done=0 if awaited is None else awaited.pending,
        not_succeeded=flow.unmet,
        is_open=awaited is not None and awaited.held and record.state in WAITING,
    )
