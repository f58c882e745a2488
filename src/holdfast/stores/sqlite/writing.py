"""Changes written in batches: to jobs, to attempts, to the tally."""

from collections import Counter
from collections.abc import Iterable, Sequence

from holdfast.model.lifecycle import FINISHED, State
from holdfast.model.records import AttemptRecord, JobRecord
from holdfast.stores.sqlite.columns import CHANGED_TEXTS, CODES
from holdfast.stores.sqlite.feed import Run, as_json, feed
from holdfast.stores.sqlite.transaction import Transaction


def rewrite(tx: Transaction, records: Sequence[JobRecord], *, were_finished: bool) -> None:
    """Writes changed jobs, which hold no lease now, and puts each where its state belongs."""
    live = [record for record in records if record.state not in FINISHED]
    done = [record for record in records if record.state in FINISHED]
    _write(tx, "change_done" if were_finished else "finish", done)
    _write(tx, "revive" if were_finished else "change_live", live)
    moved = live if were_finished else done
    if moved:
        statement = "forget_done" if were_finished else "forget_live"
        tx.run(statement, ids=as_json([record.id for record in moved]))


def _write(tx: Transaction, statement: str, records: list[JobRecord]) -> None:
    if records:
        run = Run()
        tx.run(statement, **feed([_packed(record, run) for record in records], run))


def _packed(record: JobRecord, run: Run) -> tuple[object, ...]:
    """The row in the order of CHANGED."""
    return (
        record.id,
        CODES[record.state],
        record.queue,
        record.priority,
        record.due,
        record.failures,
        record.lost,
        int(record.suspect),
        record.version,
        record.started,
        record.finished,
        int(record.cancel_asked),
        record.key,
        as_json(record.tags) if record.tags else None,
        *(place for name in CHANGED_TEXTS for place in run.put(getattr(record, name))),
        *run.put(record.result),
    )


def forget(tx: Transaction, ids: Sequence[str]) -> None:
    """Removes jobs with their history, but not their keys."""
    listed = as_json(ids)
    for statement in ("forget_bodies", "forget_live", "forget_done", "forget_attempts"):
        tx.run(statement, ids=listed)


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
        tx.run("record_attempts", **feed(rows, run))


class Tally:
    """Changes to the number of finished jobs."""

    def __init__(self) -> None:
        self._changes: Counter[tuple[str, State]] = Counter()

    def count(self, queue: str, state: State, change: int) -> None:
        if state in FINISHED:
            self._changes[queue, state] += change

    def write(self, tx: Transaction) -> None:
        rows = [(queue, CODES[state], change) for (queue, state), change in self._changes.items() if change]
        self._changes.clear()
        if rows:
            tx.run("tally", **feed(rows))
