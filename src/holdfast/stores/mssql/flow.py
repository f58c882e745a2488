"""What holds jobs back beside their due time."""

from collections.abc import Sequence

from holdfast.model.errors import StoreUnavailable
from holdfast.model.flow import Awaited, LimitRecord, Scope, Usage
from holdfast.model.lifecycle import State
from holdfast.stores.bell import Bell
from holdfast.stores.mssql.database import Database
from holdfast.stores.mssql.driver import Value
from holdfast.stores.mssql.queries import rendered
from holdfast.stores.mssql.rows import as_json, state_of
from holdfast.stores.mssql.texts import stored, told

_BEGIN_PUT = """
    DECLARE @ns int = ?;
    DECLARE @got bit;
    BEGIN TRANSACTION;
    EXEC holdfast.take_flow_v1 @ns, 'Exclusive', 1, @got OUTPUT;"""
_PUT = "IF @got = 1 EXEC holdfast.put_limit_v1 @ns, ?, ?, ?, ?, ?, ?, ?, ?, ?;"
_END_PUT = "COMMIT TRANSACTION; SELECT @got;"
_AT_ONCE = 200
_REMOVE = "EXEC holdfast.remove_limit_v1 ?, ?, ?"
_LIMITS = """
    SELECT scope, name, concurrency, rate, period, burst, paused, weight, declared, since
    FROM holdfast.limits WHERE ns = ?"""
_USAGE = """
    DECLARE @ns int = ?;
    SELECT
        CASE g.scope
            WHEN 'key' THEN (
                SELECT COUNT(*) FROM holdfast.job AS j
                WHERE j.ns = @ns AND j.limit_key = g.rest AND j.worker IS NOT NULL)
            WHEN 'sequence' THEN (
                SELECT COUNT(*) FROM holdfast.job AS j
                WHERE j.ns = @ns AND j.sequence = g.rest AND j.worker IS NOT NULL)
            WHEN 'queue' THEN (
                SELECT COUNT(*) FROM holdfast.job AS j
                WHERE j.ns = @ns AND j.queue = g.rest AND j.worker IS NOT NULL)
            WHEN 'task' THEN (
                SELECT COUNT(*) FROM holdfast.job AS j
                WHERE j.ns = @ns AND j.task = g.rest AND j.worker IS NOT NULL)
            ELSE 0 END,
        (SELECT COUNT(*) FROM holdfast.job AS j WHERE j.ns = @ns AND j.gate = g.name)
    FROM (
        SELECT
            o.n, o.scope, o.rest COLLATE Latin1_General_BIN2 AS rest,
            o.name COLLATE Latin1_General_BIN2 AS name
        FROM OPENJSON(?) WITH (
            n int '$.n', scope varchar(10) '$.scope', rest nvarchar(200) '$.rest', name nvarchar(220) '$.name'
        ) AS o
    ) AS g
    ORDER BY g.n"""
_AWAITED = """
    DECLARE @ns int = ?;
    DECLARE @job char(36) = ?;
    SELECT
        (SELECT COUNT(*) FROM holdfast.link AS l WHERE l.ns = @ns AND l.waiter = @job),
        (SELECT COUNT(*) FROM holdfast.link AS l WHERE l.ns = @ns AND l.waiter = @job AND l.state IS NULL),
        (SELECT COUNT(*) FROM holdfast.link AS l WHERE l.ns = @ns AND l.waiter = @job AND l.state <> 3),
        s.held
    FROM (
        SELECT j.held FROM holdfast.job AS j WHERE j.ns = @ns AND j.id = @job
        UNION ALL
        SELECT d.held FROM holdfast.done AS d WHERE d.ns = @ns AND d.id = @job
    ) AS s"""
_BEFORE = """
    SELECT TOP (?) job, state FROM holdfast.link
    WHERE ns = ? AND waiter = CAST(? AS char(36)) AND job > CAST(? AS char(36)) ORDER BY job"""
