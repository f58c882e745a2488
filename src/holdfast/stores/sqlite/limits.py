"""Limits as they stand: which gates a job has, and what holds it back there."""

from collections.abc import Iterable, Sequence
from secrets import randbits
from typing import NamedTuple

from holdfast.model.flow import LimitRecord, Scope, gate
from holdfast.model.records import Want
from holdfast.stores.sqlite.answers import text
from holdfast.stores.sqlite.transaction import Transaction

QUEUE, TASK, KEY = f"{Scope.QUEUE}:", f"{Scope.TASK}:", f"{Scope.KEY}:"
"""How the names of gates begin."""

_EACH_KEY = f"{Scope.EACH_KEY}:"
_REMEMBERED = 64
_MOST_GATES = 10_000


class Limits:
    """All limits of a namespace. Never changed: what is put makes others."""

    def __init__(self, records: Sequence[LimitRecord] = ()) -> None:
        self.records = records
        self._of = {gate(record.scope, record.name): record for record in records}
        holding = [record for record in records if record.holds_back]
        self.of_places = [record for record in holding if record.scope in (Scope.QUEUE, Scope.TASK)]
        self.of_keys = [record for record in holding if record.scope in (Scope.KEY, Scope.EACH_KEY)]
        self._gates: dict[tuple[str, str, str | None], list[tuple[str, LimitRecord]]] = {}

    def of_gate(self, name: str, task: str) -> LimitRecord | None:
        """The limit of a gate for jobs of a task, if it can hold them back."""
        limit = self._of.get(name)
        if limit is None and name.startswith(KEY):
            limit = self._of.get(_EACH_KEY + task)
        return limit if limit is not None and limit.holds_back else None

    def gates(self, queue: str, task: str, key: str | None) -> list[tuple[str, LimitRecord]]:
        """The gates of a job that can hold it back."""
        if not self.of_keys:
            key = None
        found = self._gates.get((queue, task, key))
        if found is None:
            names = [QUEUE + queue, TASK + task, *([] if key is None else [KEY + key])]
            limits = ((name, self.of_gate(name, task)) for name in names)
            found = [(name, limit) for name, limit in limits if limit is not None]
            if len(self._gates) >= _MOST_GATES:
                self._gates.clear()
            self._gates[queue, task, key] = found
        return found

    def may_hold(self, want: Want) -> bool:
        """Whether any can hold back jobs that are wanted."""
        names = {Scope.QUEUE: frozenset(want.queues), Scope.TASK: want.tasks, Scope.EACH_KEY: want.tasks}
        return any(
            limit.scope is Scope.KEY or limit.name in names[limit.scope]
            for limit in (*self.of_places, *self.of_keys)
        )

    def weight(self, key: str) -> float:
        limit = self._of.get(KEY + key)
        return 1.0 if limit is None else limit.weight


class Standing(NamedTuple):
    """What a namespace has of flows: its limits, and whether it ever had a sequence."""

    limits: Limits
    has_sequences: bool


_NONE = Limits()
_known: dict[int, Limits] = {}


def standing(tx: Transaction) -> Standing:
    """As it is in this transaction; limits are read only if they have changed."""
    row = tx.run("flow_mark").fetchone()
    if row is None:
        return Standing(_NONE, has_sequences=False)
    mark, turn = row
    if not mark:
        return Standing(_NONE, turn > 0)
    limits = _known.get(mark)
    if limits is None:
        limits = Limits(read_limits(tx))
        if len(_known) >= _REMEMBERED:
            _known.clear()
        _known[mark] = limits
    return Standing(limits, turn > 0)


def read_limits(tx: Transaction) -> list[LimitRecord]:
    return [
        LimitRecord(
            scope=Scope(text(scope)),
            name=text(name),
            concurrency=concurrency,
            rate=rate,
            period=period,
            burst=burst,
            paused=paused != 0,
            weight=weight,
            declared=declared != 0,
            paused_since=since,
        )
        for scope, name, concurrency, rate, period, burst, paused, weight, declared, since in tx.run(
            "limits"
        ).fetchall()
    ]


def put_limits(tx: Transaction, limits: Iterable[LimitRecord]) -> list[LimitRecord]:
    """Writes limits; those that were not kept out by one that was set."""
    put = [
        limit
        for limit in limits
        if tx.run(
            "limit_put",
            scope=limit.scope,
            name=limit.name,
            concurrency=limit.concurrency,
            rate=limit.rate,
            period=limit.period,
            burst=limit.burst,
            paused=int(limit.paused),
            weight=float(limit.weight),
            declared=int(limit.declared),
        ).rowcount
        > 0
    ]
    note_change(tx)
    return put


def note_change(tx: Transaction) -> None:
    """The limits are others now, under a mark that none had before, not even one that was rolled back."""
    tx.begin_flow()
    tx.run("flow_changed", mark=randbits(62) + 1)
