"""Reads what stands in the store when a campaign is over."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from holdfast.app import Holdfast
from holdfast.model.plan import firing_of
from holdfast.model.records import AttemptRecord, JobRecord, Query
from holdfast.model.recurrence import Every
from holdfast.model.timing import EPOCH, SECOND
from holdfast.torture.arenas.arena import Arena
from holdfast.torture.dump import (
    Attempt,
    Dump,
    Entry,
    Event,
    Firing,
    Group,
    Job,
    Limits,
    Lock,
    Schedule,
    Store,
)
from holdfast.torture.programs.witness import CANARY
from holdfast.torture.programs.workload import LEDGER_TASKS, RETRIES
from holdfast.torture.settings import LEASE, LOST_LIMIT, SWEEP, Campaign

_PAGE: Final = 1_000
_AT_ONCE: Final = 100


@dataclass(frozen=True, slots=True)
class Settling:
    """How many seconds it might take until all was done, and how many it took; None if it was not."""

    limit: float
    took: float | None


async def make(
    app: Holdfast, arena: Arena, campaign: Campaign, first: dict[str, int], settling: Settling
) -> Dump:
    """All of it. `first` has the first due time of each schedule."""
    facts = await app.store.facts()
    stats = await app.stats()
    return Dump(
        store=Store(kind=arena.kind, durability=facts.get("durability", "")),
        limits=Limits(
            lease=round(LEASE * SECOND),
            sweep=round(SWEEP * SECOND),
            attempts=RETRIES + 1,
            losses=LOST_LIMIT,
            settle=round(settling.limit * SECOND),
        ),
        jobs=await _jobs(app),
        ledger=[Entry(job=job, token=token) for job, token in await arena.ledger()],
        ledger_tasks=LEDGER_TASKS.get(arena.kind, ()),
        events=await _events(app),
        groups=[Group(name=group.group, offset=group.offset) for group in await app.events.groups()],
        locks=[
            Lock(name=lock.name, token=lock.token, owner=lock.owner)
            for lock in await app.held_locks(limit=_PAGE)
        ],
        schedules=await _schedules(app, first),
        stats={state.value: count for state, count in stats.by_state.items()},
        settled_after=None if settling.took is None else round(settling.took * SECOND),
        canary=CANARY,
        seed=campaign.seed,
    )


async def _jobs(app: Holdfast) -> list[Job]:
    jobs = app.client.session.jobs
    found: list[Job] = []
    cursor: str | None = None
    while True:
        page = await jobs.find(Query(limit=_PAGE, cursor=cursor))
        for start in range(0, len(page), _AT_ONCE):
            part = page[start : start + _AT_ONCE]
            histories = await asyncio.gather(*(jobs.history(record.id) for record in part))
            found += [_job(record, history) for record, history in zip(part, histories, strict=True)]
        if len(page) < _PAGE:
            return found
        cursor = page[-1].id


def _job(record: JobRecord, history: list[AttemptRecord]) -> Job:
    firing = firing_of(record)
    return Job(
        id=record.id,
        task=record.task,
        state=record.state.value,
        run=record.run,
        failures=record.failures,
        lost=record.lost,
        token=record.token,
        version=record.version,
        created=record.created,
        key=record.key,
        worker=record.worker,
        finished=record.finished,
        firing=None if firing is None else Firing(schedule=firing.schedule, due=micros(firing.due)),
        attempts=tuple(
            Attempt(
                run=attempt.run,
                token=attempt.token,
                worker=attempt.worker,
                started=attempt.started,
                finished=attempt.finished,
                outcome=attempt.outcome.value,
                reason=attempt.reason,
            )
            for attempt in history
        ),
    )


async def _events(app: Holdfast) -> list[Event]:
    events = app.client.session.events
    last = await events.last()
    found: list[Event] = []
    after = 0
    while after < last:
        page = await events.read(after, _PAGE)
        found += [
            Event(
                position=record.position,
                id=record.id,
                aggregate=record.aggregate or "",
                version=record.version or 0,
            )
            for record in page.records
        ]
        after = page.upto
    return found


async def _schedules(app: Holdfast, first: dict[str, int]) -> list[Schedule]:
    return [
        Schedule(
            name=info.name,
            first=first[info.name],
            interval=info.recurrence.interval,
            last=None if info.last_due is None else micros(info.last_due),
            next=None if info.next_due is None else micros(info.next_due),
        )
        for info in await app.schedules.list()
        if isinstance(info.recurrence, Every)
    ]


def micros(moment: datetime | None) -> int:
    """The moment as the store counts."""
    assert moment is not None
    return (moment - EPOCH) // timedelta(microseconds=1)
