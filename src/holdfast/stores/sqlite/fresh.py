"""Jobs that were just claimed: most have little to tell, so they travel lighter than others."""

from typing import Any

import msgspec

from holdfast.model.lifecycle import State
from holdfast.model.records import JobRecord
from holdfast.stores.sqlite.columns import FlowRow
from holdfast.stores.sqlite.rows import Answer, Unreadable, flow_of, tags_of


class Rare(msgspec.Struct, array_like=True, gc=False):
    """What most jobs do not have; the long ones as lengths."""

    lease: int | None
    timeout: int | None
    key: str | None
    tags: str | None
    error: str | None
    result: int | None
    retry: int | None
    headers: int | None
    flow: FlowRow | None = None


class Fresh(msgspec.Struct, array_like=True, gc=False):
    """A job that was just claimed; `payload` is its length."""

    id: str
    task: str
    queue: str
    priority: int
    due: int
    created: int
    run: int
    failures: int
    lost: int
    suspect: int
    version: int
    token: int
    lease_until: int
    cancel_asked: int
    payload: int
    rare: Rare | None


_decode = msgspec.json.Decoder(list[Fresh]).decode
_CLAIMED = State.CLAIMED


def fresh_records(answer: Answer, worker: str) -> list[JobRecord]:
    """The jobs that the worker has just claimed. Raises Unreadable if one is damaged."""
    run: bytes = answer[1] or b""
    found: list[JobRecord] = []
    place = 0
    try:
        for row in _decode(answer[0]):
            more: dict[str, Any] = {}
            if row.rare is not None:
                more, place = _rare(row.rare, run, place)
            end = place + row.payload
            found.append(
                JobRecord(
                    id=row.id,
                    task=row.task,
                    queue=row.queue,
                    payload=run[place:end],
                    state=_CLAIMED,
                    priority=row.priority,
                    due=row.due,
                    created=row.created,
                    run=row.run,
                    failures=row.failures,
                    lost=row.lost,
                    suspect=row.suspect != 0,
                    version=row.version,
                    token=row.token,
                    worker=worker,
                    lease_until=row.lease_until,
                    cancel_asked=row.cancel_asked != 0,
                    **more,
                )
            )
            place = end
    except (msgspec.MsgspecError, ValueError) as error:
        raise Unreadable from error
    if place != len(run):
        raise Unreadable
    return found


def _rare(rare: Rare, run: bytes, place: int) -> tuple[dict[str, Any], int]:
    more: dict[str, Any] = {
        "lease": rare.lease,
        "timeout": rare.timeout,
        "key": rare.key,
        "tags": tags_of(rare.tags),
        "error": rare.error,
        "flow": flow_of(rare.flow),
    }
    for name, length in (("result", rare.result), ("retry", rare.retry), ("headers", rare.headers)):
        if length is not None:
            more[name] = run[place : place + length]
            place += length
    return more, place
