"""What the end of a lease or of a job means for others that wait for it."""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from holdfast.model.flow import SEQUENCE
from holdfast.model.lifecycle import State
from holdfast.model.records import JobRecord
from holdfast.stores.sqlite.answers import reader
from holdfast.stores.sqlite.columns import CODES
from holdfast.stores.sqlite.feed import as_json
from holdfast.stores.sqlite.limits import KEY, QUEUE, TASK
from holdfast.stores.sqlite.transaction import Transaction

_HALTING = frozenset({CODES[State.DLQ], CODES[State.FAILED]})
_SUCCESS = CODES[State.SUCCESS]
_decode_told = reader(list[tuple[str, str, int]])


class Ended(NamedTuple):
    """A job that takes no room any more where it was; `state`, as it is stored, only if it is finished."""

    id: str
    queue: str
    task: str
    state: int | None
    limit_key: str | None
    sequence: str | None
    halts: int | None


decode_ended = reader(list[Ended])


def ended(record: JobRecord, state: State | None) -> Ended:
    flow = record.flow
    return Ended(
        record.id,
        record.queue,
        record.task,
        None if state is None else CODES[state],
        None if flow is None else flow.limit_key,
        None if flow is None else flow.sequence,
        1 if flow is not None and flow.halts else None,
    )


def settle(tx: Transaction, jobs: Sequence[Ended]) -> None:
    """Tells those who waited: gates, sequences, other jobs. Only where flows are in use."""
    if not jobs:
        return
    _halt(tx, jobs)
    mark(tx, {name for job in jobs for name in _gates(job)})
    _tell(tx, [(job.id, job.state) for job in jobs if job.state is not None])


def mark(tx: Transaction, gates: Iterable[str]) -> None:
    """Has the next claim look at the gates."""
    if tx.run("lines_mark", gates=as_json(sorted(gates))).rowcount:
        tx.wakes = True


def _gates(job: Ended) -> list[str]:
    names = [QUEUE + job.queue, TASK + job.task]
    if job.limit_key is not None:
        names.append(KEY + job.limit_key)
    if job.sequence is not None:
        names.append(SEQUENCE + job.sequence)
    return names


def _halt(tx: Transaction, jobs: Sequence[Ended]) -> None:
    in_order = [job for job in jobs if job.sequence is not None and job.state is not None]
    halting = [(job.sequence, job.id) for job in in_order if job.halts and job.state in _HALTING]
    others = [(job.sequence, job.id) for job in in_order if not (job.halts and job.state in _HALTING)]
    if others:
        tx.run("halts_end", rows=as_json(others))
    if halting:
        tx.run("halt", rows=as_json(halting))


def _tell(tx: Transaction, finished: list[tuple[str, int | None]]) -> None:
    """Ends the links to jobs that are finished, and lets go who waits no longer."""
    if not finished:
        return
    told = _decode_told(tx.row("links_told", rows=as_json(finished))[0])
    if not told:
        return
    tx.run("links_end", rows=as_json(told))
    unmet = Counter(waiter for waiter, _, state in told if state != _SUCCESS)
    if unmet:
        rows = as_json(list(unmet.items()))
        tx.run("links_unmet", rows=rows)
        tx.run("links_unmet_done", rows=rows)
    let_go(tx, {waiter for waiter, *_ in told})


def let_go(tx: Transaction, ids: Iterable[str]) -> None:
    """Those of the jobs that wait for others no longer wait for their turn now."""
    freed = tx.run("links_let_go", ids=as_json(sorted(ids))).rowcount
    tx.freed += freed
    tx.wakes = tx.wakes or freed > 0
