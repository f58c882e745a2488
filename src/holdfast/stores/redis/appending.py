"""Events on their way in."""

from collections.abc import Sequence
from typing import Any

import msgspec

from holdfast.model.events import NewEvent

_encode = msgspec.msgpack.encode


def flat_events(events: Sequence[NewEvent], first: int, bodies: list[bytes]) -> list[Any]:
    """Four values for each event; its body goes to the others, which are arguments from the `first` on."""
    values: list[Any] = []
    for event in events:
        aggregate = False if event.aggregate is None else event.aggregate
        values += (event.id, event.topic, aggregate, first + len(bodies))
        bodies.append(_encode((event.type, event.data, event.headers)))
    return values
