"""Tasks that can be enqueued: those of the application, and those that live workers know."""

from __future__ import annotations

from typing import Any

import msgspec

from holdfast.model.task import CLOSING
from holdfast.web.access import Role
from holdfast.web.routing import Incoming, Routes

routes = Routes()


class TaskDocument(msgspec.Struct, kw_only=True):
    """A task, how many live workers know it, and the JSON schema of its arguments if that is known here."""

    name: str
    workers: int
    schema: dict[str, Any] | None


class TasksAnswer(msgspec.Struct, kw_only=True):
    """All known tasks by name."""

    tasks: list[TaskDocument]


@routes.add("GET", "/tasks", Role.READ)
async def list_tasks(incoming: Incoming[None, None]) -> TasksAnswer:
    """Lists tasks."""
    app = incoming.app
    with app.partitions.tolerating():
        live = [worker for worker in await app.workers() if worker.live]
    names = {name for worker in live for name in worker.tasks} | {*app.tasks}
    return TasksAnswer(
        tasks=[
            TaskDocument(
                name=name,
                workers=sum(name in worker.tasks for worker in live),
                schema=None if (task := app.tasks.get(name)) is None else task.definition.signature.schema,
            )
            for name in sorted(names - {CLOSING.name})
        ]
    )
