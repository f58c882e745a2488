"""Stored rows as records."""

from collections.abc import Iterable
from typing import Any

import msgspec

from holdfast.model.flow import Flow, or_none
from holdfast.model.lifecycle import State, read_ending
from holdfast.model.records import AttemptRecord, JobRecord
from holdfast.stores.mssql.texts import stored, told, told_or_none

STATES: tuple[State, ...] = (
    State.SCHEDULED,
    State.CLAIMED,
    State.RUNNING,
    State.SUCCESS,
    State.FAILED,
    State.RETRY,
    State.DLQ,
    State.CANCELLED,
)
"""A state is stored as its place here. Never change the order."""

CODES: dict[State, int] = {state: code for code, state in enumerate(STATES)}

_decode_names = msgspec.json.Decoder(tuple[str, ...]).decode
_encode = msgspec.json.encode


def state_of(code: int) -> State:
    return STATES[code]


def record(row: Any) -> JobRecord:
    """A job from a row of one of the views: its fields in their order, those of its flow, and others."""
    job = JobRecord(*row[:30])
    job.task, job.queue = told(row[1]), told(row[2])
    job.state = STATES[row[4]]
    job.worker, job.key = told_or_none(row[14]), told_or_none(row[20])
    job.suspect = bool(row[11])
    job.tags = () if row[21] is None else names(row[21])
    job.cancel_asked = bool(row[24])
    job.flow = _flow(*row[30:39])
    return job


def _flow(
    limit_key: str | None,
    fair_key: str | None,
    rank: int,
    sequence: str | None,
    halts: Any,
    after_any: Any,
    expires: int | None,
    unmet: int | None,
    gate: str | None,
) -> Flow | None:
    return or_none(
        Flow(
            limit_key=told_or_none(limit_key),
            fair_key=told_or_none(fair_key),
            rank=None if fair_key is None else rank,
            sequence=told_or_none(sequence),
            halts=bool(halts),
            after_any=bool(after_any),
            expires=expires,
            unmet=unmet or 0,
            parked=told_or_none(gate),
        )
    )


def attempt(row: Any) -> AttemptRecord:
    """An ended attempt: job, run, token, worker, started, finished, outcome, reason, error."""
    job, run, token, worker, started, finished, word, why, error = row
    outcome, reason = read_ending(word, why)
    return AttemptRecord(
        job=job,
        run=run,
        token=token,
        worker=told(worker),
        started=started,
        finished=finished,
        outcome=outcome,
        reason=reason,
        error=error,
    )


def names(listed: str) -> tuple[str, ...]:
    """Names from the JSON array in which they are stored."""
    return tuple(map(told, _decode_names(listed)))


def listed(given: Iterable[str]) -> str:
    """Names as the JSON array in which they are stored, or sent."""
    return as_json([stored(name) for name in given])


def as_json(value: object) -> str:
    return _encode(value).decode()


class Bytes:
    """Values that JSON cannot hold, one after the other: each is told by its beginning and length."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._size = 0

    def put(self, name: str, value: bytes | None) -> dict[str, int]:
        """The fields that stand for the value in JSON; none if there is no value."""
        if value is None:
            return {}
        self._parts.append(value)
        at = self._size + 1
        self._size += len(value)
        return {f"{name}_at": at, f"{name}_size": len(value)}

    def whole(self) -> bytes:
        return b"".join(self._parts)
