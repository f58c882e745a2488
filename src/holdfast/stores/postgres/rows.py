"""Stored rows as records."""

from collections.abc import Callable
from typing import Any

import msgspec

from holdfast.model.flow import Flow, or_none
from holdfast.model.lifecycle import State, read_ending
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
    "progress, progress_note, reason, error, result, NULL, flow"
)
"""The columns of the views of jobs, in the order of the fields of JobRecord."""


def state_of(code: int) -> State:
    return STATES[code]


_decode_flow = msgspec.json.Decoder(Flow).decode
_made: Callable[..., JobRecord] = JobRecord
"""By the order of values, which a checker of types cannot follow here."""


def record(row: Any) -> JobRecord:
    """A job from a row of COLUMNS, which are in the order of its fields."""
    job = _made(str(row[0]), *row[1:4], state_of(row[4]), *row[5:21], tuple(row[21] or ()), *row[22:31])
    if row[31] is not None:
        job.flow = _decode_flow(row[31])
    return job


def rank_of(job: JobRecord) -> int:
    """Where the job stands among those of its queue and priority."""
    flow = job.flow
    return job.due if flow is None or flow.rank is None else flow.rank


def claimed(row: Any, worker: str, now: int, lease: int) -> JobRecord:
    """A job from a row of `tick`. What it does not say is as the claim has made it.

    The first token of a job is the instant of the claim, which may be later than the `now` of the tick.
    """
    _, job_id, task, queue, payload, priority, due, created, run, version, token, headers, rest = row
    job = _made(
        str(job_id),
        task,
        queue,
        payload,
        State.CLAIMED,
        priority,
        due,
        created,
        run,
        0,
        0,
        False,
        version,
        token,
        worker,
        (token if run == 1 else now) + lease,
        None,
        None,
        None,
        headers,
    )
    if rest is not None:
        _decode_rest(rest).put_into(job)
    return job


class Rest(msgspec.Struct):
    """What else there may be to tell of a claimed job."""

    state: int | None = None
    failures: int = 0
    lost: int = 0
    suspect: bool = False
    cancel_asked: bool = False
    lease_until: int = 0
    lease: int | None = None
    timeout: int | None = None
    retry: str | None = None
    key: str | None = None
    tags: tuple[str, ...] | None = None
    error: str | None = None
    result: str | None = None
    started: int | None = None
    progress: float | None = None
    progress_note: str | None = None
    reason: str | None = None
    flow: Flow | None = None

    def put_into(self, job: JobRecord) -> None:
        if self.state is None:  # nothing but flow
            job.flow = self.flow
            return
        for name in self.__struct_fields__:
            setattr(job, name, getattr(self, name))
        job.state = STATES[self.state]
        job.tags = self.tags or ()
        job.retry = from_hex(self.retry)
        job.result = from_hex(self.result)
        job.flow = or_none(self.flow) if self.flow is not None else None


_decode_rest = msgspec.json.Decoder(Rest).decode


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
    flow: Flow | None

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
    outcome, reason = read_ending(row[6], row[7])
    return AttemptRecord(
        job=str(row[0]),
        run=row[1],
        token=row[2],
        worker=row[3],
        started=row[4],
        finished=row[5],
        outcome=outcome,
        reason=reason,
        error=row[8],
    )
