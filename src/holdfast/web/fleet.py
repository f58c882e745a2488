"""Workers with what they hold, and who leads."""

from __future__ import annotations

import msgspec

from holdfast.model.overview import WorkerInfo
from holdfast.web.access import Role
from holdfast.web.documents import JobDocument, LeaderDocument, job_document, leader_document
from holdfast.web.problem import Problem
from holdfast.web.routing import Incoming, Routes

routes = Routes()

_MOST_HELD = 200


class WorkersAnswer(msgspec.Struct, kw_only=True):
    """All known workers by id."""

    workers: list[WorkerInfo]


class WorkerPage(msgspec.Struct, kw_only=True):
    """A worker, and the newest of the jobs that it holds."""

    worker: WorkerInfo
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
        return WorkersAnswer(workers=await incoming.app.workers())


@routes.add("GET", "/workers/{id}", Role.READ)
async def get_worker(incoming: Incoming[None, None]) -> WorkerPage:
    """Shows a worker with the jobs that it holds."""
    wanted = incoming.path["id"]
    with incoming.app.partitions.tolerating():
        found = next((each for each in await incoming.app.workers() if each.id == wanted), None)
        if found is None:
            raise Problem(404, "not_found", f"no worker {ascii(wanted)[:60]} is known")
        jobs = await incoming.app.find(worker=found.id, limit=_MOST_HELD)
    return WorkerPage(worker=found, jobs=[job_document(job) for job in jobs], more=jobs.cursor is not None)


@routes.add("GET", "/leader", Role.READ)
async def get_leader(incoming: Incoming[None, None]) -> LeaderAnswer:
    """Shows who leads, in which term, and how long that lasts unless it is prolonged."""
    app = incoming.app
    leaders = await app.partitions.leaders() if app.partitions.names else {}
    return LeaderAnswer(
        leader=leader_document(await app.leader()),
        partitions={name: leader_document(leader) for name, leader in leaders.items()},
    )
