"""What a tick does besides its moves: it claims, and tells the worker how things stand."""

from functools import lru_cache
from typing import Any

import msgspec

from holdfast.model.lifecycle import WAITING
from holdfast.model.records import JobRecord, Tick, Ticked, Verdict, Want
from holdfast.stores.sqlite.answers import reader
from holdfast.stores.sqlite.feed import as_json
from holdfast.stores.sqlite.fresh import fresh_records
from holdfast.stores.sqlite.limits import standing
from holdfast.stores.sqlite.moving import apply_moves
from holdfast.stores.sqlite.parking import Claim, open_lines
from holdfast.stores.sqlite.rows import WIDTH, Answer, Unreadable
from holdfast.stores.sqlite.transaction import Transaction


class Situation(msgspec.Struct, array_like=True):
    """How things stand for a worker; `next_due` and `opens` are instants, and may have passed."""

    paused: list[str]
    asked: list[tuple[str, int]]
    registered: int
    next_due: int | None
    opens: int | None
    paused_tasks: list[str]
    uses_flows: int

    @property
    def next_look(self) -> int | None:
        """When a job is due or a gate opens."""
        if self.next_due is None or self.opens is None:
            return self.next_due if self.opens is None else self.opens
        return min(self.next_due, self.opens)

    def told(self, tx: Transaction, tick: Tick, verdicts: list[Verdict], claimed: list[JobRecord]) -> Ticked:
        want, due = tick.want, self.next_look
        return Ticked(
            verdicts=verdicts,
            claimed=claimed,
            cancel_asked=self.asked,
            paused=frozenset(self.paused).intersection(want.queues if want else ()),
            next_due=None if want is None or due is None else max(0, due - tx.now),
            registered=self.registered != 0,
            paused_tasks=want.tasks.intersection(self.paused_tasks) if want else frozenset(),
        )


_decode_ids = reader(set[str])
_decode_situation = reader(Situation)


def tick(tx: Transaction, tick: Tick, *, is_new: bool) -> Ticked:
    """Moves, then claims. `is_new` says that this worker cannot hold anything by this seq yet."""
    verdicts = apply_moves(tx, tick.worker, tick.moves)
    parameters = _asking(tick)
    if tick.want is None:
        return _decode_situation(tx.row("situation_alone", **parameters)[0]).told(tx, tick, verdicts, [])
    before: set[str] = set()
    if not is_new:
        before = _decode_ids(tx.row("held_by_tick", **parameters)[0])
    gives_back = tick.repeat and bool(before)
    tx.run("promote", **parameters)
    knew_flows = tx.knows_flows
    is_through = gives_back or _claim(tx, tick.want, parameters)
    claimed, situation = _answer(tx, tick.worker, parameters, is_new=is_new)
    if situation.uses_flows and not knew_flows and not gives_back:
        # Nothing was claimed: the first one to notice does it the other way.
        tx.note_flows()
        is_through = _claim(tx, tick.want, parameters)
        claimed, situation = _answer(tx, tick.worker, parameters, is_new=is_new)
    if before and not gives_back:
        claimed = [record for record in claimed if record.id not in before]
    _sort(claimed, tick.want)
    # Who claims at once what is free makes no work for others.
    tx.wakes = tx.freed > len(claimed) or (situation.opens is not None and situation.opens <= tx.now)
    told = situation.told(tx, tick, verdicts, claimed)
    if not is_through:
        told.next_due = 0
    return told


def _answer(
    tx: Transaction, worker: str, parameters: dict[str, Any], *, is_new: bool
) -> tuple[list[JobRecord], Situation]:
    """What the tick has claimed, and how things stand."""
    if is_new:
        claimed, more = _fresh(tx, worker, parameters)
    else:
        claimed, more = tx.jobs_and_more("answer", **parameters)
    if more is None:
        more = tx.row("situation_alone", **parameters)
    return claimed, _decode_situation(more[0])


def _asking(tick: Tick) -> dict[str, Any]:
    """The parameters of a tick's statements."""
    want = tick.want
    return {
        "worker": tick.worker,
        "seq": tick.seq,
        "queues": as_json(want.queues if want else ()),
        "tasks": _task_names(want.tasks) if want else "[]",
    }


@lru_cache(maxsize=64)
def _task_names(tasks: frozenset[str]) -> str:
    return as_json(sorted(tasks))


def _claim(tx: Transaction, want: Want, parameters: dict[str, Any]) -> bool:
    """Whether all that might have been claimed was looked at."""
    if not tx.knows_flows:
        _take_first(tx, want, parameters, "claim")
        return True
    lines = open_lines(tx, parameters["worker"])
    if lines is None:
        return True
    flow = standing(tx)
    if flow.has_sequences or flow.limits.may_hold(want):
        return Claim(tx, want, parameters, flow).make(lines)
    if lines:
        Claim(tx, want, parameters, flow).open(lines)
    _take_first(tx, want, parameters, "claim:flow")
    return True


def _take_first(tx: Transaction, want: Want, parameters: dict[str, Any], name: str) -> None:
    queues = tuple(dict.fromkeys(want.queues))
    if queues and want.limit > 0:
        named = {f"queue{place}": queue for place, queue in enumerate(queues)}
        limits = {"limit": want.limit, "lease": want.lease}
        tx.run_statement(tx.sql.claim(len(queues), name), {**parameters, **named, **limits})


def _fresh(tx: Transaction, worker: str, parameters: dict[str, Any]) -> tuple[list[JobRecord], Answer | None]:
    """What was just claimed, and the situation; None in its place if some had to be salvaged."""
    try:
        answer = tx.row("claimed:flow" if tx.knows_flows else "claimed", **parameters)
        return fresh_records(answer, worker), answer[WIDTH:]
    except Unreadable:
        return tx.jobs("answer", **parameters), None


def _sort(claimed: list[JobRecord], want: Want) -> None:
    """Into the order in which they were chosen, which SQLite does not promise to keep."""
    turns = {queue: turn for turn, queue in reversed(list(enumerate(want.queues)))}
    claimed.sort(key=lambda record: (turns.get(record.queue, 0), record.priority, _rank(record), record.id))


def _rank(record: JobRecord) -> int:
    return record.due if record.flow is None or record.flow.rank is None else record.flow.rank


def may_wake(tick: Tick) -> bool:
    """Whether others may have something to do after the tick."""
    return any(move.children or move.events or not WAITING.isdisjoint(move.path[-1:]) for move in tick.moves)


def peek(tx: Transaction, tick: Tick) -> Ticked | None:
    """The answer to a tick without moves, if there is nothing to claim; None if the tick must be made."""
    told, is_ready = tx.row("peek", **_asking(tick))
    situation = _decode_situation(told)
    due = situation.next_look
    if (situation.registered and is_ready) or (due is not None and due <= tx.now):
        return None
    return situation.told(tx, tick, [], [])
