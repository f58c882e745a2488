"""Events, and the groups that consume them."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

import msgspec
from msgspec import Meta
from msgspec.structs import replace

from holdfast.engine.events import GroupInfo
from holdfast.model.events import Event
from holdfast.model.masking import mask
from holdfast.web.access import Role
from holdfast.web.fields import Aggregate, JobId, Name, Page
from holdfast.web.routing import Incoming, Routes

routes = Routes()


class EventsQuery(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """Events of a topic, or of one aggregate of it; those behind a position, the newest without one."""

    topic: Name | None = None
    aggregate: Aggregate | None = None
    after: Annotated[int, Meta(ge=0, le=2**53)] | None = None
    limit: Page = 50


class EventDocument(msgspec.Struct, kw_only=True):
    """An event; secrets in its data are replaced."""

    id: str | None
    topic: str
    type: str
    data: Any
    aggregate: str | None
    version: int | None
    position: int | None
    at: datetime | None


class EventsAnswer(msgspec.Struct, kw_only=True):
    """Events in their order; `after` asks for those that follow, also for those that are still to come."""

    events: list[EventDocument]
    after: int | None


class GroupsAnswer(msgspec.Struct, kw_only=True):
    """Groups by name and topic, with what they have before them and what failed."""

    groups: list[GroupInfo]


class WaitingBody(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """Which of the events that failed; all of the group and topic without either."""

    aggregate: Aggregate | None = None
    event: JobId | None = None


class ResumedAnswer(msgspec.Struct, kw_only=True):
    """How many events."""

    done: int


@routes.add("GET", "/events", Role.READ)
async def list_events(incoming: Incoming[EventsQuery, None]) -> EventsAnswer:
    """Lists events."""
    query, events = incoming.query, incoming.app.events
    with incoming.app.partitions.tolerating():
        if query.after is None:
            found = await events.newest(query.topic, aggregate=query.aggregate, limit=query.limit)
        else:
            found = await events.list(
                query.topic, aggregate=query.aggregate, after=query.after, limit=query.limit
            )
    redact = incoming.app.redactor.redact
    return EventsAnswer(
        events=[_document(event, redact(event.data, among=len(found))) for event in found],
        after=found[-1].position if found else query.after,
    )


@routes.add("GET", "/groups", Role.READ)
async def list_groups(incoming: Incoming[None, None]) -> GroupsAnswer:
    """Lists the groups that consume events."""
    with incoming.app.partitions.tolerating():
        groups = await incoming.app.events.groups()
    return GroupsAnswer(groups=[_group_document(group) for group in groups])


@routes.add("POST", "/groups/{group}/{topic}/replay", Role.OPERATE)
async def replay_events(incoming: Incoming[None, WaitingBody]) -> ResumedAnswer:
    """Has events that failed tried again at once."""
    body, path = incoming.body, incoming.path
    events = incoming.app.events
    done = await events.replay(path["group"], path["topic"], event=body.event, aggregate=body.aggregate)
    return ResumedAnswer(done=done)


@routes.add("POST", "/groups/{group}/{topic}/skip", Role.OPERATE)
async def skip_events(incoming: Incoming[None, WaitingBody]) -> ResumedAnswer:
    """Leaves out events that failed, so that what follows goes on."""
    body, path = incoming.body, incoming.path
    events = incoming.app.events
    done = await events.skip(path["group"], path["topic"], event=body.event, aggregate=body.aggregate)
    return ResumedAnswer(done=done)


def _group_document(group: GroupInfo) -> GroupInfo:
    return replace(group, waiting=[replace(each, reason=mask(each.reason)) for each in group.waiting])


def _document(event: Event[Any], data: object) -> EventDocument:
    return EventDocument(
        id=event.id,
        topic=event.topic,
        type=event.type,
        data=data,
        aggregate=event.aggregate,
        version=event.version,
        position=event.position,
        at=event.at,
    )
