"""Jobs on their way in: as parallel arrays, or as JSON where the driver is not ours; and the answer."""

from collections.abc import Callable, Sequence
from typing import Any

import msgspec
from msgspec.structs import replace

from holdfast.model.flow import NO_FLOW, NewFlow, or_none
from holdfast.model.records import Added, NewJob, as_added
from holdfast.stores.postgres.rows import Told, to_hex


class Stood(msgspec.Struct):
    """What stood where the n-th job, counted from 1, was to be added."""

    n: int
    job: Told
    conflict: str | None = None


class Flowed(msgspec.Struct):
    """What only the server knows of the flow of the n-th job."""

    n: int
    rank: int | None
    unmet: int
    parked: str | None


class Answer(msgspec.Struct):
    """When the jobs were added, and which were not."""

    now: int
    stood: list[Stood] | None = None
    flows: list[Flowed] | None = None


_decode = msgspec.json.Decoder(Answer).decode
_encode = msgspec.json.encode


def is_fresh(jobs: Sequence[NewJob]) -> bool:
    """Whether the jobs can be stored without a look at what is there: nothing of theirs can be taken."""
    return all(job.fresh and job.key is None and job.flow is None for job in jobs)


def is_lone(jobs: Sequence[NewJob]) -> bool:
    """Whether this is one job of those, due at once: it may be handed to an idle worker."""
    return len(jobs) == 1 and jobs[0].due is None and not jobs[0].delay


def lone(job: NewJob) -> tuple[object, ...]:
    """The parameters of `add_lone` after the namespace."""
    tags = _tags(job) if job.tags else None
    head = (job.id, job.task, job.queue, job.payload, job.priority)
    return (*head, tags, job.lease, job.timeout, job.retry, job.headers)


def fresh_arrays(jobs: Sequence[NewJob]) -> list[list[Any] | None]:
    """The parameters of `add_fresh` after the namespace."""
    found: list[list[Any] | None] = [
        [job.id for job in jobs],
        _once([job.task for job in jobs]),
        _once([job.queue for job in jobs]),
        [job.payload for job in jobs],
        _once([job.priority for job in jobs]),
    ]
    return [*found, *([None] * 7 if all(map(_is_usual, jobs)) else [*_times(jobs), *_others(jobs)])]


def arrays(jobs: Sequence[NewJob]) -> list[list[Any] | None]:
    """The parameters of `add` after namespace and instant."""
    return [
        [job.id for job in jobs],
        [job.task for job in jobs],
        [job.queue for job in jobs],
        [job.payload for job in jobs],
        [job.priority for job in jobs],
        *_times(jobs),
        _unless_empty(jobs, lambda job: job.key),
        _unless_empty(jobs, lambda job: job.key_ttl or None),
        *_others(jobs),
        _unless_empty(jobs, lambda job: _flow(job.flow) if job.flow else None),
    ]


def _once(values: list[Any]) -> list[Any]:
    """One for all, if all are the same."""
    return values[:1] if values.count(values[0]) == len(values) else values


def _times(jobs: Sequence[NewJob]) -> list[list[Any] | None]:
    return [
        _unless_empty(jobs, lambda job: job.due),
        _unless_empty(jobs, lambda job: job.delay or None),
    ]


def _others(jobs: Sequence[NewJob]) -> list[list[Any] | None]:
    return [
        _unless_empty(jobs, lambda job: _tags(job) if job.tags else None),
        _unless_empty(jobs, lambda job: job.lease),
        _unless_empty(jobs, lambda job: job.timeout),
        _unless_empty(jobs, lambda job: job.retry),
        _unless_empty(jobs, lambda job: job.headers),
    ]


def _is_usual(job: NewJob) -> bool:
    return (
        job.due is None
        and not job.delay
        and not job.tags
        and job.lease is None
        and job.timeout is None
        and job.retry is None
        and job.headers is None
    )


def _unless_empty(jobs: Sequence[NewJob], field: Callable[[NewJob], Any]) -> list[Any] | None:
    found = [field(job) for job in jobs]
    return found if found.count(None) < len(found) else None  # says nothing


def _tags(job: NewJob) -> str:
    return _encode(job.tags).decode()


def _flow(flow: NewFlow) -> str:
    return _encode(flow_as_dict(flow)).decode()


def flow_as_dict(flow: NewFlow, *, joined: bool = False) -> dict[str, Any]:
    """What differs from a job without flow. One that is `joined` is part of a transaction that may last."""
    told = {name: value for name, value in msgspec.structs.asdict(flow).items() if _says(value)}
    return {**told, "joined": True} if joined else told


def _says(value: object) -> bool:
    return value is not None and value is not False and value != ()


def as_json(jobs: Sequence[NewJob], *, joined: bool = False) -> list[dict[str, Any]]:
    """The jobs for `add_json`."""
    return [
        {
            "id": job.id,
            "task": job.task,
            "queue": job.queue,
            "payload": to_hex(job.payload),
            "priority": job.priority,
            "due": job.due,
            "delay": job.delay,
            "key": job.key,
            "key_ttl": job.key_ttl,
            "tags": job.tags or None,
            "lease": job.lease,
            "timeout": job.timeout,
            "retry": to_hex(job.retry),
            "headers": to_hex(job.headers),
            "flow": flow_as_dict(job.flow, joined=joined) if job.flow else None,
        }
        for job in jobs
    ]


def created(jobs: Sequence[NewJob], now: int) -> list[Added]:
    """The answers for jobs that were all added at that instant."""
    return [_created(job, now) for job in jobs]


def answers(jobs: Sequence[NewJob], told: str) -> list[Added]:
    """One answer for each job from what the server told."""
    answer = _decode(told)
    if answer.stood is None and answer.flows is None:
        return created(jobs, answer.now)
    stood = {found.n: found for found in answer.stood or ()}
    added = [
        _created(job, answer.now) if n not in stood else _stood(stood[n])
        for n, job in enumerate(jobs, start=1)
    ]
    for known in answer.flows or ():
        record = added[known.n - 1].record
        flow = replace(record.flow or NO_FLOW, rank=known.rank, unmet=known.unmet, parked=known.parked)
        record.flow = or_none(flow)
    return added


def _stood(stood: Stood) -> Added:
    return Added(record=stood.job.record(), created=False, conflict=stood.conflict)


def _created(job: NewJob, now: int) -> Added:
    return Added(record=as_added(job, now), created=True)
