"""Jobs: found, looked at, steered one by one."""

from __future__ import annotations

from typing import Any

import msgspec

from holdfast.engine.client import CancelAnswer
from holdfast.model.errors import JobGone
from holdfast.model.explanation import Explanation
from holdfast.model.masking import mask
from holdfast.web.access import Role
from holdfast.web.documents import AttemptDocument, JobDocument, attempt_document, job_document
from holdfast.web.fields import Cursor, Duration, Instant, Name, Page, Priority, States, Tags
from holdfast.web.routing import Incoming, Routes
from holdfast.web.waiting import FlowDocument, flow_document

routes = Routes()


class JobsQuery(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """Which jobs; all that is given must fit."""

    state: States = ()
    queue: Name | None = None
    task: Name | None = None
    tag: Name | None = None
    worker: Name | None = None
    due_after: Instant | None = None
    due_before: Instant | None = None
    limit: Page = 50
    cursor: Cursor | None = None


class JobsAnswer(msgspec.Struct, kw_only=True):
    """Jobs, newest first; `cursor` asks for the next page, null when this was the last."""

    jobs: list[JobDocument]
    cursor: str | None


class ExplanationDocument(msgspec.Struct, kw_only=True):
    """Why a job stands where it stands: a sentence, and the facts behind it."""

    sentence: str
    facts: dict[str, Any]


class JobAnswer(msgspec.Struct, kw_only=True):
    """A job as it now stands."""

    job: JobDocument


class JobPage(msgspec.Struct, kw_only=True):
    """All about one job. Arguments and result have their secrets replaced."""

    job: JobDocument
    attempts: list[AttemptDocument]
    explanation: ExplanationDocument
    arguments: Any
    result: Any
    flow: FlowDocument | None
    partition: str | None


class PayloadAnswer(msgspec.Struct, kw_only=True):
    """What a job was given and what it gave, with nothing left out."""

    arguments: Any
    result: Any


class CancelDocument(msgspec.Struct, kw_only=True):
    """What became of the wish: cancelled, its holder asked to stop, or finished before."""

    answer: CancelAnswer


class ReplayBody(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """With a `key` the job is put back to work under that idempotency key."""

    key: Name | None = None


class EditBody(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """What to change. With a `version` it is only changed if nobody else did so since."""

    version: int | None = None
    queue: Name | None = None
    priority: Priority | None = None
    delay: Duration | None = None
    at: Instant | None = None
    tags: Tags | None = None


@routes.add("GET", "/jobs", Role.READ)
async def find_jobs(incoming: Incoming[JobsQuery, None]) -> JobsAnswer:
    """Finds jobs, newest first."""
    query = incoming.query
    with incoming.app.partitions.tolerating():
        page = await incoming.app.find(
            state=query.state,
            queue=query.queue,
            task=query.task,
            tag=query.tag,
            worker=query.worker,
            due_after=query.due_after,
            due_before=query.due_before,
            limit=query.limit,
            cursor=query.cursor,
        )
    return JobsAnswer(jobs=[job_document(job) for job in page], cursor=page.cursor)


@routes.add("GET", "/jobs/{id}", Role.READ)
async def get_job(incoming: Incoming[None, None]) -> JobPage:
    """Shows a job: its attempts, why it stands where it stands, its arguments and its result."""
    app, job_id = incoming.app, incoming.path["id"]
    job = await app.get(job_id)
    if job is None:
        raise _gone(job_id)
    explanation = await app.explain(job.id)
    contents = await app.contents(job.id)
    return JobPage(
        job=job_document(job),
        attempts=[attempt_document(each) for each in await app.history(job.id)],
        explanation=_explanation_document(explanation),
        arguments=None if contents is None else contents.arguments,
        result=None if contents is None else contents.result,
        flow=await flow_document(app, job.id),
        partition=await app.partitions.of_job(job.id),
    )


@routes.add("GET", "/jobs/{id}/payload", Role.ADMIN, audited=True)
async def get_payload(incoming: Incoming[None, None]) -> PayloadAnswer:
    """Shows the arguments and the result of a job with its secrets. Who asks for them is recorded."""
    contents = await incoming.app.contents(incoming.path["id"], reveal=True)
    if contents is None:
        raise _gone(incoming.path["id"])
    return PayloadAnswer(arguments=contents.arguments, result=contents.result)


@routes.add("POST", "/jobs/{id}/cancel", Role.OPERATE)
async def cancel_job(incoming: Incoming[None, None]) -> CancelDocument:
    """Cancels a job that waits; asks the worker of one that runs to stop it."""
    return CancelDocument(answer=await incoming.app.cancel(incoming.path["id"]))


@routes.add("POST", "/jobs/{id}/replay", Role.OPERATE)
async def replay_job(incoming: Incoming[None, ReplayBody]) -> JobAnswer:
    """Gives a dead or failed job all its attempts again."""
    job = await incoming.app.replay(incoming.path["id"], key=incoming.body.key)
    return JobAnswer(job=job_document(job))


@routes.add("PATCH", "/jobs/{id}", Role.OPERATE)
async def edit_job(incoming: Incoming[None, EditBody]) -> JobAnswer:
    """Changes a job that waits or is dead."""
    body = incoming.body
    job = await incoming.app.edit(
        incoming.path["id"],
        version=body.version,
        queue=body.queue,
        priority=body.priority,
        delay=body.delay,
        at=body.at,
        tags=body.tags,
    )
    return JobAnswer(job=job_document(job))


@routes.add("DELETE", "/jobs/{id}", Role.ADMIN, status=204)
async def delete_job(incoming: Incoming[None, None]) -> None:
    """Removes a job with its history, unless it is being run."""
    if not await incoming.app.delete(incoming.path["id"]):
        raise _gone(incoming.path["id"])


def _explanation_document(explanation: Explanation) -> ExplanationDocument:
    facts = {name: mask(fact) if isinstance(fact, str) else fact for name, fact in explanation.facts.items()}
    return ExplanationDocument(sentence=mask(explanation.sentence), facts=facts)


def _gone(job_id: str) -> JobGone:
    return JobGone(f"no job {ascii(job_id)[:60]} is stored")
