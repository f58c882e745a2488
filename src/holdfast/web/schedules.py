"""Schedules: seen, put, run, paused and removed."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from holdfast.model.errors import ScheduleGone
from holdfast.model.events import Event
from holdfast.model.plan import ScheduleInfo
from holdfast.model.schedule import CATCH_UP, GRACE, Misfire, Overlap
from holdfast.model.task import Call
from holdfast.model.timing import SECOND
from holdfast.web.access import Role
from holdfast.web.enqueue import CallBody, make_call
from holdfast.web.fields import Aggregate, Duration, Name, Page
from holdfast.web.problem import Problem
from holdfast.web.recurrence import RecurrenceDocument, as_recurrence, recurrence_document
from holdfast.web.routing import Incoming, Routes

routes = Routes()

_SHOWN = 10


class SchedulesQuery(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """How many, behind which name."""

    limit: Page = 100
    after: Name | None = None


class ScheduleDocument(msgspec.Struct, kw_only=True):
    """A schedule: when it is due, what it fires, and how it stands."""

    name: str
    recurrence: RecurrenceDocument
    task: str | None
    queue: str | None
    topic: str | None
    misfire: Misfire
    overlap: Overlap
    jitter: float
    paused: bool
    next_due: datetime | None
    last_due: datetime | None
    missed: int
    skipped: int
    running: bool
    job: str | None
    version: int
    partition: str | None


class SchedulesAnswer(msgspec.Struct, kw_only=True):
    """Schedules by name; `after` asks for the next page, null when this was the last."""

    schedules: list[ScheduleDocument]
    after: str | None


class ScheduleAnswer(msgspec.Struct, kw_only=True):
    """A schedule, and when it is due next, as far as that is known without its runs."""

    schedule: ScheduleDocument
    next: list[datetime]


class EventBody(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """An event to be emitted at each firing."""

    topic: Name
    type: Name
    data: Any = None
    aggregate: Aggregate | None = None


class FiredCall(CallBody, kw_only=True, forbid_unknown_fields=True):
    """A call to be made at each firing."""


class ScheduleBody(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """When it is due, and what it fires: a `call` of a task, or an `event`.

    With a `version` it is only changed if that is the stored one; 0 means that there is none yet.
    """

    recurrence: RecurrenceDocument
    call: FiredCall | None = None
    event: EventBody | None = None
    misfire: Misfire = "once"
    overlap: Overlap = "skip"
    jitter: Duration = 0
    catch_up: Annotated[int, Meta(ge=1, le=10_000)] = CATCH_UP
    grace: Duration = GRACE / SECOND
    version: int | None = None


class FiredAnswer(msgspec.Struct, kw_only=True):
    """The id of the job or event that was made."""

    id: str


@routes.add("GET", "/schedules", Role.READ)
async def list_schedules(incoming: Incoming[SchedulesQuery, None]) -> SchedulesAnswer:
    """Lists schedules by name."""
    query = incoming.query
    with incoming.app.partitions.tolerating():
        found = await incoming.app.schedules.page(query.after or "", query.limit)
    last = found[-1].name if len(found) == query.limit else None
    return SchedulesAnswer(schedules=[_document(each) for each in found], after=last)


@routes.add("GET", "/schedules/{name}", Role.READ)
async def get_schedule(incoming: Incoming[None, None]) -> ScheduleAnswer:
    """Shows a schedule with its next due times."""
    name = incoming.path["name"]
    found = await incoming.app.schedules.get(name)
    if found is None:
        raise ScheduleGone(f"no schedule {ascii(name)[:60]} is stored")
    return await _answer(incoming, found)


@routes.add("PUT", "/schedules/{name}", Role.OPERATE)
async def put_schedule(incoming: Incoming[None, ScheduleBody]) -> ScheduleAnswer:
    """Stores a schedule, or changes the one of that name."""
    body = incoming.body
    found = await incoming.app.schedules.put(
        incoming.path["name"],
        as_recurrence(body.recurrence),
        await _fires(incoming, body),
        misfire=body.misfire,
        overlap=body.overlap,
        jitter=body.jitter,
        catch_up=body.catch_up,
        grace=body.grace,
        version=body.version,
    )
    return await _answer(incoming, found)


@routes.add("POST", "/schedules/{name}/run", Role.OPERATE)
async def run_schedule(incoming: Incoming[None, None]) -> FiredAnswer:
    """Fires a schedule once more, now."""
    fired = await incoming.app.schedules.run(incoming.path["name"])
    incoming.touched.append(fired)
    return FiredAnswer(id=fired)


@routes.add("POST", "/schedules/{name}/pause", Role.OPERATE)
async def pause_schedule(incoming: Incoming[None, None]) -> ScheduleAnswer:
    """Lets a schedule fire nothing until it is resumed."""
    return await _answer(incoming, await incoming.app.schedules.pause(incoming.path["name"]))


@routes.add("POST", "/schedules/{name}/resume", Role.OPERATE)
async def resume_schedule(incoming: Incoming[None, None]) -> ScheduleAnswer:
    """Lets a schedule fire again, from its next due time on."""
    return await _answer(incoming, await incoming.app.schedules.resume(incoming.path["name"]))


@routes.add("DELETE", "/schedules/{name}", Role.ADMIN, status=204)
async def remove_schedule(incoming: Incoming[None, None]) -> None:
    """Removes a schedule; jobs that it has fired stay."""
    if not await incoming.app.schedules.remove(incoming.path["name"]):
        raise ScheduleGone(f"no schedule {ascii(incoming.path['name'])[:60]} is stored")


async def _fires(incoming: Incoming[None, ScheduleBody], body: ScheduleBody) -> Call | Event[Any]:
    if (body.call is None) == (body.event is None):
        raise Problem(400, "invalid", "give either a call or an event", "call")
    if body.call is not None:
        return await make_call(incoming.app, body.call)
    assert body.event is not None
    given = body.event
    return Event(topic=given.topic, type=given.type, data=given.data, aggregate=given.aggregate)


async def _answer(incoming: Incoming[Any, Any], info: ScheduleInfo) -> ScheduleAnswer:
    coming = await incoming.app.schedules.next(info.name, _SHOWN)
    return ScheduleAnswer(schedule=_document(info), next=coming)


def _document(info: ScheduleInfo) -> ScheduleDocument:
    told: dict[str, Any] = {name: getattr(info, name) for name in info.__struct_fields__}
    told["recurrence"] = recurrence_document(info.recurrence)
    return ScheduleDocument(**told)
