"""Rows written in batches: jobs, attempts, keys and tallies."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence

from holdfast.model.lifecycle import FINISHED, State
from holdfast.model.records import AttemptRecord, JobRecord
from holdfast.stores.sqlite.columns import CODES, INSERTED, LONG, LONG_TEXT
from holdfast.stores.sqlite.feed import Run, as_json, feed
from holdfast.stores.sqlite.transaction import Transaction


def insert(tx: Transaction, records: Sequence[JobRecord]) -> None:
    """Inserts jobs that hold no lease, each where its state belongs. Their ids must be free."""
    live = [record for record in records if record.state not in FINISHED]
    done = [record for record in records if record.state in FINISHED]
    for statement, some in (("insert_live", live), ("insert_done", done)):
        if some:
            run = Run()
            tx.run(statement, **feed([_packed(record, run) for record in some], run))


def _packed(record: JobRecord, run: Run) -> list[object]:
    row = [_PACKERS[name](record) if name in _PACKERS else getattr(record, name) for name in INSERTED]
    for name in (*LONG_TEXT, *LONG):
        row += run.put(getattr(record, name))
    return row


_PACKERS: dict[str, Callable[[JobRecord], object]] = {
    "state": lambda record: CODES[record.state],
    "suspect": lambda record: int(record.suspect),
    "cancel_asked": lambda record: int(record.cancel_asked),
    "tags": lambda record: as_json(record.tags) if record.tags else None,
    # As text, because SQLite's JSON keeps fewer digits than a float has.
    "progress": lambda record: None if record.progress is None else repr(record.progress),
}


def forget(tx: Transaction, ids: Sequence[str]) -> None:
    """Removes the rows of jobs, and nothing else of them."""
    listed = as_json(ids)
    tx.run("forget_live", ids=listed)
    tx.run("forget_done", ids=listed)


def record_attempts(tx: Transaction, ended: Iterable[tuple[AttemptRecord, str]]) -> None:
    """Writes ended attempts with who closed them; of one that stands there only the outcome is changed."""
    run = Run()
    rows = [
        (
            attempt.job,
            attempt.token,
            attempt.run,
            attempt.worker,
            closer if closer != attempt.worker else None,
            attempt.started,
            attempt.finished,
            attempt.outcome,
            *run.put(attempt.reason),
            *run.put(attempt.error),
        )
        for attempt, closer in ended
    ]
    if rows:
        tx.run("insert_attempts", **feed(rows, run))


class Tally:
    """Changes to the number of finished jobs."""

    def __init__(self) -> None:
        self._changes: Counter[tuple[str, State]] = Counter()

    def count(self, record: JobRecord, change: int) -> None:
        if record.state in FINISHED:
            self._changes[record.queue, record.state] += change

    def write(self, tx: Transaction) -> None:
        rows = [(queue, CODES[state], change) for (queue, state), change in self._changes.items() if change]
        self._changes.clear()
        if rows:
            tx.run("tally", **feed(rows))
