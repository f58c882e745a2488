"""What the moves of a tick do."""

from collections import Counter
from collections.abc import Sequence

from msgspec.structs import replace

from holdfast.model.events import NewEvent
from holdfast.model.lifecycle import FINISHED, WAITING, Ending, State, move_sources
from holdfast.model.records import AttemptRecord, JobRecord, Move, Verdict
from holdfast.stores.plain import is_plain
from holdfast.stores.sqlite.adding import add
from holdfast.stores.sqlite.answers import reader
from holdfast.stores.sqlite.appending import append
from holdfast.stores.sqlite.columns import CODES
from holdfast.stores.sqlite.feed import Run, as_json
from holdfast.stores.sqlite.rows import attempts
from holdfast.stores.sqlite.settling import Ended, decode_ended, ended, settle
from holdfast.stores.sqlite.transaction import Transaction
from holdfast.stores.sqlite.writing import Tally, record_attempts, rewrite

ID_LENGTH = 36
_ACCEPTED = Verdict.ACCEPTED
_REFUSED = Verdict.REFUSED
_decode_ids = reader(set[str])


def apply_moves(tx: Transaction, worker: str, moves: Sequence[Move]) -> list[Verdict]:
    """Applies moves in order; a verdict each.

    Plain successes, which are nearly all, are written together and never read; every other move has its job
    read, decided on, and written back.
    """
    if not moves:
        return []
    plain = _plain_successes(moves)
    completed: set[str] = _complete(tx, worker, list(plain.values())) if plain else set()
    rest = [move for move in moves if move.job not in completed]
    if not rest:
        append(tx, [event for move in moves for event in move.events])
        return [_ACCEPTED] * len(moves)
    sheet = Sheet(tx, worker, rest)
    verdicts = [sheet.note(move) if move.job in completed else sheet.apply(move) for move in moves]
    sheet.write()
    return verdicts


def _plain_successes(moves: Sequence[Move]) -> dict[str, Move]:
    """The moves, by job, that may be written without being looked at, and in any order."""
    if any(child.key or child.flow for move in moves for child in move.children):
        # Whether the key is free, and what the child has to wait for, may depend on which moves came before.
        return {}
    plain = {move.job: move for move in moves if _is_plain(move)}
    if len(plain) < len(moves):
        for job, count in Counter(move.job for move in moves).items():
            if count > 1:
                plain.pop(job, None)
    return plain


def _is_plain(move: Move) -> bool:
    """Also its id is one that takes a fixed place, and it tells when it began. Events are appended apart."""
    bare = replace(move, events=()) if move.events else move
    return is_plain(bare) and move.elapsed is not None and len(move.job) == ID_LENGTH and move.job.isascii()


def _complete(tx: Transaction, worker: str, moves: list[Move]) -> set[str]:
    """Records plain successes; the jobs of those that were accepted."""
    run = Run()
    rows = b"".join([_row(move, run) for move in moves])
    tokens = as_json([move.token for move in moves])
    statement = "complete:flow" if tx.knows_flows else "complete"
    cursor = tx.run(statement, tokens=tokens, moves=rows, long=run.joined(), worker=worker)
    count, last = cursor.rowcount, cursor.lastrowid
    if not count:
        return set()
    tx.run("tally_completed", last=last, count=count)
    tx.run("forget_completed", last=last, count=count)
    if tx.knows_flows:
        settle(tx, decode_ended(tx.row("completed_flow", last=last, count=count)[0]))
    if count == len(moves):
        return {move.job for move in moves}
    return _decode_ids(tx.row("completed", last=last, count=count)[0])


def _row(move: Move, run: Run) -> bytes:
    """The move as the statement takes it apart; a length of -1 is no result."""
    offset, length = run.put(move.result)
    return b"%b%020d%012d%012d" % (
        move.job.encode(),
        move.elapsed or 0,
        offset or 0,
        -1 if length is None else length,
    )


