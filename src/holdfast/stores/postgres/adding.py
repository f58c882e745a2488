"""Jobs on their way in: as parallel arrays, or as JSON where the driver is not ours; and the answer."""

from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from holdfast.model.records import Added, NewJob, as_added
from holdfast.stores.postgres.rows import Told, to_hex


class Stood(msgspec.Struct):
    """What stood where the n-th job, counted from 1, was to be added."""

    n: int
    job: Told
    conflict: str | None = None


class Answer(msgspec.Struct):
    """When the jobs were added, and which were not."""

    now: int
    stood: list[Stood] | None = None


_decode = msgspec.json.Decoder(Answer).decode
_encode = msgspec.json.encode


def arrays(jobs: Sequence[NewJob]) -> list[list[Any] | None]:
    """The parameters of `add` after namespace and instant; None for an array that says nothing."""
    usual: list[list[Any] | None] = [
        [job.id for job in jobs],
        [job.task for job in jobs],
        [job.queue for job in jobs],
        [job.payload for job in jobs],
        [job.priority for job in jobs],
    ]
    if all(map(_is_usual, jobs)):
        return [*usual, *[None] * 9]
    return [
        *usual,
        _unless_empty(jobs, lambda job: job.due),
        _unless_empty(jobs, lambda job: job.delay or None),
        _unless_empty(jobs, lambda job: job.key),
        _unless_empty(jobs, lambda job: job.key_ttl or None),
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
        and job.key is None
        and not job.tags
        and job.lease is None
        and job.timeout is None
        and job.retry is None
        and job.headers is None
    )


def _unless_empty(jobs: Sequence[NewJob], field: Callable[[NewJob], Any]) -> list[Any] | None:
    found = [field(job) for job in jobs]
    return found if found.count(None) < len(found) else None


def _tags(job: NewJob) -> str:
    return _encode(job.tags).decode()


def as_json(jobs: Sequence[NewJob]) -> list[dict[str, Any]]:
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
        }
        for job in jobs
    ]


def answers(jobs: Sequence[NewJob], told: str) -> list[Added]:
    """One answer for each job from what the server told."""
    answer = _decode(told)
    if answer.stood is None:
        return [_created(job, answer.now) for job in jobs]
    stood = {found.n: found for found in answer.stood}
    return [
        _created(job, answer.now) if n not in stood else _stood(stood[n])
        for n, job in enumerate(jobs, start=1)
    ]


def _stood(stood: Stood) -> Added:
    return Added(record=stood.job.record(), created=False, conflict=stood.conflict)


def _created(job: NewJob, now: int) -> Added:
    return Added(record=as_added(job, now), created=True)
