"""Claims where something may hold jobs back: what may pass is taken, and what may not is parked."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from typing import Any, TypeAlias

import msgspec

from holdfast.model.flow import SEQUENCE, LimitRecord, gate
from holdfast.model.records import Want
from holdfast.stores.sqlite.answers import reader
from holdfast.stores.sqlite.feed import as_json
from holdfast.stores.sqlite.ledger import MOST, Ledger
from holdfast.stores.sqlite.limits import KEY, QUEUE, TASK, Standing
from holdfast.stores.sqlite.transaction import Transaction

_MOST_SPARE = 64
_MORE = 8

Line: TypeAlias = tuple[str, str, str]
"""Gate, queue and task."""


class Candidate(msgspec.Struct, array_like=True, gc=False):
    """A ready job that may be claimed if nothing holds it back."""

    pk: int
    task: str
    key: str | None
    sequence: str | None


_decode_lines = reader(list[Line])
_decode_candidates = reader(list[Candidate])
_decode_turns = reader(list[tuple[int | None, int]])


class Claim:
    """One claim under way.

    `lined` are gates at which jobs are parked. `spare` tells of a gate how many more of its ready jobs may be
    parked elsewhere before others must take their place, so that none is passed over that comes first.
    """

    def __init__(self, tx: Transaction, want: Want, parameters: dict[str, Any], flow: Standing) -> None:
        self._tx = tx
        self._want = want
        self._parameters = {**parameters, "lease": want.lease}
        self._limits = flow.limits
        self._has_sequences = flow.has_sequences
        self._ledger = Ledger(tx, flow.limits)
        self._turns: dict[str, int | None] = {}
        self._lined: set[str] = set()
        self._spare: Counter[str] = Counter()
        self._steps: Counter[str] = Counter()
        self._left = want.limit
        self._looks = want.limit + MOST

    def make(self, lines: list[Line]) -> bool:
        """Takes what may pass, after the lines were opened; whether all was looked at."""
        self.open(lines)
        if len(self._limits.of_places) and (len(self._limits.of_keys) or self._has_sequences):
            self._note_lines(gate(limit.scope, limit.name) for limit in self._limits.of_places)
        for queue in dict.fromkeys(self._want.queues):
            page = self._left + _MORE
            while self._left > 0 and self._looks > 0:
                page = min(page, self._looks)
                found = self._candidates(queue, page)
                if self._go_through(queue, found) and len(found) < page:
                    break
                page *= 2
        self._ledger.write()
        return self._looks > 0

    def _candidates(self, queue: str, page: int) -> list[Candidate]:
        found = _decode_candidates(self._tx.row("candidates", queue=queue, page=page, **self._parameters)[0])
        if self._limits.of_keys:
            fresh = self._ledger.learn_keys(each.key for each in found if each.key is not None)
            if fresh and (self._limits.of_places or self._has_sequences):
                self._note_lines(KEY + key for key in fresh)
        sequences = {each.sequence for each in found if each.sequence is not None} - self._turns.keys()
        if sequences:
            asked = sorted(sequences)
            turns = _decode_turns(self._tx.row("sequences_next", sequences=as_json(asked))[0])
            for sequence, (pk, is_leased) in zip(asked, turns, strict=True):
                self._turns[sequence] = None if is_leased else pk
        return found

    def _note_lines(self, gates: Iterable[str]) -> None:
        self._lined.update(line[0] for line in self._lines_of(gates))

    def _lines_of(self, gates: Iterable[str]) -> list[Line]:
        return _decode_lines(self._tx.row("lines_of", gates=as_json(list(gates)))[0])

    def _go_through(self, queue: str, found: Sequence[Candidate]) -> bool:
        """Takes and parks; False if it stopped because jobs were freed that may come before the rest."""
        taken: list[int] = []
        parked: list[tuple[int, str]] = []
        lines: dict[Line, int | None] = {}
        reopened: list[str] = []
        for each in found:
            if len(taken) == self._left or reopened:
                break
            self._looks -= 1
            gates = self._limits.gates(queue, each.task, each.key)
            held = self._hindrance(each, gates)
            if held is None:
                taken.append(each.pk)
                self._ledger.pass_through(gates, each.key)
                if each.sequence is not None:
                    self._turns[each.sequence] = None
                continue
            name, limit = held
            parked.append((each.pk, name))
            lines[name, queue, each.task] = None if limit is None else self._ledger.opens(name, limit)
            self._lined.add(name)
            if not name.startswith((QUEUE, TASK)):
                # Else all in its lines elsewhere are held back there too; who was let go keeps the room.
                reopened = [other for other, its in gates if other != name and self._needs_more(other, its)]
        self._left -= len(taken)
        self._write(taken, parked, lines)
        if reopened:
            for name in reopened:
                # Twice as many each time, so that a long line is not gone through job by job.
                self._steps[name] = min(self._steps[name] * 2 or 2, _MOST_SPARE)
            self.open(self._lines_of(reopened))
        return not reopened

    def _hindrance(
        self, each: Candidate, gates: list[tuple[str, LimitRecord]]
    ) -> tuple[str, LimitRecord | None] | None:
        """The gate that does not let the job through now, and its limit."""
        if each.sequence is not None and self._turns[each.sequence] != each.pk:
            return SEQUENCE + each.sequence, None
        for name, limit in gates:
            if self._ledger.room(name, limit) <= 0:
                return name, limit
        return None

    def _needs_more(self, name: str, limit: LimitRecord) -> bool:
        """Whether others must be let go at the gate, now that a job that it let go is held back elsewhere."""
        if name not in self._lined or self._ledger.room(name, limit) <= 0:
            return False
        self._spare[name] -= 1
        return self._spare[name] < 0

    def _write(self, taken: list[int], parked: list[tuple[int, str]], lines: dict[Line, int | None]) -> None:
        if taken:
            self._tx.run("take", taken=as_json(taken), **self._parameters)
        if parked:
            self._tx.run("park", rows=as_json(parked))
            self._tx.run("lines_add", rows=as_json([(*line, opens) for line, opens in lines.items()]))

    def open(self, lines: Sequence[Line]) -> None:
        """Frees the first jobs of lines that have room, and some more where that was not enough before."""
        if not lines:
            return
        self._ledger.learn_keys(name.removeprefix(KEY) for name, *_ in lines if name.startswith(KEY))
        freed: defaultdict[int, list[Line]] = defaultdict(list)
        settled: list[tuple[str, str, str, int | None]] = []
        sequences: set[str] = set()
        for line in lines:
            name, _, task = line
            if name.startswith(SEQUENCE):
                sequences.add(name.removeprefix(SEQUENCE))
                settled.append((*line, None))
                continue
            limit = self._limits.of_gate(name, task)
            room = MOST if limit is None else self._ledger.room(name, limit)
            if room > 0:
                freed[min(room + self._steps[name], MOST)].append(line)
                self._spare[name] = self._steps[name]
            settled.append((*line, 0 if limit is None else self._ledger.opens(name, limit)))
        if sequences:
            self._tx.freed += self._tx.run("turns_free", sequences=as_json(sorted(sequences))).rowcount
        for room, some in freed.items():
            self._tx.freed += self._tx.run("lines_free", lines=as_json(some), room=room).rowcount
        rows = as_json(settled)
        self._tx.run("lines_settle", rows=rows)
        self._tx.run("lines_forget", rows=rows)


def open_lines(tx: Transaction, worker: str) -> list[Line] | None:
    """The lines that are to be looked at; None if the worker may not claim."""
    is_registered, lines = tx.row("lines_open", worker=worker, most=MOST)
    return _decode_lines(lines) if is_registered else None
