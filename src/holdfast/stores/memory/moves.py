"""What a tick does to a shelf: moves, and claims. Called with the store's lock held."""

from heapq import heapify, heappop, heapreplace

from msgspec.structs import replace

from holdfast.model.lifecycle import FINISHED, WAITING, Ending, State, move_sources
from holdfast.model.records import AttemptRecord, JobRecord, Move, Verdict, Want
from holdfast.stores.memory.shelf import Shelf, copied

_CLAIMED = State.CLAIMED
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
    for child in move.children:
        shelf.add(child, now)
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


def claim(shelf: Shelf, worker: str, seq: int, want: Want, now: int) -> list[JobRecord]:
    """Gives ready jobs to the worker; copies, so that what it does with them changes nothing here."""
    claimed: list[JobRecord] = []
    for queue in want.queues:
        lane = shelf.lanes.get(queue)
        if lane is None or lane.paused or len(claimed) >= want.limit:
            continue
        fronts = [
            (first, task, line)
            for task, line in lane.lines.items()
            if task in want.tasks and (first := line.first()) is not None
        ]
        heapify(fronts)
        while fronts and len(claimed) < want.limit:
            entry, task, line = fronts[0]
            following = line.drop_first()
            if following is not None:
                heapreplace(fronts, (following, task, line))
            else:
                heappop(fronts)
            record = shelf.take(entry)
            if record is not None:
                lane.due[record.state] -= 1
                lane.counts[record.state] -= 1
                lane.counts[_CLAIMED] += 1
                shelf.leases[record.id] = seq
                _lease(record, worker, want.lease, now)
                if record.cancel_asked:
                    shelf.note_ask(record)
                claimed.append(copied(record))
    return claimed


def _lease(record: JobRecord, worker: str, lease: int, now: int) -> None:
    record.state = _CLAIMED
    record.run += 1
    record.version += 1
    record.token = max(record.token + 1, now)
    record.worker = worker
    record.lease_until = now + (lease if record.lease is None else record.lease)
    record.started = None
    record.reason = None
    record.progress = None
    record.progress_note = None
