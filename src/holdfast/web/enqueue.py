"""Enqueueing by the name of a task: checked by its signature if the application is known here."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal

import msgspec

from holdfast.app import Holdfast
from holdfast.model.errors import InvalidJob, UnknownTask
from holdfast.model.options import Options
from holdfast.model.payload import encode_fields
from holdfast.model.task import CLOSING, DEFAULT_QUEUE, Call
from holdfast.model.timing import SECOND
from holdfast.web.access import Role
from holdfast.web.documents import JobDocument, record_document
from holdfast.web.fields import Duration, Ids, Instant, JobId, Name, Priority, Tags
from holdfast.web.problem import Problem
from holdfast.web.routing import Incoming, Routes

routes = Routes()

IDEMPOTENCY_KEY = "Idempotency-Key"


class CallBody(msgspec.Struct, kw_only=True):
    """A task, and its arguments by name."""

    task: Name
    arguments: dict[str, Any] = {}
    queue: Name | None = None
    priority: Priority | None = None
    tags: Tags | None = None
    timeout: Duration | None = None
    lease: Duration | None = None
    limit_key: Name | None = None
    fair_key: Name | None = None
    sequence_key: Name | None = None
    on_failure: Literal["continue", "halt"] | None = None
    expires: Duration | None = None


class EnqueueBody(CallBody, kw_only=True, forbid_unknown_fields=True):
    """A job to be stored. Its key may be given as the header `Idempotency-Key` instead."""

    delay: Duration | None = None
    at: Instant | None = None
    key: Name | None = None
    key_ttl: Duration | None = None
    id: JobId | None = None
    after: Ids | None = None
    after_any: bool | None = None


class EnqueuedAnswer(msgspec.Struct, kw_only=True):
    """The job, and whether this request has made it: with a key that is held it was there before."""

    job: JobDocument
    created: bool


@routes.add("POST", "/jobs", Role.OPERATE, status=201, also=(200,))
async def enqueue(incoming: Incoming[None, EnqueueBody]) -> EnqueuedAnswer:
    """Stores a job. With the header `Idempotency-Key`, at most once for each key."""
    body = incoming.body
    call = await make_call(
        incoming.app,
        body,
        delay=body.delay,
        at=body.at,
        key=_key(incoming),
        key_ttl=body.key_ttl,
        id=body.id,
        after=body.after,
        after_any=body.after_any,
    )
    added = await incoming.app.client.take(call)
    incoming.touched.append(added.record.id)
    incoming.status = 201 if added.created else 200
    return EnqueuedAnswer(job=record_document(added.record), created=added.created)


def _key(incoming: Incoming[None, EnqueueBody]) -> str | None:
    given = incoming.request.headers.get(IDEMPOTENCY_KEY)
    if given is None:
        return incoming.body.key
    if incoming.body.key not in (None, given):
        raise Problem(400, "invalid", "the header and the body name different keys", "key")
    return given


async def make_call(app: Holdfast, body: CallBody, **more: Any) -> Call:
    """The call of a task. Of one that is not known here, a live worker must know it."""
    said: dict[str, Any] = {
        "queue": body.queue,
        "priority": body.priority,
        "tags": body.tags,
        "timeout": body.timeout,
        "lease": body.lease,
        "limit_key": body.limit_key,
        "fair_key": body.fair_key,
        "sequence_key": body.sequence_key,
        "on_failure": body.on_failure,
        "expires": body.expires,
        **more,
    }
    known = app.tasks.get(body.task)
    if known is not None:
        return known.using(**said).call(**body.arguments)
    settings = app.settings
    queue = await _queue_of(app, body)
    payload = encode_fields(body.arguments, limit=settings.payload_bytes, field="arguments")
    definition = replace(CLOSING, name=body.task, queue=queue)
    return Call(definition, payload, Options.of(**said), round(settings.key_ttl_seconds * SECOND))


async def _queue_of(app: Holdfast, body: CallBody) -> str:
    """Where the jobs of a task go that only workers know."""
    knowing = [worker for worker in await app.workers() if worker.live and body.task in worker.tasks]
    if not knowing or body.task == CLOSING.name:
        raise UnknownTask(f"neither this server nor any live worker knows a task {body.task!r}")
    served = {queue for worker in knowing for queue in worker.queues}
    if body.queue is not None:
        return body.queue
    if DEFAULT_QUEUE in served or not served:
        return DEFAULT_QUEUE
    if len(served) > 1:
        raise InvalidJob("queue", f"say which; workers that know {body.task!r} serve several")
    return served.pop()
