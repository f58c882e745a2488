"""Jobs on their way in, and the answer."""

from collections.abc import Sequence
from typing import Any

import msgspec

from holdfast.model.records import Added, NewJob, as_added
from holdfast.stores.redis.records import body_of, job, number

_encode = msgspec.msgpack.encode


def flat(jobs: Sequence[NewJob], first: int, bodies: list[bytes]) -> list[Any]:
    """Ten values for each job; its body goes to the others, which are arguments from the `first` on."""
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
        )
        bodies.append(body_of(new))
    return values


def packed(jobs: Sequence[NewJob], first: int) -> list[bytes]:
    """The jobs, and after them their bodies, of which the first is this argument."""
    bodies: list[bytes] = []
    values = flat(jobs, first, bodies)
    return [_encode({"ids": [new.id for new in jobs], "jobs": values}), *bodies]


def answers(jobs: Sequence[NewJob], told: list[Any]) -> list[Added]:
    """One answer for each job: when it was made, or what stood there."""
    now = int(told[0])
    stood: dict[int, list[Any]] = dict(told[1:])
    return [
        _stood(new, stood[turn]) if turn in stood else Added(record=as_added(new, now), created=True)
        for turn, new in enumerate(jobs, start=1)
    ]


def _stood(new: NewJob, told: list[Any]) -> Added:
    found = job(told)
    is_same = found.task == new.task and found.payload == new.payload
    if found.id == new.id:
        is_same = is_same and found.queue == new.queue
        return Added(record=found, created=False, conflict=None if is_same else "id")
    return Added(record=found, created=False, conflict=None if is_same else "key")
