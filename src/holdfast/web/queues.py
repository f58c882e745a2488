"""Queues: seen, paused and resumed."""

from __future__ import annotations

import msgspec

from holdfast.model.flow import Scope
from holdfast.web.access import Role
from holdfast.web.documents import QueueDocument, queue_documents
from holdfast.web.routing import Incoming, Routes

routes = Routes()


class QueuesAnswer(msgspec.Struct, kw_only=True):
    """Queues that have jobs or were ever paused, by name."""

    queues: list[QueueDocument]


class PauseAnswer(msgspec.Struct, kw_only=True):
    """The queue, and whether it is paused now."""

    name: str
    paused: bool


@routes.add("GET", "/queues", Role.READ)
async def list_queues(incoming: Incoming[None, None]) -> QueuesAnswer:
    """Lists queues with the counts of their jobs."""
    app = incoming.app
    with app.partitions.tolerating():
        limits = {each.name: each for each in await app.limits.list() if each.scope is Scope.QUEUE}
        return QueuesAnswer(queues=queue_documents(await app.queues.list(), limits))


@routes.add("POST", "/queues/{name}/pause", Role.OPERATE)
async def pause_queue(incoming: Incoming[None, None]) -> PauseAnswer:
    """Lets no job of a queue begin; those that are running go on."""
    await incoming.app.queues.pause(incoming.path["name"])
    return PauseAnswer(name=incoming.path["name"], paused=True)


@routes.add("POST", "/queues/{name}/resume", Role.OPERATE)
async def resume_queue(incoming: Incoming[None, None]) -> PauseAnswer:
    """Lets the jobs of a queue begin again."""
    await incoming.app.queues.resume(incoming.path["name"])
    return PauseAnswer(name=incoming.path["name"], paused=False)
