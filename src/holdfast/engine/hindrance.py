"""What holds a waiting job back, as an operator reads it."""

from __future__ import annotations

from holdfast.model.explanation import Hindrance, paused
from holdfast.model.flow import AFTER, NO_FLOW, SEQUENCE, LimitRecord, Scope, Usage, gate
from holdfast.model.lifecycle import WAITING, State
from holdfast.model.limits import said
from holdfast.model.records import JobRecord
from holdfast.model.timing import SECOND, moment
from holdfast.store import FlowStore, Session

_SHOWN, _LOOKED_AT = 3, 100
_PAGE, _PAGES = 1_000, 5


async def hindrance(session: Session, record: JobRecord) -> Hindrance | None:
    """Why the job was passed over when it was last looked at, or would be now; None if nothing is known."""
    if record.state not in WAITING:
        return None
    flow = NO_FLOW if record.flow is None else record.flow
    if flow.parked == AFTER:
        return await _others(session, record)
    if flow.parked is not None and flow.parked.startswith(SEQUENCE):
        return await _turn(session, flow.parked.removeprefix(SEQUENCE))
    limits = await session.flow.limits()
    if flow.parked is not None:
        kind, _, name = flow.parked.partition(":")
        if kind not in tuple(Scope):
            return Hindrance(f"it is parked at {ascii(flow.parked)[:60]}, which is not known here", {})
        return await _limit(session.flow, limits, Scope(kind), name, record)
    return await _closed(session.flow, limits, record) or (
        _doomed(flow.unmet) if flow.unmet and not flow.after_any else None
    )


def _doomed(unmet: int) -> Hindrance:
    return Hindrance(
        f"{_jobs(unmet)} that it comes after did not succeed, so the worker that takes it cancels it",
        {"unmet": unmet},
    )


async def _closed(flow: FlowStore, limits: list[LimitRecord], record: JobRecord) -> Hindrance | None:
    """The gate that no claim would let the job through, though none has met it there yet."""
    key = None if record.flow is None else record.flow.limit_key
    for scope, name in ((Scope.QUEUE, record.queue), (Scope.TASK, record.task), (Scope.KEY, key)):
        limit = None if name is None else _limit_of(limits, scope, name, record.task)
        if name is None or limit is None:
            continue
        if not limit.paused:
            if limit.concurrency is None:
                continue
            [usage] = await flow.usage([gate(scope, name)])
            if usage.running < limit.concurrency:
                continue
        return await _limit(flow, limits, scope, name, record)
    return None


async def _limit(
    flow: FlowStore, limits: list[LimitRecord], scope: Scope, name: str, record: JobRecord
) -> Hindrance:
    limit = _limit_of(limits, scope, name, record.task)
    [usage] = await flow.usage([gate(scope, name)])
    facts: dict[str, object] = {
        "limited_by": gate(scope, name),
        "running": usage.running,
        "parked": usage.parked,
    }
    if limit is None:
        return Hindrance(
            f"a limit on {scope} {name!r} held it back, and is gone by now; the next claim looks at it again",
            facts,
        )
    if limit.paused:
        since = limit.paused_since
        facts["paused_since"] = None if since is None else moment(since)
        return Hindrance(paused(f"{scope} {name!r}", since), facts)
    return Hindrance(f"{scope} {name!r} may have {_allowance(limit, usage)}; {_line(usage.parked)}", facts)


def _allowance(limit: LimitRecord, usage: Usage) -> str:
    """What the limit allows; of that which is used up, how it stands."""
    running = f"{usage.running} {'is' if usage.running == 1 else 'are'} running"
    words = said(limit.concurrency, limit.rate, limit.period / SECOND, limit.burst)
    if limit.rate is None or (limit.concurrency is not None and usage.running >= limit.concurrency):
        return f"{words}, and {running}"
    return words if limit.rate == 1 else f"{words}, which is one every {limit.interval / SECOND:g} s"


def _line(parked: int) -> str:
    if parked <= 1:
        return "no other job waits for that"
    return f"{_jobs(parked - 1, 'other ')} {'wait' if parked > 2 else 'waits'} for that too"


async def _others(session: Session, record: JobRecord) -> Hindrance:
    awaited = await session.flow.awaited(record.id)
    if awaited is None:
        return Hindrance("it waits for other jobs", {})
    facts: dict[str, object] = {
        "comes_after": awaited.total,
        "pending": awaited.pending,
        "unmet": awaited.unmet,
        "held": awaited.held,
    }
    if awaited.held:
        return Hindrance(
            "its batch is still open, so that more jobs can be added to it; if the program that filled it "
            f"has died, close it: holdfast batches close {record.id}",
            facts,
        )
    pending = await _pending(session.flow, record.id)
    found = await session.jobs.states(pending) if pending else []
    dead = [each.id for each in found if each is not None and each.state is State.DLQ]
    are = "is" if awaited.pending == 1 else "are"
    sentence = f"it comes after {_jobs(awaited.pending)} that {are} not done: "
    sentence += _named([*dead, *(each for each in pending if each not in dead)], awaited.pending)
    if dead:
        facts["dead"] = len(dead)
        one = len(dead) == 1
        sentence += f"; {_named(dead, len(dead))} {'is' if one else 'are'} in the dead-letter queue"
        sentence += f" until you replay or discard {'it' if one else 'them'}"
    return Hindrance(sentence, facts)


async def _pending(flow: FlowStore, job_id: str) -> list[str]:
    """Some jobs that are still waited for; none if they are far behind many that are not."""
    after = None
    for _ in range(_PAGES):
        page = await flow.before(job_id, after, _PAGE)
        found = [each for each, state in page if state is None]
        if found or len(page) < _PAGE:
            return found[:_LOOKED_AT]
        after = page[-1][0]
    return []


async def _turn(session: Session, sequence: str) -> Hindrance:
    halting = (await session.flow.halted()).get(sequence)
    facts: dict[str, object] = {"sequence": sequence, "halted_by": halting}
    if halting is None:
        return Hindrance(
            f"others come before it in sequence {sequence!r}, which runs one job at a time", facts
        )
    [job] = await session.jobs.states([halting])
    if job is not None and job.state not in (State.DLQ, State.FAILED):
        return Hindrance(
            f"sequence {sequence!r} waits for job {halting}, which had halted it and is tried again", facts
        )
    return Hindrance(
        f"sequence {sequence!r} was halted by job {halting}, which failed for good; replay or discard that "
        f"job, or go on without it: holdfast sequences proceed {sequence}",
        facts,
    )


def _limit_of(limits: list[LimitRecord], scope: Scope, name: str, task: str) -> LimitRecord | None:
    known = {(limit.scope, limit.name): limit for limit in limits}
    limit = known.get((scope, name))
    if limit is None and scope is Scope.KEY:
        limit = known.get((Scope.EACH_KEY, task))
    return limit if limit is not None and limit.holds_back else None


def _jobs(count: int, kind: str = "") -> str:
    return f"{count} {kind}job{'' if count == 1 else 's'}"


def _named(ids: list[str], count: int) -> str:
    """The first few of them by name, and how many there are beside."""
    shown = ", ".join(ids[:_SHOWN])
    more = count - len(ids[:_SHOWN])
    return shown if not more else f"{shown} and {more} more" if shown else f"the last of {count}"
