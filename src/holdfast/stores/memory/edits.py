"""What an edit does to a job. Called with the store's lock held."""

from holdfast.model.errors import KeyConflict
from holdfast.model.lifecycle import EDITABLE, FINISHED, LEASED, WAITING, edit_source
from holdfast.model.records import Edit, JobRecord
from holdfast.stores.memory.shelf import Shelf


def apply_edit(shelf: Shelf, record: JobRecord, edit: Edit, now: int) -> bool:
    """False, and nothing is changed, if the job's state does not fit."""
    if edit.ask_cancel:
        return _ask_cancel(shelf, record)
    state = record.state
    if state not in EDITABLE if not edit.path else state is not edit_source(edit.path):
        return False
    target = edit.path[-1] if edit.path else state
    is_replayed = state in FINISHED and target not in FINISHED
    _take_key(shelf, record, edit, is_replayed, now)
    if state in WAITING:
        shelf.withdraw(shelf.lanes[record.queue], record)
    shelf.lanes[record.queue].counts[state] -= 1
    _set_fields(record, edit, now)
    record.version += 1
    record.state = target
    lane = shelf.lane(record.queue)
    lane.counts[target] += 1
    if is_replayed:
        record.finished = record.result = None
        record.cancel_asked = False
        if record.flow is not None and record.flow.sequence is not None:
            shelf.limits.sequences.add(record.flow.sequence, record.id)
    elif target in FINISHED and state not in FINISHED:
        shelf.note_finish(record, now)
        shelf.tell_waiting(record, now)
    if target in WAITING:
        shelf.wait(lane, record, now)
    return True


def _ask_cancel(shelf: Shelf, record: JobRecord) -> bool:
    if record.state not in LEASED:
        return False
    record.cancel_asked = True
    record.version += 1
    shelf.note_ask(record)
    return True


def _take_key(shelf: Shelf, record: JobRecord, edit: Edit, is_replayed: bool, now: int) -> None:
    """Gives the job the key that it asks for, or its own back when it becomes live again."""
    key = edit.key or (record.key if is_replayed else None)
    if key is None:
        return
    holder = shelf.key_holder(key, now)
    if holder is not None and holder is not record:
        raise KeyConflict(f"key {key!r} is held by job {holder.id}")
    if edit.key is not None:
        shelf.release_key(record)
        shelf.keys[key] = (record.id, now + edit.key_ttl)
        record.key = key
    elif holder is None:
        shelf.keys[key] = (record.id, 0)


def _set_fields(record: JobRecord, edit: Edit, now: int) -> None:
    if edit.queue is not None:
        record.queue = edit.queue
    if edit.priority is not None:
        record.priority = edit.priority
    if edit.due is not None:
        record.due = edit.due
    elif edit.delay is not None:
        record.due = now + edit.delay
    if edit.tags is not None:
        record.tags = edit.tags
    if edit.failures is not None:
        record.failures = edit.failures
    if edit.lost is not None:
        record.lost = edit.lost
    if edit.suspect is not None:
        record.suspect = edit.suspect
    if edit.reason is not None:
        record.reason = edit.reason
