"""The job operations: each one call of a server-side function, or one query."""

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from holdfast.model.errors import KeyConflict, StoreError
from holdfast.model.lifecycle import EDITABLE, edit_source
from holdfast.model.records import (
    Added,
    AttemptRecord,
    Edit,
    Extension,
    Held,
    JobRecord,
    NewJob,
    Query,
    QueueCount,
    Tick,
    Ticked,
)
from holdfast.stores.bell import Bell
from holdfast.stores.plain import may_wake
from holdfast.stores.postgres.adding import answers, arrays, created, fresh_arrays, is_fresh, is_lone, lone
from holdfast.stores.postgres.counting import count_all, count_some
from holdfast.stores.postgres.database import Database
from holdfast.stores.postgres.faults import is_taken
from holdfast.stores.postgres.floors import Floors
from holdfast.stores.postgres.listener import PostgresWakeups
from holdfast.stores.postgres.moving import Batch
from holdfast.stores.postgres.queries import Queries, found
from holdfast.stores.postgres.rows import CODES, Told, attempt, claimed, clean, rank_of, record

BUSY: Final = 50
"""A worker that got so many jobs at once will not be idle when it has done them."""

HANDED: Final = "h"
STANDS: Final = "s"
_NOT_STANDING: Final = (None, 0, None, 0)
_HELD = {"h": Held.HELD, "c": Held.CANCEL_ASKED, "l": Held.LOST}
_encode = msgspec.json.encode


class _Answer(msgspec.Struct):
    refused: list[int] | None = None
    verdicts: str | None = None
    asked: list[tuple[str, int]] | None = None
    paused: list[str] = []
    paused_tasks: list[str] | None = None
    freed: bool = False


class _Edited(msgspec.Struct):
    job: Told | None = None
    held: str | None = None


_decode_answer = msgspec.json.Decoder(_Answer).decode
_decode_edited = msgspec.json.Decoder(_Edited).decode


