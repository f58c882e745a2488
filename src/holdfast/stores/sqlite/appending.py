"""What `append` does."""

from collections.abc import Sequence

from holdfast.model.events import NewEvent
from holdfast.stores.sqlite.answers import reader
from holdfast.stores.sqlite.feed import Run, as_json, feed
from holdfast.stores.sqlite.transaction import Transaction

_decode_ids = reader(set[str])
_decode_versions = reader(list[int])


def append(tx: Transaction, events: Sequence[NewEvent]) -> None:
    """Stores events, in this order. They get their positions here: whoever writes is alone."""
    if not events:
        return
    by_id: dict[str, NewEvent] = {}
    for event in events:
        by_id.setdefault(event.id, event)
    lines = list({_line(event): None for event in by_id.values() if event.aggregate is not None})
    stored, last = tx.row("events_before", ids=as_json(list(by_id)), lines=as_json(lines))
    known = _decode_ids(stored)
    fresh = [event for event in by_id.values() if event.id not in known]
    if not fresh:
        return
    versions = dict(zip(lines, _decode_versions(last), strict=True))
    position, at = tx.run("event_head", count=len(fresh)).fetchone()
    run = Run()
    rows = [
        (
            event.id,
            event.topic,
            event.type,
            event.aggregate,
            _next_version(versions, event),
            *run.put(event.data),
            *run.put(event.headers),
        )
        for event in fresh
    ]
    tx.run("events_add", first=position - len(fresh) + 1, at=at, **feed(rows, run))


def _line(event: NewEvent) -> tuple[str, str | None]:
    return event.topic, event.aggregate


def _next_version(versions: dict[tuple[str, str | None], int], event: NewEvent) -> int | None:
    if event.aggregate is None:
        return None
    versions[_line(event)] += 1
    return versions[_line(event)]
