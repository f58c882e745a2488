"""Stored rows as records."""

from typing import Any

import msgspec

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
    "worker, lease_until, lease, timeout, retry, headers, key, tags, started, finished, cancel_asked, "
    "progress, progress_note, reason, error, result"
)


def state_of(code: int) -> State:
    return STATES[code]


def record(row: Any) -> JobRecord:
    """A job from a row of COLUMNS."""
    return JobRecord(
        id=str(row[0]),
        task=row[1],
        queue=row[2],
        payload=row[3],
        state=state_of(row[4]),
        priority=row[5],
        due=row[6],
        created=row[7],
        run=row[8],
        failures=row[9],
        lost=row[10],
        suspect=row[11],
        version=row[12],
        token=row[13],
        worker=row[14],
        lease_until=row[15],
        lease=row[16],
        timeout=row[17],
        retry=row[18],
        headers=row[19],
        key=row[20],
        tags=tuple(row[21] or ()),
        started=row[22],
        finished=row[23],
        cancel_asked=row[24],
        progress=row[25],
        progress_note=row[26],
        reason=row[27],
        error=row[28],
        result=row[29],
    )


def claimed(row: Any, worker: str) -> JobRecord:
    """A job from a row of `tick`, which leaves out what the caller knows."""
    return JobRecord(
        id=str(row[1]),
        task=row[2],
        queue=row[3],
        payload=row[4],
        state=state_of(row[5]),
        priority=row[6],
        due=row[7],
        created=row[8],
        run=row[9],
        failures=row[10],
        lost=row[11],
        suspect=row[12],
        version=row[13],
        token=row[14],
        worker=worker,
        lease_until=row[15],
        lease=row[16],
        timeout=row[17],
        retry=row[18],
        headers=row[19],
        key=row[20],
        tags=tuple(row[21] or ()),
        started=row[22],
        cancel_asked=row[23],
        progress=row[24],
        progress_note=row[25],
        reason=row[26],
        error=row[27],
        result=row[28],
    )


class Told(msgspec.Struct):
    """A job as the server tells it in JSON, with bytes in its hexadecimal form."""

    id: str
    task: str
    queue: str
    payload: str
    state: int
    priority: int
    due: int
    created: int
    run: int
    failures: int
    lost: int
    suspect: bool
    version: int
    token: int
    worker: str | None
    lease_until: int | None
    lease: int | None
    timeout: int | None
    retry: str | None
    headers: str | None
    key: str | None
    tags: tuple[str, ...] | None
    started: int | None
    finished: int | None
    cancel_asked: bool
    progress: float | None
    progress_note: str | None
    reason: str | None
    error: str | None
    result: str | None

    def record(self) -> JobRecord:
        fields = {name: getattr(self, name) for name in self.__struct_fields__}
        fields |= {name: from_hex(fields[name]) for name in ("payload", "retry", "headers", "result")}
        fields |= {"state": STATES[self.state], "tags": self.tags or ()}
        return JobRecord(**fields)


def from_hex(text: str | None) -> bytes | None:
    return None if text is None else bytes.fromhex(text.removeprefix("\\x"))


def to_hex(value: bytes | None) -> str | None:
    return None if value is None else value.hex()


def clean(text: str | None) -> str | None:
    """The text as PostgreSQL can store it: NUL and lone surrogates, which only errors have, are replaced."""
    if text is None or (text.isascii() and "\0" not in text):
        return text
    return text.encode("utf-8", "replace").decode().replace("\0", "\ufffd")


def attempt(row: Any) -> AttemptRecord:
    """An ended attempt: job, run, token, worker, started, finished, outcome, reason, error."""
    return AttemptRecord(
        job=str(row[0]),
        run=row[1],
        token=row[2],
        worker=row[3],
        started=row[4],
        finished=row[5],
        outcome=Ending(row[6]),
        reason=row[7],
        error=row[8],
    )
