"""What holds jobs back beside their due time."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from holdfast.model.flow import Awaited, LimitRecord, Scope, Usage
from holdfast.model.lifecycle import State
from holdfast.stores.bell import Bell
from holdfast.stores.postgres.database import Database
from holdfast.stores.postgres.queries import Queries
from holdfast.stores.postgres.rows import state_of

_encode = msgspec.json.encode


class PostgresFlow:
    """Limits, sequences and links of one namespace."""

    def __init__(self, database: Database, queries: Queries, ns: int, bell: Bell) -> None:
        self._database = database
        self._queries = queries
        self._ns = ns
        self._bell = bell

    async def put(self, limits: Sequence[LimitRecord]) -> None:
        if limits:
            told = _encode(limits).decode()
            await self._database.value(self._queries.put_limits, self._ns, told)
            await self._bell.ring()

    async def remove(self, scope: Scope, name: str) -> None:
        await self._database.value(self._queries.remove_limit, self._ns, scope, name)
        await self._bell.ring()

    async def limits(self) -> list[LimitRecord]:
        return [_limit(*row) for row in await self._database.rows(self._queries.limits, self._ns)]

    async def usage(self, gates: Sequence[str]) -> list[Usage]:
        rows = await self._database.rows(self._queries.usage, self._ns, list(gates))
        return [Usage(running=running, parked=parked) for running, parked in rows]

    async def awaited(self, job_id: str) -> Awaited | None:
        rows = await self._database.rows(self._queries.awaited, self._ns, job_id)
        for total, pending, unmet, held in rows:
            return Awaited(total=total, pending=pending, unmet=unmet, held=held)
        return None

    async def before(self, job_id: str, after: str | None, limit: int) -> list[tuple[str, State | None]]:
        rows = await self._database.rows(self._queries.before, self._ns, job_id, after, limit)
        return [(str(job), None if state is None else state_of(state)) for job, state in rows]

    async def release(self, job_id: str) -> bool:
        is_stored: bool = await self._database.value(self._queries.release, self._ns, job_id)
        await self._bell.ring()
        return is_stored

    async def proceed(self, sequence: str) -> None:
        await self._database.value(self._queries.proceed, self._ns, sequence)
        await self._bell.ring()

    async def halted(self) -> dict[str, str]:
        rows = await self._database.rows(self._queries.halted, self._ns)
        return {sequence: str(job) for sequence, job in rows}

    async def overdue(self, limit: int) -> list[str]:
        rows = await self._database.rows(self._queries.overdue, self._ns, limit)
        return [str(row[0]) for row in rows]


def _limit(
    scope: str,
    name: str,
    concurrency: int | None,
    rate: int | None,
    period: int,
    burst: int,
    paused: bool,
    weight: float,
    declared: bool,
    since: int | None,
) -> LimitRecord:
    return LimitRecord(
        scope=Scope(scope),
        name=name,
        concurrency=concurrency,
        rate=rate,
        period=period,
        burst=burst,
        paused=paused,
        weight=weight,
        declared=declared,
        paused_since=since,
    )
