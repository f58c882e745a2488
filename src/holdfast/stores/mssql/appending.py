"""Events on their way in, as JSON with their bytes beside it."""

from collections.abc import Sequence
from typing import Any

from holdfast.model.events import NewEvent
from holdfast.stores.mssql.rows import Bytes

_END = "."
"""Behind each stored aggregate: the server takes no notice of spaces at the end of a text."""


def as_dicts(events: Sequence[NewEvent], held: Bytes) -> list[dict[str, Any]]:
    """The events for `append`, which count from 1."""
    return [
        {
            "n": n,
            "id": event.id,
            "topic": event.topic,
            "type": event.type,
            "aggregate": stored_aggregate(event.aggregate),
            **held.put("data", event.data),
            **held.put("headers", event.headers),
        }
        for n, event in enumerate(events, start=1)
    ]


def stored_aggregate(aggregate: str | None) -> str | None:
    return None if aggregate is None else aggregate + _END


def told_aggregate(stored: str | None) -> str | None:
    return None if stored is None else stored.removesuffix(_END)
