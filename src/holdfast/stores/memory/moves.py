"""What a tick does to a shelf: moves, and claims. Called with the store's lock held."""

from msgspec.structs import replace

from holdfast.model.lifecycle import FINISHED, WAITING, Ending, State, move_sources
from holdfast.model.records import AttemptRecord, JobRecord, Move, Verdict
from holdfast.stores.memory.shelf import Shelf

_ACCEPTED = Verdict.ACCEPTED
_REFUSED = Verdict.REFUSED


def apply_move(shelf: Shelf, worker: str, move: Move, now: int) -> Verdict:
    record = shelf.jobs.get(move.job)
    if record is None:
        return _REFUSED
    ends = move.outcome is not None
    if (
        record.token == move.token
        and record.state in move_sources(move.path, ends)
        and (_has_expired(record, now) if move.if_expired else record.worker == worker)
        and (ends or not _has_expired(record, now))
    ):
        _follow(shelf, record, worker, move, now)
        return _ACCEPTED
    return _answer_late(shelf, record, worker, move)


def _has_expired(record: JobRecord, now: int) -> bool:
    return record.lease_until is not None and record.lease_until <= now


def _follow(shelf: Shelf, record: JobRecord, worker: str, move: Move, now: int) -> None:
    state = move.path[-1]
    lane = shelf.lanes[record.queue]
    lane.counts[record.state] -= 1
    lane.counts[state] += 1
    record.state = state
    record.version += 1
    if record.started is None and move.elapsed is not None:
        record.started = now - move.elapsed
    if move.outcome is None:
        if record.started is None:
            record.started = now
    else:
        _end_attempt(shelf, record, worker, move, move.outcome, now)
        if state in WAITING:
            if move.delay is not None:
                record.due = now + move.delay
            shelf.wait(lane, record, now)
        elif state in FINISHED:
            shelf.note_finish(record, now)
    shelf.add(move.children, now)
    if state in FINISHED:
        shelf.tell_waiting(record, now)
    elif move.outcome is not None:
        shelf.call_next(record, now)
    shelf.events.append(move.events, now)


def _end_attempt(shelf: Shelf, record: JobRecord, worker: str, move: Move, outcome: Ending, now: int) -> None:
    holder = record.worker or worker
    attempt = AttemptRecord(
        job=record.id,
        run=record.run,
        token=record.token,
        worker=holder,
        started=record.started,
        finished=now,
        outcome=outcome,
        reason=move.reason,
        error=move.error,
    )
    shelf.attempts[record.id] = (*shelf.attempts.get(record.id, ()), attempt)
    if holder != worker:
        shelf.closers.setdefault(record.id, {})[record.token] = worker
    shelf.end_lease(record)
    record.failures = move.failures
    record.lost = move.lost
    record.suspect = move.suspect
    record.reason = move.reason
    record.error = move.error
    record.result = move.result


def _answer_late(shelf: Shelf, record: JobRecord, worker: str, move: Move) -> Verdict:
    """The verdict on a move that no longer applies: a repeat is accepted, a late one is remembered."""
    if move.outcome is None:
        is_held = record.token == move.token and record.worker == worker
        stands = is_held and record.state is State.RUNNING and bool(move_sources(move.path, False))
        return _ACCEPTED if stands else _REFUSED
    attempts = shelf.attempts.get(record.id, ())
    attempt = next((past for past in attempts if past.token == move.token), None)
    if attempt is None:
        return _REFUSED
    told = Ending.LOST if attempt.outcome is Ending.SUPERSEDED else attempt.outcome
    if told is move.outcome and shelf.closers.get(record.id, {}).get(move.token, attempt.worker) == worker:
        return _ACCEPTED
    if told is Ending.LOST and attempt.worker == worker and not move.if_expired:
        superseded = replace(attempt, outcome=Ending.SUPERSEDED)
        shelf.attempts[record.id] = tuple(superseded if past is attempt else past for past in attempts)
    return _REFUSED
