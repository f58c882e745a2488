"""Stored rows as records."""

from typing import Any

import msgspec

from holdfast.model.flow import Flow, or_none
from holdfast.model.lifecycle import Ending, State
from holdfast.model.records import AttemptRecord, JobRecord

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

COLUMNS = (
    "id, task, queue, payload, state, priority, due, created, run, failures, lost, suspect, version, token, "
    "worker, lease_until, lease, timeout, retry, headers, job_key, tags, started, finished, cancel_asked, "
    "progress, progress_note, reason, error, result, limit_key, fair_key, rank, sequence, halts, after_any, "
    "expires, unmet, gate"
)
"""The columns of the views of jobs: the fields of JobRecord in their order, then those of its flow."""

_decode_names = msgspec.json.Decoder(tuple[str, ...]).decode
_encode = msgspec.json.encode


def state_of(code: int) -> State:
    return STATES[code]


def record(row: Any) -> JobRecord:
    """A job from a row of COLUMNS."""
    job = JobRecord(*row[:30])
    job.state = STATES[row[4]]
    job.suspect = bool(row[11])
    job.tags = () if row[21] is None else names(row[21])
    job.cancel_asked = bool(row[24])
    job.flow = _flow(*row[30:])
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
            limit_key=limit_key,
            fair_key=fair_key,
            rank=None if fair_key is None else rank,
            sequence=sequence,
            halts=bool(halts),
            after_any=bool(after_any),
            expires=expires,
            unmet=unmet or 0,
            parked=gate,
        )
    )


def attempt(row: Any) -> AttemptRecord:
    """An ended attempt: job, run, token, worker, started, finished, outcome, reason, error."""
    job, run, token, worker, started, finished, outcome, reason, error = row
    return AttemptRecord(
        job=job,
        run=run,
        token=token,
        worker=worker,
        started=started,
        finished=finished,
        outcome=Ending(outcome),
        reason=reason,
        error=error,
    )


def names(told: str) -> tuple[str, ...]:
    """Names from the JSON array in which they are stored."""
    return _decode_names(told)


def as_json(value: object) -> str:
    return _encode(value).decode()


def clean(text: str | None) -> str | None:
    """The text as it can be stored: NUL and lone surrogates, which only errors have, are replaced."""
    if text is None or (text.isascii() and "\0" not in text):
        return text
    return text.encode("utf-8", "replace").decode().replace("\0", "\ufffd")


class Bytes:
    """Values that JSON cannot hold, one after the other: each is told by where it begins and how long it is."""

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