class Sheet:
    """The jobs of some moves, read together, changed one after the other, and written back together."""

    def __init__(self, tx: Transaction, worker: str, moves: Sequence[Move]) -> None:
        self._tx = tx
        self._worker = worker
        self._records = tx.by_id(list({move.job for move in moves}))
        pairs = as_json([(move.job, move.token) for move in moves if move.outcome is not None])
        self._attempts = {
            (attempt.job, attempt.token): (attempt, closer)
            for name in ("attempts_by_token", "folded_by_token")
            for attempt, closer in attempts(tx.row(name, pairs=pairs)[0])
        }
        self._ended: dict[tuple[str, int], None] = {}
        self._started: dict[str, JobRecord] = {}
        self._rewritten: dict[str, JobRecord] = {}
        self._events: list[NewEvent] = []
        self._uses_flows = tx.uses_flows()
        self._settled: list[Ended] = []
        self._tally = Tally()

    def note(self, move: Move) -> Verdict:
        """Takes over the events of a move that was made elsewhere, in their place among the others."""
        self._events += move.events
        return _ACCEPTED

    def apply(self, move: Move) -> Verdict:
        record = self._records.get(move.job)
        if record is None:
            return _REFUSED
        now = self._tx.now
        ends = move.outcome is not None
        expired = record.lease_until is not None and record.lease_until <= now
        if (
            record.token == move.token
            and record.state in move_sources(move.path, ends)
            and (expired if move.if_expired else record.worker == self._worker)
            and (ends or not expired)
        ):
            self._follow(record, move)
            return _ACCEPTED
        return self._answer_late(record, move)

    def _follow(self, record: JobRecord, move: Move) -> None:
        now = self._tx.now
        record.state = move.path[-1]
        record.version += 1
        if record.started is None and move.elapsed is not None:
            record.started = now - move.elapsed
        if move.outcome is None:
            if record.started is None:
                record.started = now
            self._started[record.id] = record
        else:
            self._end_attempt(record, move, move.outcome)
            if record.state in WAITING and move.delay is not None:
                record.due = now + move.delay
            elif record.state in FINISHED:
                record.finished = now
            self._tally.count(record.queue, record.state, 1)
            self._started.pop(record.id, None)
            self._rewritten[record.id] = record
        self._events += move.events
        if move.children:
            self.write()
            self._add_children(move)
        if move.outcome is not None and self._uses_flows:
            self._settled.append(ended(record, record.state if record.state in FINISHED else None))

    def _end_attempt(self, record: JobRecord, move: Move, outcome: Ending) -> None:
        attempt = AttemptRecord(
            job=record.id,
            run=record.run,
            token=record.token,
            worker=record.worker or self._worker,
            started=record.started,
            finished=self._tx.now,
            outcome=outcome,
            reason=move.reason,
            error=move.error,
        )
        self._attempts[record.id, record.token] = (attempt, self._worker)
        self._ended[record.id, record.token] = None
        record.worker = record.lease_until = None
        record.failures = move.failures
        record.lost = move.lost
        record.suspect = move.suspect
        record.reason = move.reason
        record.error = move.error
        record.result = move.result

    def _add_children(self, move: Move) -> None:
        add(self._tx, move.children)

    def _answer_late(self, record: JobRecord, move: Move) -> Verdict:
        """The verdict on a move that no longer applies: a repeat is accepted, a late one is remembered."""
        worker = self._worker
        if move.outcome is None:
            is_held = record.token == move.token and record.worker == worker
            stands = is_held and record.state is State.RUNNING and bool(move_sources(move.path, False))
            return _ACCEPTED if stands else _REFUSED
        known = self._attempts.get((record.id, move.token))
        if known is None:
            return _REFUSED
        attempt, closer = known
        told = Ending.LOST if attempt.outcome is Ending.SUPERSEDED else attempt.outcome
        if told is move.outcome and closer == worker:
            return _ACCEPTED
        if told is Ending.LOST and attempt.worker == worker and not move.if_expired:
            self._attempts[record.id, move.token] = (replace(attempt, outcome=Ending.SUPERSEDED), closer)
            self._ended[record.id, move.token] = None
        return _REFUSED

    def write(self) -> None:
        """Writes what has changed since the last time."""
        tx = self._tx
        for record in self._started.values():
            tx.run(
                "start",
                id=record.id,
                state=CODES[record.state],
                version=record.version,
                started=record.started,
            )
        rewrite(tx, list(self._rewritten.values()), were_finished=False)
        record_attempts(tx, [self._attempts[pair] for pair in self._ended])
        self._tally.write(tx)
        append(tx, self._events)
        settle(tx, self._settled)
        self._settled.clear()
        self._started.clear()
        self._rewritten.clear()
        self._ended.clear()
        self._events.clear()
