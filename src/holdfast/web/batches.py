"""Batches: those that are open, how far each is, closed and cancelled."""

from __future__ import annotations

from typing import Any

import msgspec

from holdfast.engine.batches import BatchInfo
from holdfast.model.errors import JobGone
from holdfast.model.lifecycle import State
from holdfast.model.names import known_id
from holdfast.web.access import Role
from holdfast.web.fields import Page
from holdfast.web.routing import Incoming, Routes

routes = Routes()


class BatchesQuery(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """How many."""

    limit: Page = 100


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


class BatchesAnswer(msgspec.Struct, kw_only=True):
    """Batches that are open, the oldest first."""

    batches: list[BatchDocument]


class BatchAnswer(msgspec.Struct, kw_only=True):
    """A batch."""

    batch: BatchDocument


@routes.add("GET", "/batches", Role.READ)
async def list_batches(incoming: Incoming[BatchesQuery, None]) -> BatchesAnswer:
    """Lists the batches to which jobs may still be added; a crash of its maker leaves one so."""
    with incoming.app.partitions.tolerating():
        found = await incoming.app.batches.opened(incoming.query.limit)
    return BatchesAnswer(batches=[batch_document(info) for info in found])


@routes.add("GET", "/batches/{id}", Role.READ)
async def get_batch(incoming: Incoming[None, None]) -> BatchAnswer:
    """Shows how far a batch is."""
    return await _answer(incoming, _id(incoming))


@routes.add("POST", "/batches/{id}/close", Role.OPERATE)
async def close_batch(incoming: Incoming[None, None]) -> BatchAnswer:
    """Says that no more jobs come: the job at its end runs after the others."""
    batch_id = _id(incoming)
    await incoming.app.batches.get(batch_id)
    await incoming.app.batches.close(batch_id)
    return await _answer(incoming, batch_id)


@routes.add("POST", "/batches/{id}/cancel", Role.OPERATE)
async def cancel_batch(incoming: Incoming[None, None]) -> BatchAnswer:
    """Cancels the job at the end, and all that are not finished; those that run are asked to stop."""
    batch_id = _id(incoming)
    await incoming.app.batches.cancel(batch_id)
    return await _answer(incoming, batch_id)


def batch_document(info: BatchInfo) -> BatchDocument:
    told: dict[str, Any] = {name: getattr(info, name) for name in BatchDocument.__struct_fields__}
    return BatchDocument(**told)


def _id(incoming: Incoming[Any, Any]) -> str:
    known = known_id(incoming.path["id"])
    if known is None:
        raise JobGone(f"no batch {ascii(incoming.path['id'])[:60]} is stored")
    return known


async def _answer(incoming: Incoming[Any, Any], batch_id: str) -> BatchAnswer:
    return BatchAnswer(batch=batch_document(await incoming.app.batches.get(batch_id)))
