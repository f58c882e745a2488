"""Tasks that can be enqueued: those of the application, and those that live workers know."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

import msgspec

from holdfast.model.task import CLOSING
from holdfast.task import Task
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
                schema=_schema_of(app.tasks.get(name)),
            )
            for name in sorted(names - {CLOSING.name})
        ]
    )


def _schema_of(task: Task[..., Any] | None) -> dict[str, Any] | None:
    return None if task is None else _without_defaults(task.definition.signature.schema)


def _without_defaults(schema: Any) -> Any:
    """The schema without what fields are when nothing is given, which is code's own and may be a secret."""
    if isinstance(schema, list):
        return [_without_defaults(each) for each in cast("Sequence[Any]", schema)]
    if not isinstance(schema, dict):
        return schema
    parts = cast("Mapping[str, Any]", schema)
    return {
        name: _fields(part) if name == "properties" else _without_defaults(part)
        for name, part in parts.items()
    }


def _fields(fields: dict[str, dict[str, Any]]) -> dict[str, Any]:
    return {name: _without_defaults(_bare(field)) for name, field in fields.items()}


def _bare(field: dict[str, Any]) -> dict[str, Any]:
    return {name: part for name, part in field.items() if name != "default"}