_RELEASE = "EXEC holdfast.release_v1 ?, ?"
_PROCEED = "EXEC holdfast.proceed_v1 ?, ?"
_HALTED = "SELECT sequence, job FROM holdfast.halt WHERE ns = ? ORDER BY sequence"
_OVERDUE = """
    DECLARE @now bigint = holdfast.now_v1();
    SELECT TOP (?) id FROM holdfast.job
    WHERE ns = ? AND expires <= @now AND expires IS NOT NULL AND run = 0 AND worker IS NULL
    ORDER BY expires, id"""


class MssqlFlow:
    """Limits, sequences and links of one namespace."""

    def __init__(self, database: Database, ns: int, bell: Bell) -> None:
        self._database = database
        self._ns = ns
        self._bell = bell

    async def put(self, limits: Sequence[LimitRecord]) -> None:
        for first in range(0, len(limits), _AT_ONCE):
            some = limits[first : first + _AT_ONCE]
            sql = "\n".join([_BEGIN_PUT, *[_PUT] * len(some), _END_PUT])
            await self._write_alone(sql, *(value for limit in some for value in _values(limit)))

    async def remove(self, scope: Scope, name: str) -> None:
        await self._write_alone(_REMOVE, scope.value, stored(name))

    async def limits(self) -> list[LimitRecord]:
        rows = await self._database.rows(self._sql(_LIMITS), self._ns)
        return sorted((_limit(*row) for row in rows), key=lambda limit: (limit.scope, limit.name))

    async def usage(self, gates: Sequence[str]) -> list[Usage]:
        asked = as_json([_as_dict(n, stored(gate)) for n, gate in enumerate(gates)])
        rows = await self._database.rows(self._sql(_USAGE), self._ns, asked)
        return [Usage(running=running, parked=parked) for running, parked in rows]

    async def awaited(self, job_id: str) -> Awaited | None:
        rows = await self._database.rows(self._sql(_AWAITED), self._ns, job_id)
        for total, pending, unmet, held in rows:
            return Awaited(total=total, pending=pending, unmet=unmet, held=bool(held))
        return None

    async def before(self, job_id: str, after: str | None, limit: int) -> list[tuple[str, State | None]]:
        rows = await self._database.rows(self._sql(_BEFORE), limit, self._ns, job_id, after or "")
        return [(job, None if state is None else state_of(state)) for job, state in rows]

    async def release(self, job_id: str) -> bool:
        is_stored = await self._database.value(self._sql(_RELEASE), self._ns, job_id)
        await self._bell.ring()
        return bool(is_stored)

    async def proceed(self, sequence: str) -> None:
        await self._write_alone(_PROCEED, stored(sequence))

    async def halted(self) -> dict[str, str]:
        rows = await self._database.rows(self._sql(_HALTED), self._ns)
        return {told(sequence): job for sequence, job in rows}

    async def overdue(self, limit: int) -> list[str]:
        rows = await self._database.rows(self._sql(_OVERDUE), limit, self._ns)
        return [job for (job,) in rows]

    async def _write_alone(self, sql: str, *parameters: Value) -> None:
        """Writes what all claims go by, while none is under way."""
        if not await self._database.value(self._sql(sql), self._ns, *parameters):
            raise StoreUnavailable(
                f"{self._database.address.place}: claims left no room for a change of what holds jobs back; "
                "nothing was written"
            )
        await self._bell.ring()

    def _sql(self, sql: str) -> str:
        return rendered(sql, self._database.address)


def _as_dict(n: int, gate: str) -> dict[str, object]:
    scope, _, rest = gate.partition(":")
    return {"n": n, "scope": scope, "rest": rest, "name": gate}


def _values(limit: LimitRecord) -> tuple[Value, ...]:
    return (
        limit.scope.value,
        stored(limit.name),
        limit.concurrency,
        limit.rate,
        limit.period,
        limit.burst,
        limit.paused,
        limit.weight,
        limit.declared,
    )


def _limit(
    scope: str,
    name: str,
    concurrency: int | None,
    rate: int | None,
    period: int,
    burst: int,
    paused: object,
    weight: float,
    declared: object,
    since: int | None,
) -> LimitRecord:
    return LimitRecord(
        scope=Scope(scope),
        name=told(name),
        concurrency=concurrency,
        rate=rate,
        period=period,
        burst=burst,
        paused=bool(paused),
        weight=weight,
        declared=bool(declared),
        paused_since=since,
    )
