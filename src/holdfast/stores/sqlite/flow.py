"""What holds jobs back beside their due time."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.model.flow import SEQUENCE, Awaited, LimitRecord, Scope, Usage, gate, same, target
from holdfast.model.lifecycle import State
from holdfast.stores.sqlite.answers import reader
from holdfast.stores.sqlite.columns import STATES
from holdfast.stores.sqlite.database import Database
from holdfast.stores.sqlite.feed import as_json
from holdfast.stores.sqlite.limits import note_change, put_limits, read_limits
from holdfast.stores.sqlite.settling import let_go, mark
from holdfast.stores.sqlite.transaction import Transaction

_decode_usage = reader(list[tuple[int, int]])
_decode_ids = reader(list[str])
_decode_halts = reader(list[tuple[str, str]])
_decode_before = reader(list[tuple[str, int | None]])


class SqliteFlow:
    """Limits, sequences and links of one namespace."""

    def __init__(self, database: Database, ns: int) -> None:
        self._database = database
        self._ns = ns

    async def put(self, limits: Sequence[LimitRecord]) -> None:
        if limits:
            await self._database.write(self._ns, lambda tx: _put(tx, limits), wakes=True)

    async def swap(self, known: LimitRecord | None, limit: LimitRecord | None) -> bool:
        return await self._database.write(self._ns, lambda tx: _swap(tx, known, limit), wakes=True)

    async def remove(self, scope: Scope, name: str) -> None:
        await self._database.write(self._ns, lambda tx: _remove(tx, scope, name), wakes=True)

    async def limits(self) -> list[LimitRecord]:
        return await self._database.read(self._ns, read_limits)

    async def usage(self, gates: Sequence[str]) -> list[Usage]:
        return await self._database.read(self._ns, lambda tx: _usage(tx, gates))

    async def awaited(self, job_id: str) -> Awaited | None:
        return await self._database.read(self._ns, lambda tx: _awaited(tx, job_id))

    async def before(self, job_id: str, after: str | None, limit: int) -> list[tuple[str, State | None]]:
        return await self._database.read(self._ns, lambda tx: _before(tx, job_id, after, limit))

    async def release(self, job_id: str) -> bool:
        return await self._database.write(self._ns, lambda tx: _release(tx, job_id))

    async def held(self, after: str | None, limit: int) -> list[str]:
        def work(tx: Transaction) -> list[str]:
            return _decode_ids(tx.row("jobs_held", after=after or "", limit=max(0, limit))[0])

        return await self._database.read(self._ns, work)

    async def proceed(self, sequence: str) -> None:
        await self._database.write(self._ns, lambda tx: _proceed(tx, sequence))

    async def halted(self) -> dict[str, str]:
        return await self._database.read(self._ns, lambda tx: dict(_decode_halts(tx.row("halts")[0])))

    async def overdue(self, limit: int) -> list[str]:
        def work(tx: Transaction) -> list[str]:
            return _decode_ids(tx.row("overdue", limit=max(0, limit))[0])

        return await self._database.read(self._ns, work)


def _put(tx: Transaction, limits: Sequence[LimitRecord]) -> None:
    for limit in put_limits(tx, limits):
        _mark_gates(tx, limit.scope, limit.name)


def _swap(tx: Transaction, known: LimitRecord | None, limit: LimitRecord | None) -> bool:
    scope, name = target(known, limit)
    stands = next((each for each in read_limits(tx) if (each.scope, each.name) == (scope, name)), None)
    if same(stands, limit):
        return True
    if not same(stands, known):
        return False
    if limit is None:
        _remove(tx, scope, name)
    else:
        # Any limit may take the place of one that is declared.
        tx.run("limit_yield", scope=scope, name=name)
        _put(tx, [limit])
    return True


def _remove(tx: Transaction, scope: Scope, name: str) -> None:
    if tx.run("limit_remove", scope=scope, name=name).rowcount:
        note_change(tx)
        _mark_gates(tx, scope, name)


def _mark_gates(tx: Transaction, scope: Scope, name: str) -> None:
    """Has the next claim look at the gates whose limit it is."""
    if scope is Scope.EACH_KEY:
        tx.run("lines_mark_keys")
    else:
        mark(tx, [gate(scope, name)])


def _usage(tx: Transaction, gates: Sequence[str]) -> list[Usage]:
    asked = [(*name.partition(":")[::2], name) for name in gates]
    rows = _decode_usage(tx.row("usage", gates=as_json(asked))[0])
    return [Usage(running=running, parked=parked) for running, parked in rows]


def _is_stored(tx: Transaction, job_id: str) -> bool:
    return bool(tx.by_id([job_id]))


def _awaited(tx: Transaction, job_id: str) -> Awaited | None:
    if not _is_stored(tx, job_id):
        return None
    total, pending, unmet, held = tx.row("links_awaited", job=job_id)
    return Awaited(total=total, pending=pending, unmet=unmet, held=held > 0)


def _before(tx: Transaction, job_id: str, after: str | None, limit: int) -> list[tuple[str, State | None]]:
    rows = _decode_before(tx.row("links_before", job=job_id, after=after or "", limit=max(0, limit))[0])
    return [(other, None if state is None else STATES[state]) for other, state in rows]


def _release(tx: Transaction, job_id: str) -> bool:
    if not _is_stored(tx, job_id):
        return False
    tx.run("links_release", job=job_id)
    let_go(tx, [job_id])
    return True


def _proceed(tx: Transaction, sequence: str) -> None:
    tx.run("proceed", sequence=sequence)
    mark(tx, [SEQUENCE + sequence])
