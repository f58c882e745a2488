"""Jobs on their way in, and the answer."""

from collections.abc import Iterable, Sequence
from struct import Struct
from typing import Any

import msgspec

from holdfast.model.flow import NewFlow
from holdfast.model.records import Added, JobRecord, NewJob, as_added
from holdfast.stores.redis.records import body_of, job, number, sortable

_encode = msgspec.msgpack.encode
_LENGTH = Struct(">H")


def flat(jobs: Sequence[NewJob], first: int, bodies: list[bytes]) -> list[Any]:
    """Eleven values for each job; its body goes to the others, which are arguments from the `first` on."""
    values: list[Any] = []
    for new in jobs:
        values += (
            new.id,
            new.task,
            new.queue,
            first + len(bodies),
            number(new.priority),
            False if new.due is None else number(new.due),
            new.delay,
            False if new.lease is None else new.lease,
            False if new.key is None else new.key,
            new.key_ttl,
            False if new.flow is None else _told(new.flow),
        )
        bodies.append(body_of(new))
    return values


def has_flow(jobs: Iterable[NewJob]) -> bool:
    """Whether a job waits for more than its due time."""
    return any(new.flow is not None for new in jobs)


def _told(flow: NewFlow) -> dict[str, Any]:
    """What of it is said."""
    said = msgspec.structs.asdict(flow)
    return {name: value for name, value in said.items() if value is not None and value is not False}


def packed(jobs: Sequence[NewJob], first: int) -> list[bytes]:
    """The jobs, and after them their bodies, of which the first is this argument."""
    bodies: list[bytes] = []
    values = flat(jobs, first, bodies)
    return [_encode({"ids": [new.id for new in jobs], "jobs": values}), *bodies]


def is_lone(jobs: Sequence[NewJob]) -> bool:
    """Whether this is the most usual case: one new job that is due at once."""
    if len(jobs) != 1:
        return False
    [new] = jobs
    return new.fresh and new.due is None and new.delay == 0 and new.key is None and new.flow is None


def lone(new: NewJob) -> tuple[object, ...]:
    """The arguments of the script for such a job."""
    queue, task = new.queue.encode(), new.task.encode()
    names = b"%b%b%b%b\0\0" % (_LENGTH.pack(len(queue)), queue, _LENGTH.pack(len(task)), task)
    lease = -1 if new.lease is None else new.lease
    return new.id, queue, task, body_of(new), sortable(new.priority), names, lease


def answers(jobs: Sequence[NewJob], now: int, told: list[Any]) -> list[Added]:
    """One answer for each job: as it was made, or what stood there."""
    stood: dict[int, list[Any]] = dict(told)
    return [
        _stood(new, stood[turn])
        if turn in stood
        else Added(record=_made(new, now, stood.get(-turn)), created=True)
        for turn, new in enumerate(jobs, start=1)
    ]


def _made(new: NewJob, now: int, told: list[Any] | None) -> JobRecord:
    """What the store adds to a job that waits for more than its due time is told."""
    return as_added(new, now) if told is None else job(told)


def _stood(new: NewJob, told: list[Any]) -> Added:
    found = job(told)
    is_same = found.task == new.task and found.payload == new.payload
    if found.id == new.id:
        is_same = is_same and found.queue == new.queue
        return Added(record=found, created=False, conflict=None if is_same else "id")
    return Added(record=found, created=False, conflict=None if is_same else "key")
