"""Stored rows as records, the damaged ones too."""

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import msgspec

from holdfast.model.flow import Flow, or_none
from holdfast.model.lifecycle import State, read_ending
from holdfast.model.records import AttemptRecord, JobRecord
from holdfast.stores.sqlite.answers import reader
from holdfast.stores.sqlite.columns import PLAIN, STATES, FlowRow, Row

Answer: TypeAlias = Sequence[Any]
"""One row: the JSON array of jobs, the run of their long values, and what else was asked for."""

WIDTH = 2

_decode = msgspec.json.Decoder(list[Row]).decode
_decode_tags = msgspec.json.Decoder(tuple[str, ...]).decode
_decode_attempts = reader(list[tuple[Any, ...]])
_REQUIRED: dict[str, Any] = {
    "id": "",
    "task": "",
    "queue": "",
    "state": 0,
    "payload": b"",
    "priority": 0,
    "due": 0,
    "created": 0,
}


class Unreadable(Exception):
    """At least one row cannot be read with the others; they must be read one by one."""


def records(answer: Answer) -> list[JobRecord]:
    """The jobs of an answer. Raises Unreadable if one is damaged."""
    cut = _Cut(answer[1])
    try:
        found = [_record(row, cut) for row in _decode(answer[0])]
    except (msgspec.MsgspecError, ValueError, IndexError) as error:
        raise Unreadable from error
    if not cut.is_used_up():
        # SQLite before 3.39 ends a run at its first NUL.
        raise Unreadable
    return found


def _record(row: Row, cut: "_Cut") -> JobRecord:
    # In the order in which the long values follow each other.
    result, retry, headers = cut.take(row.result), cut.take(row.retry), cut.take(row.headers)
    return JobRecord(
        id=row.id,
        task=row.task,
        queue=row.queue,
        payload=cut.take(row.payload) or b"",
        state=STATES[row.state],
        priority=row.priority,
        due=row.due,
        created=row.created,
        run=row.run,
        failures=row.failures,
        lost=row.lost,
        suspect=row.suspect != 0,
        version=row.version,
        token=row.token,
        worker=row.worker,
        lease_until=row.lease_until,
        lease=row.lease,
        timeout=row.timeout,
        retry=retry,
        headers=headers,
        key=row.key,
        tags=tags_of(row.tags),
        started=row.started,
        finished=row.finished,
        cancel_asked=row.cancel_asked != 0,
        progress=None if row.progress is None else float(row.progress),
        progress_note=row.progress_note,
        reason=row.reason,
        error=row.error,
        result=result,
        flow=flow_of(row.flow),
    )


def flow_of(row: FlowRow | None) -> Flow | None:
    if row is None:
        return None
    return Flow(
        limit_key=row.limit_key,
        fair_key=row.fair_key,
        rank=row.rank,
        sequence=row.sequence,
        halts=row.halts is not None,
        after_any=row.after_any is not None,
        expires=row.expires,
        parked=row.parked,
        unmet=row.unmet or 0,
    )


def tags_of(stored: str | bytes | None) -> tuple[str, ...]:
    return () if stored is None else _decode_tags(stored)


class _Cut:
    """A run of long values, taken piece by piece."""

    __slots__ = ("_place", "_run")

    def __init__(self, run: bytes | None) -> None:
        self._run = run or b""
        self._place = 0

    def take(self, length: int | None) -> bytes | None:
        if length is None:
            return None
        start = self._place
        self._place = end = start + length
        return self._run[start:end]

    def is_used_up(self) -> bool:
        return self._place == len(self._run)


def salvage(row: Sequence[Any]) -> JobRecord:
    """A job from its plain columns. What cannot be read is left out, and `damaged` tells what."""
    fields: dict[str, Any] = {}
    damage: list[str] = []
    for name, stored in zip(PLAIN, row, strict=True):
        try:
            reader: Callable[[Any], Any] = _READERS.get(name, _read_number)
            fields[name] = reader(stored)
        except (ValueError, TypeError, IndexError, msgspec.MsgspecError) as error:
            damage.append(f"{name}: {error}")
    told = {name: fields.pop(name, None) for name in FlowRow.__struct_fields__}
    fields["flow"] = or_none(flow_of(FlowRow(**told)) or Flow())
    return JobRecord(**{**_REQUIRED, **fields}, damaged="; ".join(damage)[:500] or None)


def _read_text(stored: Any) -> str | None:
    if stored is None:
        return None
    if not isinstance(stored, bytes):
        raise TypeError(f"{type(stored).__name__} is not text")
    return stored.decode()


def _read_name(stored: Any) -> str:
    found = _read_text(stored)
    if found is None:
        raise ValueError("missing")
    return found


def _read_number(stored: Any) -> int | None:
    if stored is not None and not isinstance(stored, int):
        raise TypeError(f"{ascii(stored)[:40]} is not a whole number")
    return stored


def _read_count(stored: Any) -> int:
    found = _read_number(stored)
    if found is None:
        raise ValueError("missing")
    return found


def _read_flag(stored: Any) -> bool:
    return _read_count(stored) != 0


def _read_bytes(stored: Any) -> bytes | None:
    if stored is not None and not isinstance(stored, bytes):
        raise TypeError(f"{type(stored).__name__} is not bytes")
    return stored


def _read_payload(stored: Any) -> bytes:
    found = _read_bytes(stored)
    if found is None:
        raise ValueError("missing")
    return found


def _read_state(stored: Any) -> State:
    code = _read_count(stored)
    if not 0 <= code < len(STATES):
        raise ValueError(f"{code} is not a state")
    return STATES[code]


def _read_progress(stored: Any) -> float | None:
    text = _read_text(stored)
    return None if text is None else float(text)


_READERS: dict[str, Callable[[Any], Any]] = {
    **dict.fromkeys(("id", "task", "queue"), _read_name),
    **dict.fromkeys(
        (
            "worker",
            "key",
            "progress_note",
            "reason",
            "error",
            "limit_key",
            "fair_key",
            "sequence",
            "parked",
        ),
        _read_text,
    ),
    **dict.fromkeys(
        ("priority", "due", "created", "run", "failures", "lost", "version", "token"), _read_count
    ),
    **dict.fromkeys(("suspect", "cancel_asked"), _read_flag),
    **dict.fromkeys(("result", "retry", "headers"), _read_bytes),
    "payload": _read_payload,
    "state": _read_state,
    "tags": tags_of,
    "progress": _read_progress,
}


def attempts(answer: Any) -> list[tuple[AttemptRecord, str]]:
    """Ended attempts, each with the worker that closed it."""
    return [_attempt(*row) for row in _decode_attempts(answer)]


def _attempt(
    job: str,
    run: int,
    token: int,
    worker: str,
    closer: str | None,
    started: int | None,
    finished: int,
    word: str,
    why: str | None,
    error: str | None,
) -> tuple[AttemptRecord, str]:
    outcome, reason = read_ending(word, why)
    record = AttemptRecord(
        job=job,
        run=run,
        token=token,
        worker=worker,
        started=started,
        finished=finished,
        outcome=outcome,
        reason=reason,
        error=error,
    )
    return record, closer or worker
