"""Events: a stream of all, and one for each topic."""

from collections.abc import Mapping, Sequence
from struct import Struct
from typing import Final

import msgspec

from holdfast.model.events import EventPage, EventRecord, NewEvent
from holdfast.model.records import Added, NewJob
from holdfast.stores.bell import Bell
from holdfast.stores.redis.adding import answers, flat, has_flow
from holdfast.stores.redis.appending import flat_events
from holdfast.stores.redis.database import Database
from holdfast.stores.redis.records import EXACT

STEP: Final = 1_000
"""How many events one script looks at."""

MOST_LOOKED_AT: Final = 10_000
"""How many events are looked at for those of an aggregate."""

KEPT_FLOORS: Final = 1_000
"""Of how many topics the highest removed version is known; any other begins above the highest of the rest."""

_FIRST = 4
"""Where the arguments begin to which others refer, as the script counts them."""

_HEAD = Struct(">qQI")
_SIZE = Struct(">I")

_encode = msgspec.msgpack.encode
_decode = msgspec.msgpack.Decoder(tuple[str, bytes, bytes | None]).decode


class RedisEvents:
    """Events of one namespace.

    A position is given by the script that appends, and scripts run one at a time: no position is given twice
    while the data are there. Events are as durable as the server. After a failover that lost the last writes
    the positions of what was lost are given to others; where a consumer stands, if that is kept here too, is
    then not behind them. Whoever remembers elsewhere what it has seen goes by the ids.
    """

    def __init__(self, database: Database, bell: Bell) -> None:
        self._database = database
        self._bell = bell

    async def append(self, events: Sequence[NewEvent], jobs: Sequence[NewJob] = ()) -> list[Added]:
        if not events and not jobs:
            return []
        bodies: list[bytes] = []
        sent = {
            "ids": [job.id for job in jobs],
            "jobs": flat(jobs, _FIRST, bodies),
            "events": flat_events(events, _FIRST, bodies),
        }
        wake = self._bell.strike()
        script = "add_flow" if has_flow(jobs) else "append"
        now, is_untold, *stood = await self._database.run(script, wake or b"", _encode(sent), *bodies)
        if is_untold:
            self._bell.struck(wake)
        elif wake:
            self._bell.spared()
        return answers(jobs, int(now), stood)

    async def read(
        self, after: int, limit: int, *, topic: str | None = None, aggregate: str | None = None
    ) -> EventPage:
        found = EventPage(records=[], upto=after)
        which = (*_one(topic), *_one(aggregate))
        left = MOST_LOOKED_AT
        while len(found.records) < limit and left > 0:
            going_on, last, *told = await self._database.run(
                "event_read",
                min(max(0, found.upto), EXACT),
                limit - len(found.records),
                STEP,
                *which,
                writes=False,
            )
            found.records += map(_record, told[::3], told[1::3], told[2::3])
            found.upto = max(after, int(last if going_on is None else going_on))
            if going_on is None:
                break
            if aggregate is not None:
                left -= STEP
        return found

    async def last(self) -> int:
        return int(await self._database.run("event_last", writes=False))

    async def prune(self, older_than: int, passed: Mapping[str, int], limit: int) -> int:
        upto = _encode({topic: min(position, EXACT) for topic, position in passed.items()})
        removed, has_more = 0, 1
        while has_more and removed < limit:
            gone, has_more = await self._database.run(
                "event_prune", older_than, limit - removed, STEP, upto, KEPT_FLOORS
            )
            removed += gone
        return removed


def _one(name: str | None) -> tuple[bytes, bytes]:
    return (b"0", b"") if name is None else (b"1", name.encode())


def _record(place: bytes, head: bytes, body: bytes) -> EventRecord:
    at, version, size = _HEAD.unpack_from(head)
    topic_size = _HEAD.size + size
    topic = topic_size + _SIZE.size
    aggregate = topic + _SIZE.unpack_from(head, topic_size)[0]
    kind, data, headers = _decode(body)
    return EventRecord(
        id=head[_HEAD.size : topic_size].decode(),
        topic=head[topic:aggregate].decode(),
        type=kind,
        data=data,
        position=int(place.partition(b"-")[0]),
        at=at,
        aggregate=head[aggregate:].decode() if version else None,
        version=version or None,
        headers=headers,
    )
