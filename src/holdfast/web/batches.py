"""Batches: how far they are."""

from __future__ import annotations

import msgspec

from holdfast.model.errors import JobGone
from holdfast.model.lifecycle import State
from holdfast.model.names import known_id
from holdfast.web.access import Role
from holdfast.web.routing import Incoming, Routes

routes = Routes()


class BatchDocument(msgspec.Struct, kw_only=True):
    """How many jobs of a batch there are, and how they stand; `state` is that of the job that comes last."""

    id: str
    total: int
    pending: int
    succeeded: int
    failed: int
    is_open: bool
    is_done: bool
    state: State


class BatchAnswer(msgspec.Struct, kw_only=True):
    """A batch."""

    batch: BatchDocument


@routes.add("GET", "/batches/{id}", Role.READ)
async def get_batch(incoming: Incoming[None, None]) -> BatchAnswer:
    """Shows how far a batch is."""
    known = known_id(incoming.path["id"])
    if known is None:
        raise JobGone(f"no batch {ascii(incoming.path['id'])[:60]} is stored")
    info = await incoming.app.batches.get(known)
    return BatchAnswer(
        batch=BatchDocument(
            id=info.id,
            total=info.total,
            pending=info.pending,
            succeeded=info.succeeded,
            failed=info.failed,
            is_open=info.is_open,
            is_done=info.is_done,
            state=info.state,
        )
    )
