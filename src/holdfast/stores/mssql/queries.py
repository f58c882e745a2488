"""The statements that are sent for jobs, with the names that they have in one database."""

import re
from dataclasses import dataclass, fields
from functools import lru_cache
from typing import Any

from holdfast.model.lifecycle import FINISHED
from holdfast.model.records import Query
from holdfast.stores.mssql.address import Address
from holdfast.stores.mssql.rows import CODES
from holdfast.stores.mssql.texts import stored

_OURS = re.compile(r"\bholdfast\.")
_USUAL = "holdfast"


def rendered(sql: str, address: Address) -> str:
    """The statement with the schema of this place, whose name may be a word of the language."""
    return sql if address.schema == _USUAL else _OURS.sub(f"[{address.schema}].", sql)


@dataclass(frozen=True, slots=True)
class Queries:
    """What each operation sends. Parameters are in the order of the procedures."""

    namespace: str = "DECLARE @id int; EXEC holdfast.namespace_v1 ?, @id OUTPUT; SELECT @id"
    add: str = "EXEC holdfast.add_v1 ?, ?, ?"
    tick: str = "EXEC holdfast.tick_v1 ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?"
    extend: str = "EXEC holdfast.extend_v1 ?, ?, ?, ?"
    edit: str = "EXEC holdfast.edit_v1 ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?"
    forget: str = "EXEC holdfast.forget_v1 ?, ?"
    prune: str = "EXEC holdfast.prune_v1 ?, ?, ?"
    by_id: str = """SELECT * FROM holdfast.jobs
        WHERE ns = ? AND id IN (
            SELECT i.id COLLATE Latin1_General_BIN2 FROM OPENJSON(?) WITH (id char(36) '$') AS i)"""
    expired: str = """SELECT TOP (?) * FROM holdfast.live
        WHERE ns = ? AND worker IS NOT NULL AND lease_until <= holdfast.now_v1() ORDER BY lease_until, id"""
    history: str = """SELECT job, run, token, worker, started, finished, outcome, reason, error
        FROM holdfast.attempt WHERE ns = ? AND job = CAST(? AS char(36)) ORDER BY token"""
    count: str = """DECLARE @ns int = ?;
        DECLARE @now bigint = holdfast.now_v1();
        SELECT queue, state, SUM(jobs), SUM(due), SUM(parked) FROM (
            SELECT queue, state, COUNT_BIG(*) AS jobs,
                SUM(CASE WHEN ready = 1 OR (ready = 0 AND due <= @now) THEN 1 ELSE 0 END) AS due,
                SUM(CASE WHEN gate IS NOT NULL THEN 1 ELSE 0 END) AS parked
            FROM holdfast.job WHERE ns = @ns AND worker IS NULL GROUP BY queue, state
            UNION ALL
            SELECT queue, state, COUNT_BIG(*), 0, 0
            FROM holdfast.live WHERE ns = @ns AND worker IS NOT NULL GROUP BY queue, state
            UNION ALL
            SELECT queue, state, jobs, 0, 0 FROM holdfast.tally WHERE ns = @ns
        ) AS counted GROUP BY queue, state HAVING SUM(jobs) <> 0 ORDER BY queue, state"""
    find: str = """SELECT TOP (?) * FROM holdfast.{source} WHERE ns = ?{conditions}
        ORDER BY id DESC"""


@lru_cache(maxsize=32)
def queries(address: Address) -> Queries:
    """The statements for one place."""
    plain = Queries()
    return Queries(**{one.name: rendered(getattr(plain, one.name), address) for one in fields(plain)})


def found(known: Queries, ns: int, query: Query) -> tuple[str, list[Any]]:
    """The statement for a search, and its parameters."""
    args: list[Any] = [query.limit, ns]
    conditions = ""

    def add(condition: str, value: Any) -> None:
        nonlocal conditions
        args.append(value)
        conditions += f" AND {condition}"

    if query.states:
        conditions = f" AND state IN ({', '.join(sorted(str(CODES[state]) for state in query.states))})"
    if query.queue is not None:
        add("queue = ?", stored(query.queue))
    if query.task is not None:
        add("task = ?", stored(query.task))
    if query.tag is not None:
        add(
            "EXISTS (SELECT 1 FROM OPENJSON(tags) WHERE value COLLATE Latin1_General_BIN2 = ?)",
            stored(query.tag),
        )
    if query.worker is not None:
        add("worker = ?", stored(query.worker))
    if query.due_after is not None:
        add("due >= ?", query.due_after)
    if query.due_before is not None:
        add("due < ?", query.due_before)
    if query.cursor is not None:
        add("id < CAST(? AS char(36))", query.cursor)
    return known.find.format(source=_source(query), conditions=conditions), args


def _source(query: Query) -> str:
    """Which table has all that is searched for."""
    if query.worker is not None or (query.states and FINISHED.isdisjoint(query.states)):
        return "live"
    return "finished" if query.states and FINISHED.issuperset(query.states) else "jobs"
