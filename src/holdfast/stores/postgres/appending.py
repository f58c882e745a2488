"""Events on their way in: as parallel arrays, or as JSON where the driver is not ours."""

from collections.abc import Sequence
from typing import Any

from holdfast.model.events import NewEvent
from holdfast.stores.postgres.rows import to_hex


def arrays(events: Sequence[NewEvent]) -> list[list[Any]]:
    """The parameters of `append` after namespace and instant."""
    return [
        [event.id for event in events],
        [event.topic for event in events],
        [event.type for event in events],
        [event.aggregate for event in events],
        [event.data for event in events],
        [event.headers for event in events],
    ]


def as_json(events: Sequence[NewEvent]) -> list[dict[str, Any]]:
    """The events for `append_json`."""
    return [
        {
            "id": event.id,
            "topic": event.topic,
            "type": event.type,
            "aggregate": event.aggregate,
            "data": to_hex(event.data),
            "headers": to_hex(event.headers),
        }
        for event in events
    ]