class PostgresJobs:
    """Jobs of one namespace."""

    def __init__(
        self, database: Database, queries: Queries, ns: int, bell: Bell, wakeups: PostgresWakeups
    ) -> None:
        self._database = database
        self._queries = queries
        self._ns = ns
        self._bell = bell
        self._wakeups = wakeups
        self._floors = Floors()
        self._last_claimed = 0

    async def add(self, jobs: Sequence[NewJob]) -> list[Added]:
        if not jobs:
            return []
        wake = self._bell.strike()
        now = await self._add_fresh(jobs, wake) if is_fresh(jobs) else None
        if now is not None and now < 0:
            self._bell.spared()
            return created(jobs, -now)
        if now is None:
            told = await self._database.value(self._queries.add, self._ns, *arrays(jobs), wake)
            added = answers(jobs, told)
            if not all(each.created for each in added):
                await self._assure()
        else:
            added = created(jobs, now)
        self._bell.struck(wake)
        return added

    async def _add_fresh(self, jobs: Sequence[NewJob], wake: str | None) -> int | None:
        """When they were added, negative if handed over; None if one of the ids is not so fresh."""
        try:
            if is_lone(jobs):
                query, args = self._queries.add_lone, lone(jobs[0])
            else:
                query, args = self._queries.add_fresh, tuple(fresh_arrays(jobs))
            now: int = await self._database.value(query, self._ns, *args, wake)
        except StoreError as error:
            if is_taken(error):
                return None
            raise
        return now

    async def tick(self, tick: Tick) -> Ticked:
        batch = Batch(tick.moves)
        want = tick.want
        wakes = may_wake(tick.moves)
        wake = self._bell.strike() if wakes else None
        standing = self._standing(tick)
        if any(move.events for move in tick.moves):
            query, standing = self._queries.tick_events, standing or _NOT_STANDING
        else:
            query = self._queries.tick_standing if standing else self._queries.tick
        rows = await self._database.rows(
            query,
            self._ns,
            tick.worker,
            tick.seq,
            *batch.plain,
            batch.moves,
            list(want.queues) if want else None,
            list(want.tasks) if want else None,
            want.limit if want else 0,
            want.lease if want else 0,
            tick.repeat,
            wake,
            *(self._floors.begin() if want else (None, None)),
            *standing,
            writes=True,
        )
        if tick.repeat:
            await self._assure()
        if wakes:
            self._bell.struck(wake)
        handed: list[JobRecord] = []
        stands = False
        if standing:
            stands = rows[-1][0] == STANDS
            handed = [claimed(row, tick.worker, 0, 0) for row in rows if row[0] == HANDED]
            rows = [row for row in rows if row[0] not in (STANDS, HANDED)]
            rows.sort(key=lambda row: row[0] or "")  # the answer last
        told, _, _, _, _, now, next_due, read, registered, *_ = rows.pop()
        answer = _decode_answer(told)
        if answer.freed:
            self._bell.struck(None)
        jobs: list[JobRecord] = []
        self._last_claimed = len(rows)
        if want is not None:
            jobs = [claimed(row, tick.worker, now, want.lease) for row in rows]
            jobs.sort(key=_place)
            if len(want.queues) > 1:
                turns = {queue: turn for turn, queue in enumerate(want.queues)}
                jobs.sort(key=lambda job: turns[job.queue])
            self._floors.learn(read, jobs, None if next_due == 0 else now)
        return Ticked(
            verdicts=batch.verdicts(answer.refused, answer.verdicts),
            claimed=[*handed, *jobs],
            cancel_asked=_asked(answer.asked, jobs),
            paused=frozenset(answer.paused),
            paused_tasks=frozenset(answer.paused_tasks or ()),
            next_due=next_due,
            registered=bool(registered),
            handed=len(handed),
            # Their tokens are the instant of their claim.
            handed_ago=max(0, now - min(job.token for job in handed)) if handed else None,
            stands=stands,
        )

    async def _assure(self) -> None:
        """Waits until a synchronous standby has what another call wrote, whose own wait may have been cut."""
        await self._database.value(self._queries.assure)

    def _standing(self, tick: Tick) -> tuple[object, ...]:
        """What says that a want stood or shall stand; empty if neither.

        None shall if the worker has enough to do, or whoever adds a job would pass too many entries to see
        that no other comes first.
        """
        stands = tick.want.stands if tick.want is not None else 0
        shall_stand = stands and self._last_claimed < BUSY and not self._floors.is_crowded
        ear, pid = self._wakeups.ear if shall_stand else (None, 0)
        return (tick.stood, stands, ear, pid) if ear is not None or tick.stood is not None else ()

    async def extend(self, worker: str, extensions: Sequence[Extension]) -> list[Held]:
        answers: list[Held] = []
        for some in _each_once(extensions):
            order = sorted(range(len(some)), key=lambda place: some[place].job)
            told = await self._database.value(
                self._queries.extend, self._ns, worker, *_wishes([some[place] for place in order])
            )
            held = dict(zip(order, told, strict=True))
            answers += [_HELD[held[place]] for place in range(len(some))]
        return answers

    async def expired(self, limit: int) -> list[JobRecord]:
        return [record(row) for row in await self._database.rows(self._queries.expired, self._ns, limit)]

    async def edit(self, job_id: str, version: int, edit: Edit) -> JobRecord | None:
        fits = [edit_source(edit.path)] if edit.path else list(EDITABLE)
        sent = {
            **msgspec.structs.asdict(edit),
            "job": job_id,
            "version": version,
            "from": [CODES[state] for state in fits if state is not None],
            "to": CODES[edit.path[-1]] if edit.path else None,
            "reason": clean(edit.reason),
        }
        wake = self._bell.strike()
        told = await self._database.value(self._queries.edit, self._ns, _encode(sent).decode(), wake)
        self._bell.struck(wake)
        if told is None:
            return None
        edited = _decode_edited(told)
        if edited.job is None:
            raise KeyConflict(f"key {edit.key or 'of the job'!r} is held by job {edited.held}")
        return edited.job.record()

    async def delete(self, job_id: str) -> bool:
        stay: int = await self._database.value(self._queries.forget, self._ns, [job_id])
        self._bell.struck(None)
        return stay == 0

    async def get(self, job_id: str) -> JobRecord | None:
        return (await self.states([job_id]))[0]

    async def states(self, job_ids: Sequence[str]) -> list[JobRecord | None]:
        if not job_ids:
            return []
        rows = await self._database.rows(self._queries.by_id, self._ns, list(job_ids))
        jobs = {job.id: job for job in map(record, rows)}
        return [jobs.get(job_id) for job_id in job_ids]

    async def find(self, query: Query) -> list[JobRecord]:
        sql, args = found(self._queries, query)
        return [record(row) for row in await self._database.search(sql, self._ns, *args)]

    async def count(self, most: int | None = None) -> list[QueueCount]:
        if most is None:
            return await count_all(self._database, self._queries, self._ns)
        return await count_some(self._database, self._queries, self._ns, most)

    async def history(self, job_id: str) -> list[AttemptRecord]:
        return [attempt(row) for row in await self._database.rows(self._queries.history, self._ns, job_id)]

    async def prune(self, older_than: int, limit: int) -> int:
        removed: int = await self._database.value(self._queries.prune, self._ns, older_than, limit)
        return removed


def _place(job: JobRecord) -> tuple[int, int, str]:
    return job.priority, rank_of(job), job.id


def _asked(held: list[tuple[str, int]] | None, claimed: list[JobRecord]) -> list[tuple[str, int]]:
    return sorted({*(held or ()), *((job.id, job.token) for job in claimed if job.cancel_asked)})


def _wishes(extensions: list[Extension]) -> list[list[Any]]:
    return [
        [extension.job for extension in extensions],
        [extension.token for extension in extensions],
        [extension.lease for extension in extensions],
        [extension.elapsed for extension in extensions],
        [extension.progress for extension in extensions],
        [clean(extension.progress_note) for extension in extensions],
    ]


def _each_once(extensions: Sequence[Extension]) -> list[list[Extension]]:
    """The wishes in as few parts as have no job twice: one, but for a caller that is unsure."""
    parts: list[list[Extension]] = []
    seen: set[str] = set()
    for extension in extensions:
        if not parts or extension.job in seen:
            parts.append([])
            seen.clear()
        parts[-1].append(extension)
        seen.add(extension.job)
    return parts
