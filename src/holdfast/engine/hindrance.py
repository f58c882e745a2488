"""What holds a waiting job back, as an operator reads it."""

from __future__ import annotations

from holdfast.model.explanation import Hindrance
from holdfast.model.flow import AFTER, LimitRecord, Scope
from holdfast.model.limits import said
from holdfast.model.records import JobRecord
from holdfast.store import FlowStore

_SHOWN = 3


async def hindrance(flow: FlowStore, record: JobRecord) -> Hindrance | None:
    """Why the job was passed over when it was last looked at; None if it was not."""
    parked = None if record.flow is None else record.flow.parked
    if parked is None:
        return None
    if parked == AFTER:
        return await _others(flow, record)
    kind, _, name = parked.partition(":")
    if kind == "sequence":
        return await _turn(flow, name)
    limit = _limit_of(await flow.limits(), Scope(kind), name, record.task)
    [usage] = await flow.usage([parked])
    facts: dict[str, object] = {"limited_by": parked, "running": usage.running, "parked": usage.parked}
    if limit is None:
        return Hindrance(f"{kind} {name!r} had no room, and its limit was removed since", facts)
    if limit.paused:
        return Hindrance(f"{kind} {name!r} is paused", facts)
    return Hindrance(
        f"{kind} {name!r} has {usage.running} running and {usage.parked} waiting, and may have {said(limit)}",
        facts,
    )


async def _others(flow: FlowStore, record: JobRecord) -> Hindrance:
    awaited = await flow.awaited(record.id)
    if awaited is None:
        return Hindrance("it waits for other jobs", {})
    facts: dict[str, object] = {
        "comes_after": awaited.total,
        "pending": awaited.pending,
        "unmet": awaited.unmet,
        "held": awaited.held,
    }
    if awaited.held:
        return Hindrance("it waits for its batch to be closed", facts)
    first = [job_id for job_id, state in await flow.before(record.id, None, 1_000) if state is None][:_SHOWN]
    more = awaited.pending - len(first)
    names = ", ".join(first) + (f" and {more} more" if more > 0 else "")
    return Hindrance(f"it comes after {awaited.pending} that are not done: {names}", facts)


async def _turn(flow: FlowStore, sequence: str) -> Hindrance:
    halting = (await flow.halted()).get(sequence)
    facts: dict[str, object] = {"sequence": sequence, "halted_by": halting}
    if halting is None:
        return Hindrance(f"it waits for its turn in sequence {sequence!r}", facts)
    return Hindrance(
        f"sequence {sequence!r} was halted by job {halting}, which failed; replay or discard that one", facts
    )


def _limit_of(limits: list[LimitRecord], scope: Scope, name: str, task: str) -> LimitRecord | None:
    known = {(limit.scope, limit.name): limit for limit in limits}
    limit = known.get((scope, name))
    return known.get((Scope.EACH_KEY, task)) if limit is None and scope is Scope.KEY else limit
