"""The dead-letter queue, sorted by what went wrong."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from datetime import datetime
from typing import Any

import msgspec

from holdfast.app import Holdfast
from holdfast.engine.client import Page
from holdfast.model.job import Job
from holdfast.model.lifecycle import State
from holdfast.model.masking import mask
from holdfast.web.access import Role
from holdfast.web.bulk import BulkAnswer, act_on
from holdfast.web.fields import Ids, Name
from holdfast.web.problem import Problem
from holdfast.web.routing import Incoming, Routes

routes = Routes()

MOST = 2_000
_PAGE = 250
_SHOWN = 5
_MOST_CHANGED = 1_000
_LONGEST_LINE = 300
_LOOKED_AT = 4_000


class DeadQuery(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """Dead letters of a queue, of a task, or all."""

    queue: Name | None = None
    task: Name | None = None


class DeadGroup(msgspec.Struct, kw_only=True):
    """Dead letters that failed alike; `error` is the last line of the error, `ids` are the newest of them."""

    task: str
    queue: str
    reason: str | None
    error: str | None
    count: int
    newest: datetime | None
    oldest: datetime | None
    ids: list[str]


class DeadGroupsAnswer(msgspec.Struct, kw_only=True):
    """Groups, largest first, of the newest dead letters. `more`: there are others."""

    groups: list[DeadGroup]
    looked_at: int
    more: bool


class DeadBody(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """Which dead letters: these `ids`, or all that fit, of which one request changes at most 1,000."""

    ids: Ids | None = None
    task: Name | None = None
    queue: Name | None = None
    reason: str | None = None
    error: str | None = None


@routes.add("GET", "/dlq/groups", Role.READ)
async def list_dead_groups(incoming: Incoming[DeadQuery, None]) -> DeadGroupsAnswer:
    """Groups the newest dead letters by task, queue and error."""
    query = incoming.query
    groups: dict[tuple[str, str, str | None, str | None], DeadGroup] = {}
    looked_at, cursor = 0, None
    with incoming.app.partitions.tolerating():
        async for page in _pages(incoming.app, query.queue, query.task):
            looked_at, cursor = looked_at + len(page), page.cursor
            for job in page:
                _sort(groups, job)
    found = sorted(groups.values(), key=lambda group: group.count, reverse=True)
    return DeadGroupsAnswer(groups=found, looked_at=looked_at, more=cursor is not None)


@routes.add("POST", "/dlq/replay", Role.OPERATE)
async def replay_dead(incoming: Incoming[None, DeadBody]) -> BulkAnswer:
    """Puts dead letters back to work."""
    ids, more = await _chosen(incoming.app, incoming.body)
    return await act_on(incoming, "replay", ids, more=more, state=State.DLQ)


@routes.add("POST", "/dlq/discard", Role.ADMIN)
async def discard_dead(incoming: Incoming[None, DeadBody]) -> BulkAnswer:
    """Deletes dead letters for good."""
    ids, more = await _chosen(incoming.app, incoming.body)
    return await act_on(incoming, "delete", ids, more=more, state=State.DLQ)


async def _chosen(app: Holdfast, body: DeadBody) -> tuple[list[str], bool]:
    filters = (body.task, body.queue, body.reason, body.error)
    if (body.ids is None) == all(each is None for each in filters):
        raise Problem(400, "invalid", "give either ids, or some of task, queue, reason and error", "ids")
    if body.ids is not None:
        return body.ids, False
    found: list[str] = []
    cursor: str | None = None
    async for page in _pages(app, body.queue, body.task):
        cursor = page.cursor
        found += [job.id for job in page if _is_like(job, body)]
        if len(found) > _MOST_CHANGED:
            return found[:_MOST_CHANGED], True
    return found, cursor is not None


async def _pages(app: Holdfast, queue: str | None, task: str | None) -> AsyncGenerator[Page]:
    """The newest dead letters, page by page."""
    cursor: str | None = None
    for _ in range(MOST // _PAGE):
        page = await app.dlq.list(queue=queue, task=task, cursor=cursor, limit=_PAGE)
        cursor = page.cursor
        yield page
        if cursor is None:
            return


def _is_like(job: Job[Any], body: DeadBody) -> bool:
    return (body.reason is None or body.reason == _shown(job.reason)) and (
        body.error is None or body.error == _last_line(job.error)
    )


def _sort(groups: dict[tuple[str, str, str | None, str | None], DeadGroup], job: Job[Any]) -> None:
    reason, error = _shown(job.reason), _last_line(job.error)
    group = groups.setdefault(
        (job.task, job.queue, reason, error),
        DeadGroup(
            task=job.task,
            queue=job.queue,
            reason=reason,
            error=error,
            count=0,
            newest=job.finished,
            oldest=job.finished,
            ids=[],
        ),
    )
    group.count += 1
    group.oldest = job.finished
    if len(group.ids) < _SHOWN:
        group.ids.append(job.id)


def _shown(text: str | None) -> str | None:
    """The beginning of it; more than that is masked, for a secret's end may be behind what is shown."""
    return None if text is None else mask(text[:_LOOKED_AT])[:_LONGEST_LINE]


def _last_line(error: str | None) -> str | None:
    lines = (error or "").strip().splitlines()
    return _shown(lines[-1].strip()) if lines else None
