"""What `add` does."""

from collections.abc import Sequence
from copy import copy

from holdfast.model.flow import Flow, or_none
from holdfast.model.records import Added, JobRecord, NewJob, as_added
from holdfast.stores.sqlite.answers import reader
from holdfast.stores.sqlite.feed import Run, as_json, feed
from holdfast.stores.sqlite.flowing import new_flows
from holdfast.stores.sqlite.keys import key_holder, take_key
from holdfast.stores.sqlite.ranking import Place, floors
from holdfast.stores.sqlite.transaction import Transaction

_decode_ids = reader(set[str])


def add(tx: Transaction, jobs: Sequence[NewJob]) -> list[Added]:
    """Stores jobs; one answer each. The usual batch, of which nothing is taken, goes in whole."""
    if not jobs:
        return []
    if all(map(_is_plain, jobs)):
        return _add_plain(tx, jobs)
    places = floors(tx, jobs)
    if _is_any_taken(tx, jobs):
        return [_add_one(tx, job, places) for job in jobs]
    flows = _insert_full(tx, jobs, places)
    keys = [(job.key, job.id, tx.now + job.key_ttl) for job in jobs if job.key is not None]
    if keys:
        tx.run("key_take_many", **feed(keys))
    return [_created(job, tx.now, flow) for job, flow in zip(jobs, flows, strict=True)]


def _is_plain(job: NewJob) -> bool:
    return (
        job.key is None
        and job.flow is None
        and not job.tags
        and job.headers is None
        and job.lease is None
        and job.timeout is None
        and job.retry is None
    )


def _add_plain(tx: Transaction, jobs: Sequence[NewJob]) -> list[Added]:
    run = Run()
    fed = feed([_row(job, tx.now, run) for job in jobs], run)
    last = _last(tx.run("add_bodies", **fed).lastrowid)
    first = last - len(jobs) + 1
    if tx.run("add_jobs", first=first, **fed).rowcount == len(jobs):
        return [_created(job, tx.now) for job in jobs]
    created = _decode_ids(tx.row("added", first=first, last=last)[0])
    tx.run("forget_unused_bodies", first=first, last=last)
    return _tell_apart(tx, jobs, created)


def _insert_full(tx: Transaction, jobs: Sequence[NewJob], floors: dict[Place, int]) -> list[Flow | None]:
    """Stores jobs of which none is taken; their flows as they then stand."""
    run = Run()
    rows = [
        (
            *_row(job, tx.now, run),
            *run.put(job.headers),
            *run.put(job.retry),
            job.key,
            as_json(job.tags) if job.tags else None,
            job.lease,
            job.timeout,
        )
        for job in jobs
    ]
    if all(job.flow is None for job in jobs):
        fed = feed(rows, run)
        last = _last(tx.run("add_full_bodies", **fed).lastrowid)
        tx.run("add_full_jobs", first=last - len(jobs) + 1, **fed)
        return [None] * len(jobs)
    stored = new_flows(tx, jobs, floors)
    fed = feed([(*row, *flow.columns(row[4])) for row, flow in zip(rows, stored, strict=True)], run)
    last = _last(tx.run("add_full_bodies", **fed).lastrowid)
    tx.run("add_flow_jobs", first=last - len(jobs) + 1, **fed)
    return [or_none(each.flow) for each in stored]


def _row(job: NewJob, now: int, run: Run) -> tuple[object, ...]:
    return (job.id, job.task, job.queue, job.priority, _due(job, now), *run.put(job.payload))


def _last(rowid: int | None) -> int:
    assert rowid is not None
    return rowid


def _tell_apart(tx: Transaction, jobs: Sequence[NewJob], created: set[str]) -> list[Added]:
    """The answers when only some of the batch were created; each id is created by its first job."""
    stored = tx.by_id([job.id for job in jobs])
    answers: list[Added] = []
    for job in jobs:
        if job.id in created:
            created.discard(job.id)
            answers.append(_created(job, tx.now))
        else:
            answers.append(_answer_id(job, stored[job.id]))
    return answers


def _is_any_taken(tx: Transaction, jobs: Sequence[NewJob]) -> bool:
    ids = [job.id for job in jobs]
    keys = [job.key for job in jobs if job.key is not None]
    if len(set(ids)) < len(ids) or len(set(keys)) < len(keys):
        return True
    return bool(tx.row("add_taken", ids=as_json(ids), keys=as_json(keys))[0])


def _add_one(tx: Transaction, job: NewJob, floors: dict[Place, int]) -> Added:
    stored = tx.by_id([job.id]).get(job.id)
    if stored is not None:
        return _answer_id(job, stored)
    if job.key is not None:
        holder = key_holder(tx, job.key)
        if holder is not None:
            same = holder.task == job.task and holder.payload == job.payload
            return Added(record=holder, created=False, conflict=None if same else "key")
        take_key(tx, job.key, job.id, tx.now + job.key_ttl)
    [flow] = _insert_full(tx, [job], floors)
    return _created(job, tx.now, flow)


def _answer_id(job: NewJob, stored: JobRecord) -> Added:
    same = stored.task == job.task and stored.queue == job.queue and stored.payload == job.payload
    return Added(record=copy(stored), created=False, conflict=None if same else "id")


def _created(job: NewJob, now: int, flow: Flow | None = None) -> Added:
    record = as_added(job, now)
    record.flow = flow
    return Added(record=record, created=True)


def _due(job: NewJob, now: int) -> int:
    return now + job.delay if job.due is None else job.due
