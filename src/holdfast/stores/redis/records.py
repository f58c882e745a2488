"""Jobs as they are stored: a packed record of what changes, a body of what does not, and little beside them.

The record is written by the scripts, see `scripts/base.lua`, and read here; the body is written here and
never touched by the server.
"""

from collections.abc import Callable, Sequence
from functools import lru_cache
from struct import Struct
from struct import error as StructError  # noqa: N812  it is one
from typing import Any, Final

import msgspec

from holdfast.model.flow import NO_FLOW, Flow, or_none
from holdfast.model.lifecycle import LEASED, Ending, State, read_ending
from holdfast.model.records import AttemptRecord, JobRecord, NewJob

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

CODES: dict[State, int] = {each: place for place, each in enumerate(STATES)}

EXACT: Final = 2**53
"""Numbers of this size and more are not exact in a script; they are passed through as text."""

NULL: Final = b"null"
"""The result of a task that returns nothing."""

_SHIFT = 2**63
_SUSPECT, _CANCEL_ASKED, _HAS_KEY, _IS_TOLD, _IS_NULL = 1, 2, 16, 32, 128
_WHOLE = Struct(">BQIIqqqBQQIIqqH")
_LENGTH = Struct(">H")
_SORTABLE = Struct(">Q")

_made: Callable[..., JobRecord] = JobRecord
"""By the order of values, which a checker of types cannot follow here."""


_STATE_OF = STATES * 32
"""With the bits that are stored beside a state."""

_HAS_FLOW, _IS_PARKED = 8, 16
_FLOW = Struct(">QHqqII")
_HALTS, _AFTER_ANY, _RANKED, _LIMITED, _FAIR, _SEQUENCED, _EXPIRES = 1, 2, 8, 16, 32, 64, 128


def state_of(code: int) -> State:
    return _STATE_OF[code]


