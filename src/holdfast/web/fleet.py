"""Workers with what they hold, and who leads."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import msgspec

from holdfast.model.overview import WorkerInfo
from holdfast.model.report import QueueReport, WorkerReport
from holdfast.web.access import Role
from holdfast.web.documents import JobDocument, LeaderDocument, job_document, leader_document
from holdfast.web.problem import Problem
from holdfast.web.routing import Incoming, Routes

routes = Routes()

_MOST_HELD = 200


class ReportDocument(msgspec.Struct, kw_only=True):
    """How a worker stood `at` an instant, and what it has done since it started: by queue, and in `total`."""

    at: datetime
    slots: int
    busy: int
    stuck: int
    waiting: int
    claiming: bool
    oldest_run: float | None
    by_queue: dict[str, QueueReport]
    total: QueueReport


class WorkerDocument(msgspec.Struct, kw_only=True):
    """A worker, as it last told."""

    id: str
    host: str
    pid: int
    queues: Sequence[str]
    tasks: Sequence[str]
    concurrency: int
    version: str
    started: datetime
    seen: datetime
    live: bool
    report: ReportDocument | None


class WorkersAnswer(msgspec.Struct, kw_only=True):
    """All known workers by id."""

    workers: list[WorkerDocument]


class WorkerPage(msgspec.Struct, kw_only=True):
    """A worker, and the newest of the jobs that it holds."""

    worker: WorkerDocument
    jobs: list[JobDocument]
    more: bool


class LeaderAnswer(msgspec.Struct, kw_only=True):
    """Who fires schedules; null while nobody does. With partitions, the leader of each by its name."""

    leader: LeaderDocument | None
    partitions: dict[str, LeaderDocument | None]


@routes.add("GET", "/workers", Role.READ)
async def list_workers(incoming: Incoming[None, None]) -> WorkersAnswer:
    """Lists workers, the dead ones of the last day among them."""
    with incoming.app.partitions.tolerating():
        return WorkersAnswer(workers=[_document(each) for each in await incoming.app.workers()])


@routes.add("GET", "/workers/{id}", Role.READ)
async def get_worker(incoming: Incoming[None, None]) -> WorkerPage:
    """Shows a worker with the jobs that it holds."""
    wanted = incoming.path["id"]
    with incoming.app.partitions.tolerating():
        found = next((each for each in await incoming.app.workers() if each.id == wanted), None)
        if found is None:
            raise Problem(404, "not_found", f"no worker {ascii(wanted)[:60]} is known")
        jobs = await incoming.app.find(worker=found.id, limit=_MOST_HELD)
    return WorkerPage(
        worker=_document(found), jobs=[job_document(job) for job in jobs], more=jobs.cursor is not None
    )


@routes.add("GET", "/leader", Role.READ)
async def get_leader(incoming: Incoming[None, None]) -> LeaderAnswer:
    """Shows who leads, in which term, and how long that lasts unless it is prolonged."""
    app = incoming.app
    leaders = await app.partitions.leaders() if app.partitions.names else {}
    return LeaderAnswer(
        leader=leader_document(await app.leader()),
        partitions={name: leader_document(leader) for name, leader in leaders.items()},
    )


def _document(worker: WorkerInfo) -> WorkerDocument:
    report = worker.report
    return WorkerDocument(
        id=worker.id,
        host=worker.host,
        pid=worker.pid,
        queues=worker.queues,
        tasks=worker.tasks,
        concurrency=worker.concurrency,
        version=worker.version,
        started=worker.started,
        seen=worker.seen,
        live=worker.live,
        report=None if report is None else _report(report),
    )


def _report(report: WorkerReport) -> ReportDocument:
    told: dict[str, Any] = {name: getattr(report, name) for name in report.__struct_fields__}
    return ReportDocument(**told, total=report.total)
