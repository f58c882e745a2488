"""Many jobs at once: each is tried by itself, and those that were refused are named."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Annotated, Any, Literal, TypeAlias

import msgspec
from msgspec import Meta

from holdfast.engine.client import CancelAnswer
from holdfast.model.errors import Conflict, JobGone, StateConflict
from holdfast.model.lifecycle import State
from holdfast.web.access import Role
from holdfast.web.fields import Cursor, Ids, Instant, Name, States
from holdfast.web.problem import Problem, as_problem
from holdfast.web.routing import Incoming, Routes

routes = Routes()

Action: TypeAlias = Literal["cancel", "replay", "delete"]

_AT_ONCE = 20
_SHARE = 0.7
"""The part of the request's time after which nothing more is begun."""


class Filter(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """Which jobs; all that is given must fit, and something must be given."""

    state: States = ()
    queue: Name | None = None
    task: Name | None = None
    tag: Name | None = None
    worker: Name | None = None
    due_after: Instant | None = None
    due_before: Instant | None = None


class BulkBody(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """What to do with which jobs: these `ids`, or those that fit the `filter`, newest first.

    With a `cursor` the filter goes on behind the jobs that an earlier request has come to.
    """

    action: Action
    ids: Ids | None = None
    filter: Filter | None = None
    cursor: Cursor | None = None
    limit: Annotated[int, Meta(ge=1, le=1_000)] = 1_000


class Refusal(msgspec.Struct, kw_only=True):
    """A job with which it could not be done, and why."""

    id: str
    code: str
    message: str


class BulkAnswer(msgspec.Struct, kw_only=True):
    """With how many it was done, with which not, and whether there are more, to be done by asking again.

    `cursor` tells behind which job to go on; null when there are no more.
    """

    done: int
    refused: list[Refusal]
    more: bool
    cursor: str | None


@routes.add("POST", "/jobs/bulk", Role.OPERATE)
async def change_jobs(incoming: Incoming[None, BulkBody]) -> BulkAnswer:
    """Cancels, replays or deletes many jobs. To delete takes the role admin."""
    body = incoming.body
    if body.action == "delete" and not incoming.identity.role.covers(Role.ADMIN):
        raise Problem(403, "forbidden", f"to delete takes the role {Role.ADMIN}", "action")
    if (body.ids is None) == (body.filter is None):
        raise Problem(400, "invalid", "give either ids or a filter", "ids")
    if body.ids is not None:
        return await act_on(incoming, body.action, body.ids[: body.limit], more=len(body.ids) > body.limit)
    assert body.filter is not None
    if body.filter == Filter():
        raise Problem(400, "invalid", "an empty filter means everything; say what", "filter")
    given = {name: getattr(body.filter, name) for name in body.filter.__struct_fields__}
    page = await incoming.app.find(**given, limit=body.limit, cursor=body.cursor)
    return await act_on(incoming, body.action, [job.id for job in page], more=page.cursor is not None)


async def act_on(
    incoming: Incoming[Any, Any],
    action: Action,
    ids: Sequence[str],
    *,
    more: bool,
    state: State | None = None,
) -> BulkAnswer:
    """Acts on each job, if it is in the state, as far as the time goes."""
    deadline = asyncio.get_running_loop().time() + _SHARE * incoming.site.bounds.budget_seconds
    wanted = list(dict.fromkeys(ids))
    done, refused, last = 0, list[Refusal](), None
    for start in range(0, len(wanted), _AT_ONCE):
        if asyncio.get_running_loop().time() > deadline:
            more = True
            break
        part = wanted[start : start + _AT_ONCE]
        answers = await asyncio.gather(*(_tried(incoming, action, job_id, state) for job_id in part))
        refused += [answer for answer in answers if answer is not None]
        done += sum(answer is None for answer in answers)
        incoming.touched += part
        last = part[-1]
    return BulkAnswer(done=done, refused=refused, more=more, cursor=last if more else None)


async def _tried(
    incoming: Incoming[Any, Any], action: Action, job_id: str, state: State | None
) -> Refusal | None:
    try:
        await _do(incoming, action, job_id, state)
    except (Conflict, JobGone) as error:
        problem = as_problem(error)
        code = "conflict" if problem is None else problem.code
        return Refusal(id=job_id, code=code, message=str(error))
    return None


async def _do(incoming: Incoming[Any, Any], action: Action, job_id: str, state: State | None) -> None:
    app = incoming.app
    if state is not None:
        job = await app.get(job_id)
        if job is not None and job.state is not state:
            raise StateConflict(f"job {job_id} is {job.state}, not {state}")
    match action:
        case "cancel":
            if await app.cancel(job_id) is CancelAnswer.FINISHED:
                raise StateConflict(f"job {job_id} had finished before")
        case "replay":
            await app.replay(job_id)
        case "delete":
            if not await app.delete(job_id):
                raise JobGone(f"no job {job_id} is stored")