class Body(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """What of a job never changes, apart from its tags, which an edit may replace."""

    id: str
    task: str
    payload: bytes
    timeout: int | None
    retry: bytes | None
    headers: bytes | None
    tags: tuple[str, ...]


_encode = msgspec.msgpack.encode
_decode_body = msgspec.msgpack.Decoder(Body).decode
_decode_tags = msgspec.json.Decoder(tuple[str, ...]).decode
_decode_attempt = msgspec.msgpack.Decoder(list[Any]).decode


def body_of(job: NewJob) -> bytes:
    return _encode((job.id, job.task, job.payload, job.timeout, job.retry, job.headers, job.tags))


def number(value: int) -> int | str:
    """A number that is only stored and compared, as scripts take it."""
    return value if -EXACT < value < EXACT else f"{value + _SHIFT:016x}"


def sortable(value: int) -> bytes:
    """Eight bytes that sort as the number does."""
    return _SORTABLE.pack(value + _SHIFT)


def unsortable(packed: bytes) -> int:
    (shifted,) = _SORTABLE.unpack(packed)
    return int(shifted) - _SHIFT


def job(told: Sequence[Any]) -> JobRecord:
    """A job from its record, its body, its result, what few have beside them, and its id.

    One whose record is none is told as damaged, and failed: nobody can work on it.
    """
    try:
        return made(*told)
    except (StructError, UnicodeDecodeError, ValueError) as error:
        return JobRecord(
            id=text(told[4]),
            task="",
            queue="",
            payload=b"",
            state=State.FAILED,
            priority=0,
            due=0,
            created=0,
            damaged=f"record: {error}"[:500],
        )


def text(stored: bytes) -> str:
    """A name or a note, with what is no UTF-8 replaced."""
    return stored.decode("utf-8", "replace")


def made(
    record: bytes,
    body: bytes | None,
    result: bytes | None = None,
    extra: Sequence[bytes] | None = None,
    job_id: bytes | None = None,
) -> JobRecord:
    (
        code,
        token,
        version,
        run,
        ends,
        started,
        _,
        flags,
        priority,
        due,
        failures,
        lost,
        created,
        lease,
        names,
    ) = _WHOLE.unpack_from(record)
    state = state_of(code)
    (length,) = _LENGTH.unpack_from(record, 84)
    queue = record[86 : 86 + length].decode()
    damaged = None
    try:
        still = _decode_body(body or b"")
    except msgspec.MsgspecError as error:
        damaged = f"body: {error}"
        still = _salvaged(record, 86 + length, job_id, body or b"")
    is_leased = state in LEASED
    found = _made(
        still.id,
        still.task,
        queue,
        still.payload,
        state,
        priority - _SHIFT,
        due - _SHIFT,
        created,
        run,
        failures,
        lost,
        flags & _SUSPECT != 0,
        version,
        token,
        record[names:].decode() if is_leased else None,
        ends if is_leased else None,
        None if lease < 0 else lease,
        still.timeout,
        still.retry,
        still.headers,
        _key(record, 86 + length) if flags & _HAS_KEY else None,
        still.tags,
        started or None,
        ends or None if not is_leased else None,
        flags & _CANCEL_ASKED != 0,
        None,
        None,
        None,
        None,
        NULL if flags & _IS_NULL else result,
        damaged,
    )
    if code >= len(STATES):
        found.flow = _flow(record, names, code)
    if extra:
        _add_extra(found, extra)
    return found


def _flow(record: bytes, end: int, code: int) -> Flow | None:
    """What the job waits for, which stands before the end of the names, and behind it where it is parked."""
    flow = None
    if code & _HAS_FLOW:
        (size,) = _LENGTH.unpack_from(record, end - _LENGTH.size)
        flow = _waited_for(record[end - size : end])
    if code & _IS_PARKED:
        flow = msgspec.structs.replace(flow or NO_FLOW, parked=record[end:].decode())
    return flow


@lru_cache(maxsize=4_096)
def _waited_for(told: bytes) -> Flow | None:
    """The same for all jobs of a key, if they have nothing of their own."""
    rank, bits, expires, _, _, unmet = _FLOW.unpack_from(told)
    at = _FLOW.size
    names: list[str] = []
    for _ in range(3):
        (length,) = _LENGTH.unpack_from(told, at)
        at += _LENGTH.size + length
        names.append(told[at - length : at].decode())
    return or_none(
        Flow(
            limit_key=names[0] if bits & _LIMITED else None,
            fair_key=names[1] if bits & _FAIR else None,
            rank=rank - _SHIFT if bits & _RANKED else None,
            sequence=names[2] if bits & _SEQUENCED else None,
            halts=bits & _HALTS != 0,
            after_any=bits & _AFTER_ANY != 0,
            expires=expires if bits & _EXPIRES else None,
            unmet=unmet,
        )
    )


def _salvaged(record: bytes, at: int, job_id: bytes | None, body: bytes) -> Body:
    """What can be told of a job whose body cannot be read; its id is the first that the body holds."""
    (length,) = _LENGTH.unpack_from(record, at)
    found = body[3:39] if job_id is None else job_id
    task = record[at + 2 : at + 2 + length].decode()
    return Body(found.decode("ascii", "replace"), task, b"", None, None, None, ())


def _key(record: bytes, at: int) -> str:
    (length,) = _LENGTH.unpack_from(record, at)
    at += 2 + length
    (length,) = _LENGTH.unpack_from(record, at)
    return record[at + 2 : at + 2 + length].decode()


def _add_extra(found: JobRecord, extra: Sequence[bytes]) -> None:
    fields = dict(zip(extra[::2], extra[1::2], strict=True))
    if b"p" in fields:
        found.progress = float(fields[b"p"])
    if b"n" in fields:
        found.progress_note = text(fields[b"n"])
    if b"r" in fields:
        found.reason = text(fields[b"r"])
    if b"e" in fields:
        found.error = text(fields[b"e"])
    if b"t" in fields:
        found.tags = _decode_tags(fields[b"t"])


def attempts(job_id: str, record: bytes | None, past: Sequence[bytes]) -> list[AttemptRecord]:
    """The ended attempts of a job; the last of a plain success is told by its record alone."""
    found = [_past(job_id, packed) for packed in past]
    if record is not None and len(record) >= _WHOLE.size:
        _, token, _, run, ends, started, _, flags, *_, names = _WHOLE.unpack_from(record)
        if flags & _IS_TOLD:
            worker = text(record[names:])
            ending = [run, token, worker, started or False, ends, Ending.SUCCESS, False, False]
            found.append(_attempt(job_id, ending))
    return found


def _past(job_id: str, packed: bytes) -> AttemptRecord:
    try:
        return _attempt(job_id, _decode_attempt(packed))
    except (msgspec.MsgspecError, ValueError, TypeError):
        unknown = [
            0,
            0,
            "",
            False,
            0,
            Ending.FAILED,
            "what was recorded of this attempt cannot be read",
            False,
        ]
        return _attempt(job_id, unknown)


def _attempt(job_id: str, values: list[Any]) -> AttemptRecord:
    run, token, worker, started, finished, word, why, error, *_ = values
    outcome, reason = read_ending(word, None if why is False else why)
    return AttemptRecord(
        job=job_id,
        run=run,
        token=token,
        worker=worker,
        started=None if started is False else started,
        finished=finished,
        outcome=outcome,
        reason=reason,
        error=None if error is False else error,
    )


def clean(text: str | None) -> str | None:
    """The text as it can be encoded: lone surrogates, which only errors have, are replaced."""
    if text is None or text.isascii():
        return text
    return text.encode("utf-8", "replace").decode()
