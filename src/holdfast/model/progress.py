"""How far a group has come with a topic, and which of its aggregates wait: deciding, apart from writing.

An event that fails is set aside with its lane, which is its aggregate, or itself if it has none: the group
goes on, and the lane waits until it is tried again. Whatever comes for a lane that waits, waits behind it. A
lane whose attempts are used up rests until somebody replays or skips it.
"""

from __future__ import annotations

from typing import Final

import msgspec
from msgspec.structs import replace

from holdfast.model.events import EventRecord
from holdfast.model.scheduling import ScheduleRecord, ScheduleWrite

PREFIX: Final = "~"
"""What the record of a group begins with: no schedule's name does, and it sorts behind all of them."""

MOST_WAITING: Final = 500
"""So many lanes may wait; then the group goes on only with them."""


class Waiting(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A lane that waits: the event at its head, and when to try that again; None if nobody will by itself.

    With `skip` that event is left out when its time has come.
    """

    position: int
    event: str
    failures: int
    retry_at: int | None
    reason: str
    since: int
    skip: bool = False


class Progress(msgspec.Struct, frozen=True, kw_only=True):
    """All events up to `offset` are dealt with, but for those of the lanes that wait.

    `event` is the id of the one at the offset: another one there tells that the store lost its last writes.
    """

    offset: int
    event: str | None = None
    waiting: dict[str, Waiting] = {}

    def passed(self, event: EventRecord) -> Progress:
        if event.position <= self.offset:
            return self
        return replace(self, offset=event.position, event=event.id)

    def set_aside(self, lane: str, waiting: Waiting) -> Progress:
        """The event at the lane's head has failed, for the first time or again."""
        return replace(self, waiting={**self.waiting, lane: waiting})

    def went_on(self, lane: str, following: EventRecord | None, now: int) -> Progress:
        """The head of a lane is done; what follows is tried at once. Without any the lane waits no more."""
        waiting = {name: each for name, each in self.waiting.items() if name != lane}
        if following is not None:
            waiting[lane] = Waiting(
                position=following.position,
                event=following.id,
                failures=0,
                retry_at=now,
                reason="behind another event",
                since=now,
            )
        return replace(self, waiting=waiting)

    def due(self, now: int) -> list[str]:
        """The lanes to be tried now, by the positions of their heads."""
        found = [
            (each.position, lane)
            for lane, each in self.waiting.items()
            if each.retry_at is not None and each.retry_at <= now
        ]
        return [lane for _, lane in sorted(found)]

    def next_retry(self) -> int | None:
        """When the next lane is to be tried; None if none is."""
        times = (each.retry_at for each in self.waiting.values())
        return min((time for time in times if time is not None), default=None)

    @property
    def unneeded(self) -> int:
        """The last position of which, and of those before, nothing is needed any more."""
        return min([self.offset, *(each.position - 1 for each in self.waiting.values())])

    def resumed(self, lane: str, now: int, *, skip: bool = False) -> Progress:
        """The lane goes on at once: its head is tried with all its attempts, or left out."""
        waiting = replace(self.waiting[lane], failures=0, retry_at=now, skip=skip)
        return replace(self, waiting={**self.waiting, lane: waiting})


class Subscriber(msgspec.Struct, frozen=True):
    """Whose progress it is."""

    group: str
    topic: str


_decode_progress = msgspec.json.Decoder(Progress).decode
_decode_subscriber = msgspec.json.Decoder(Subscriber).decode


def lane_of(event: EventRecord) -> str:
    """The lane of an event: its aggregate's, or one of its own."""
    return f"#{event.id}" if event.aggregate is None else f"={event.aggregate}"


def aggregate_of(lane: str) -> str | None:
    return lane[1:] if lane.startswith("=") else None


def record_name(group: str, topic: str) -> str:
    """The name under which the progress is stored. A space is in no name."""
    return f"{PREFIX}{group} {topic}"


def topic_of(name: str) -> str:
    """The topic of a record's name."""
    return name.partition(" ")[2]


def is_schedule(name: str) -> bool:
    """Whether a record's name is that of a schedule, and not of a group."""
    return name < PREFIX


def decode(record: ScheduleRecord) -> tuple[Subscriber, Progress]:
    """What was stored. Raises msgspec.MsgspecError for what this version cannot read."""
    try:
        return _decode_subscriber(record.definition), _decode_progress(record.state)
    except (UnicodeDecodeError, RecursionError) as error:
        raise msgspec.ValidationError(str(error)) from error


def as_write(
    subscriber: Subscriber, progress: Progress, before: ScheduleRecord | None, mark: str
) -> ScheduleWrite:
    """The progress to be stored in the place of what was seen before."""
    return ScheduleWrite(
        name=record_name(subscriber.group, subscriber.topic),
        version=0 if before is None else before.version,
        mark=mark,
        after=None if before is None else before.mark,
        definition=msgspec.json.encode(subscriber),
        state=msgspec.json.encode(progress),
        look_at=None,
    )
