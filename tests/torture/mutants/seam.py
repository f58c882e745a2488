"""Mutants at the seam between engine and store: they fit any store, and change what it is asked."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from msgspec.structs import replace

from holdfast.engine.ids import new_id
from holdfast.model.lifecycle import LEASED, State
from holdfast.model.records import Added, JobRecord, Move, NewJob, Query, Tick, Ticked, Verdict
from holdfast.stores.postgres.store import PostgresStore
from holdfast.stores.redis.store import RedisStore
from holdfast.stores.sqlite.store import SqliteStore
from tests.torture.mutants.workload import outlive_leases

REAPING = 0.4
"""Seconds between the two steps of a reaper that is not atomic."""

WINDOW = 0.3
"""Seconds between asking for a key and taking it."""

Change = Callable[[Any], None]


def at_each_session(change: Change) -> None:
    """Has every session that a store opens changed before it is used."""
    for store in (SqliteStore, PostgresStore, RedisStore):
        _patch(store, change)


def _patch(store: Any, change: Change) -> None:
    connect: Callable[..., Awaitable[Any]] = store.connect

    async def changed(self: Any, namespace: str) -> Any:
        session = await connect(self, namespace)
        change(session)
        return session

    store.connect = changed


def take_any_report() -> None:
    _take_reports(lambda _record, _worker: True)


def take_holders_report() -> None:
    outlive_leases()
    _take_reports(lambda record, worker: record.worker == worker)


def _take_reports(is_taken: Callable[[JobRecord, str], bool]) -> None:
    """A report under an old token counts for the current one."""

    def change(session: Any) -> None:
        jobs, tick = session.jobs, session.jobs.tick

        async def taking(asked: Tick) -> Ticked:
            told: Ticked = await tick(asked)
            for place, move in enumerate(asked.moves):
                if told.verdicts[place] is Verdict.REFUSED and move.outcome and not move.if_expired:
                    record = await jobs.get(move.job)
                    if record is not None and record.state in LEASED and is_taken(record, asked.worker):
                        told.verdicts[place] = await _force(tick, record, move)
            return told

        jobs.tick = taking

    at_each_session(change)


async def _force(tick: Callable[[Tick], Awaitable[Ticked]], record: JobRecord, move: Move) -> Verdict:
    """Ends the attempt that is under way now, in the name of its holder."""
    path = move.path if record.state in move.path else (record.state, *move.path[1:])
    forced = replace(move, token=record.token, path=path, if_expired=False)
    told = await tick(Tick(worker=record.worker or "", seq=0, moves=[forced]))
    return told.verdicts[0]


def expire_by_own_clock() -> None:
    """Whoever looks for ended leases goes by the clock on its own wall, and is believed."""

    def change(session: Any) -> None:
        jobs, tick = session.jobs, session.jobs.tick

        async def expired(limit: int) -> list[JobRecord]:
            found: list[JobRecord] = await jobs.find(
                Query(states=frozenset({State.CLAIMED, State.RUNNING}), limit=limit)
            )
            now = time.time_ns() // 1_000
            return [record for record in found if (record.lease_until or now) < now]

        async def believing(asked: Tick) -> Ticked:
            return await _reclaiming(jobs, tick, asked, lambda record, move: record.token == move.token)

        jobs.expired, jobs.tick = expired, believing

    at_each_session(change)


def reap_in_two_steps() -> None:
    """What was seen to have ended is taken back later, without another look at token and lease."""

    def change(session: Any) -> None:
        jobs, tick = session.jobs, session.jobs.tick

        async def later(asked: Tick) -> Ticked:
            if any(move.if_expired for move in asked.moves):
                await asyncio.sleep(REAPING)
            return await _reclaiming(jobs, tick, asked, lambda _record, _move: True)

        jobs.tick = later

    at_each_session(change)


async def _reclaiming(
    jobs: Any,
    tick: Callable[[Tick], Awaitable[Ticked]],
    asked: Tick,
    may: Callable[[JobRecord, Move], bool],
) -> Ticked:
    """Makes a tick; of its reclaims those that it may, whatever the store's clock says."""
    if not any(move.if_expired for move in asked.moves):
        return await tick(asked)
    verdicts: list[Verdict] = []
    for move in asked.moves:
        record = await jobs.get(move.job)
        if record is not None and record.state in LEASED and may(record, move):
            verdicts.append(await _force(tick, record, move))
        else:
            verdicts.append(Verdict.REFUSED)
    told = await tick(Tick(worker=asked.worker, seq=asked.seq, moves=[], want=asked.want))
    told.verdicts = verdicts
    return told


def check_then_insert() -> None:
    """Keys are looked for first; then the job is stored without one. A tag stands for the key."""

    def change(session: Any) -> None:
        jobs, add = session.jobs, session.jobs.add

        async def checking(wanted: Sequence[NewJob]) -> list[Added]:
            holders = [await _with_tag(jobs, job.key) for job in wanted]
            await asyncio.sleep(WINDOW)
            free = [_tagged(job) for job, holder in zip(wanted, holders, strict=True) if holder is None]
            made = iter(await add(free) if free else ())
            return [next(made) if held is None else Added(record=held, created=False) for held in holders]

        jobs.add = checking

    at_each_session(change)


def _tagged(job: NewJob) -> NewJob:
    return job if job.key is None else replace(job, key=None, tags=(*job.tags, _tag(job.key)))


async def _with_tag(jobs: Any, key: str | None) -> JobRecord | None:
    if key is None:
        return None
    found: list[JobRecord] = await jobs.find(Query(tag=_tag(key), limit=1))
    return found[0] if found else None


def _tag(key: str) -> str:
    return f"key-{key}"


def fire_without_key() -> None:
    """The jobs of a schedule are stored by themselves, and then its next due time is."""

    def change(session: Any) -> None:
        schedules, add, write = session.schedules, session.jobs.add, session.schedules.write

        async def firing(writes: Sequence[Any], term: Any = None) -> Any:
            fired = [job for each in writes for job in each.jobs]
            if fired:
                await add([replace(job, id=new_id(), key=None) for job in fired])
            return await write([replace(each, jobs=()) for each in writes], term)

        schedules.write = firing

    at_each_session(change)
