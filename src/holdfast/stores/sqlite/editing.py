"""What `edit`, `delete` and `prune` do."""

from msgspec.structs import replace

from holdfast.model.errors import KeyConflict
from holdfast.model.flow import AFTER, or_none
from holdfast.model.lifecycle import EDITABLE, FINISHED, LEASED, WAITING, State, edit_source
from holdfast.model.records import Edit, JobRecord
from holdfast.stores.sqlite.answers import reader
from holdfast.stores.sqlite.columns import CODES, STATES
from holdfast.stores.sqlite.feed import as_json
from holdfast.stores.sqlite.keys import key_holder, release_key, take_key
from holdfast.stores.sqlite.ranking import forget_ranks
from holdfast.stores.sqlite.settling import Ended, decode_ended, ended, settle
from holdfast.stores.sqlite.transaction import Transaction
from holdfast.stores.sqlite.writing import Tally, forget, rewrite

_decode_rows = reader(list[tuple[str, str, int, str | None]])


def edit(tx: Transaction, job_id: str, version: int, edit: Edit) -> JobRecord | None:
    """Applies an edit; None, and nothing is changed, if version or state do not fit."""
    record = tx.by_id([job_id]).get(job_id)
    if record is None or record.version != version:
        return None
    if edit.ask_cancel:
        return _ask_cancel(tx, record)
    state = record.state
    if state not in EDITABLE if not edit.path else state is not edit_source(edit.path):
        return None
    target = edit.path[-1] if edit.path else state
    is_replayed = state in FINISHED and target not in FINISHED
    _take_key(tx, record, edit, is_replayed=is_replayed)
    replaced, finishes = ended(record, None), target in FINISHED and state not in FINISHED
    tally = Tally()
    tally.count(record.queue, state, -1)
    _set_fields(record, edit, tx.now)
    record.version += 1
    record.state = target
    if is_replayed:
        record.finished = record.result = None
        record.cancel_asked = False
    elif finishes:
        record.finished = tx.now
    tally.count(record.queue, target, 1)
    tally.write(tx)
    rewrite(tx, [record], were_finished=state in FINISHED)
    if tx.uses_flows():
        settle(tx, [replaced._replace(state=CODES[target] if finishes else None)])
        if record.flow is not None:
            parked = AFTER if target in WAITING and record.flow.parked == AFTER else None
            record.flow = or_none(replace(record.flow, parked=parked))
    return record


def _ask_cancel(tx: Transaction, record: JobRecord) -> JobRecord | None:
    if record.state not in LEASED:
        return None
    tx.run("ask_cancel", id=record.id, version=record.version)
    record.cancel_asked = True
    record.version += 1
    return record


def _take_key(tx: Transaction, record: JobRecord, edit: Edit, *, is_replayed: bool) -> None:
    """Gives the job the key that it asks for, or its own back when it becomes live again."""
    key = edit.key or (record.key if is_replayed else None)
    if key is None:
        return
    holder = key_holder(tx, key)
    if holder is not None and holder.id != record.id:
        raise KeyConflict(f"key {key!r} is held by job {holder.id}")
    if edit.key is not None:
        release_key(tx, record)
        take_key(tx, key, record.id, tx.now + edit.key_ttl)
        record.key = key
    elif holder is None:
        take_key(tx, key, record.id, 0)


def _set_fields(record: JobRecord, edit: Edit, now: int) -> None:
    for name in ("queue", "priority", "tags", "failures", "lost", "suspect", "reason"):
        value = getattr(edit, name)
        if value is not None:
            setattr(record, name, value)
    if edit.due is not None:
        record.due = edit.due
    elif edit.delay is not None:
        record.due = now + edit.delay


def delete(tx: Transaction, job_id: str) -> bool:
    """Removes a job with all that is kept beside it; False if it is leased."""
    record = tx.by_id([job_id]).get(job_id)
    if record is None:
        return True
    if record.state in LEASED:
        return False
    tally = Tally()
    tally.count(record.queue, record.state, -1)
    tally.write(tx)
    release_key(tx, record)
    forget(tx, [job_id])
    if tx.uses_flows():
        _forget_flows(tx, [ended(record, State.CANCELLED)])
    return True


def prune(tx: Transaction, older_than: int, limit: int) -> int:
    """Removes what finished long ago, oldest first; how many."""
    rows = _decode_rows(tx.row("prunable", before=tx.now - older_than, limit=max(0, limit))[0])
    uses_flows = tx.uses_flows()
    if uses_flows:
        forget_ranks(tx, limit)
        tx.run("rates_forget")
    if not rows:
        return 0
    gone = _gone(tx, [row[0] for row in rows]) if uses_flows else []
    tally = Tally()
    for _, queue, state, _ in rows:
        tally.count(queue, STATES[state], -1)
    tally.write(tx)
    tx.run("forget_keys", pairs=as_json([(key, job_id) for job_id, _, _, key in rows if key is not None]))
    forget(tx, [row[0] for row in rows])
    if uses_flows:
        _forget_flows(tx, gone)
    return len(rows)


def _gone(tx: Transaction, ids: list[str]) -> list[Ended]:
    return decode_ended(tx.row("ended_by_id", ids=as_json(ids))[0])


def _forget_flows(tx: Transaction, gone: list[Ended]) -> None:
    """Jobs were removed: what waited for them waits no longer, as if they had been cancelled."""
    tx.run("links_forget", ids=as_json([job.id for job in gone]))
    settle(tx, gone)
