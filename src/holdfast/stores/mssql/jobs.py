"""The job operations: each one call of a stored procedure, or one query."""

from collections.abc import Sequence
from typing import Any

from holdfast.model.errors import KeyConflict
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
from holdfast.stores.mssql.adding import answers, as_dicts
from holdfast.stores.mssql.database import Database
from holdfast.stores.mssql.moving import Batch, verdicts
from holdfast.stores.mssql.queries import Queries, found
from holdfast.stores.mssql.rows import CODES, Bytes, as_json, attempt, listed, record, state_of
from holdfast.stores.mssql.texts import Texts, clean, stored, stored_or_none, told
from holdfast.stores.plain import may_wake

_HELD = {"h": Held.HELD, "c": Held.CANCEL_ASKED, "l": Held.LOST}
_QUEUE, _TASK = 1, 2


class MssqlJobs:
    """Jobs of one namespace."""

    def __init__(self, database: Database, queries: Queries, ns: int, bell: Bell) -> None:
        self._database = database
        self._queries = queries
        self._ns = ns
        self._bell = bell

    async def add(self, jobs: Sequence[NewJob]) -> list[Added]:
        if not jobs:
            return []
        held = Bytes()
        sent = as_json(as_dicts(jobs, held))
        added = await self._database.execute(self._queries.add, self._ns, sent, held.whole(), writes=True)
        self._bell.struck(None)
        return answers(jobs, added)

    async def tick(self, tick: Tick) -> Ticked:
        batch = Batch(tick.moves)
        want = tick.want
        claimed, asked, paused, [standing] = await self._database.execute(
            self._queries.tick,
            self._ns,
            stored(tick.worker),
            tick.seq,
            batch.moves,
            batch.bytes,
            batch.texts,
            listed(want.queues) if want else None,
            listed(want.tasks) if want else None,
            want.limit if want else 0,
            want.lease if want else 0,
            tick.repeat,
            writes=True,
            # Where no hint lets claims pass over each other's rows they come one after the other.
            persists=want is not None,
        )
        _, next_due, registered, letters, freed = standing
        if freed or may_wake(tick.moves):
            self._bell.struck(None)
        return Ticked(
            verdicts=verdicts(letters),
            claimed=[record(row) for row in claimed],
            cancel_asked=[(job, token) for job, token in asked],
            paused=frozenset(told(name) for kind, name in paused if kind == _QUEUE),
            paused_tasks=frozenset(told(name) for kind, name in paused if kind == _TASK),
            next_due=next_due,
            registered=bool(registered),
        )

    async def extend(self, worker: str, extensions: Sequence[Extension]) -> list[Held]:
        answers: list[Held] = []
        for some in _each_once(extensions):
            texts = Texts()
            wishes = as_json([_wish(n, extension, texts) for n, extension in enumerate(some)])
            rows = await self._database.rows(
                self._queries.extend, self._ns, stored(worker), wishes, texts.whole(), writes=True
            )
            answers += [_HELD[held] for _, held in rows]
        return answers

    async def expired(self, limit: int) -> list[JobRecord]:
        return [record(row) for row in await self._database.rows(self._queries.expired, limit, self._ns)]

    async def edit(self, job_id: str, version: int, edit: Edit) -> JobRecord | None:
        fits = [edit_source(edit.path)] if edit.path else list(EDITABLE)
        [[answer, holder]], *edited = await self._database.execute(
            self._queries.edit,
            self._ns,
            job_id,
            version,
            "".join(str(CODES[state]) for state in fits if state is not None),
            CODES[edit.path[-1]] if edit.path else None,
            stored_or_none(edit.queue),
            edit.priority,
            edit.due,
            edit.delay,
            None if edit.tags is None else listed(edit.tags),
            edit.failures,
            edit.lost,
            edit.suspect,
            clean(edit.reason),
            stored_or_none(edit.key),
            edit.key_ttl,
            edit.ask_cancel,
            writes=True,
        )
        if answer == "held":
            raise KeyConflict(f"key {edit.key or 'of the job'!r} is held by job {holder}")
        if answer == "unfit":
            return None
        self._bell.struck(None)
        [[row]] = edited
        return record(row)

    async def delete(self, job_id: str) -> bool:
        stays = await self._database.value(self._queries.forget, self._ns, job_id)
        self._bell.struck(None)
        return not stays

    async def get(self, job_id: str) -> JobRecord | None:
        return (await self.states([job_id]))[0]

    async def states(self, job_ids: Sequence[str]) -> list[JobRecord | None]:
        if not job_ids:
            return []
        rows = await self._database.rows(self._queries.by_id, self._ns, as_json(job_ids))
        jobs = {job.id: job for job in map(record, rows)}
        return [jobs.get(job_id) for job_id in job_ids]

    async def find(self, query: Query) -> list[JobRecord]:
        sql, args = found(self._queries, self._ns, query)
        return [record(row) for row in await self._database.rows(sql, *args)]

    async def count(self, most: int | None = None) -> list[QueueCount]:
        rows = await self._database.rows(self._queries.count, self._ns)
        return [
            QueueCount(queue=told(queue), state=state_of(state), count=count, due=due, parked=parked)
            for queue, state, count, due, parked in rows
        ]

    async def history(self, job_id: str) -> list[AttemptRecord]:
        return [attempt(row) for row in await self._database.rows(self._queries.history, self._ns, job_id)]

    async def prune(self, older_than: int, limit: int) -> int:
        removed: int = await self._database.value(self._queries.prune, self._ns, older_than, limit)
        return removed


def _wish(n: int, extension: Extension, texts: Texts) -> dict[str, Any]:
    return {
        "n": n,
        "job": extension.job,
        "token": extension.token,
        "lease": extension.lease,
        "elapsed": extension.elapsed,
        "progress": extension.progress,
        "note": texts.put(extension.progress_note),
    }


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
