"""Limits on queues, tasks and keys."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import Meta

from holdfast.app import Holdfast
from holdfast.model.flow import Scope
from holdfast.model.limits import MOST, LimitInfo
from holdfast.web.access import Role
from holdfast.web.problem import Problem
from holdfast.web.routing import Incoming, Routes

routes = Routes()

Amount = Annotated[int, Meta(ge=1, le=MOST)]


class LimitsAnswer(msgspec.Struct, kw_only=True):
    """All limits, with the jobs that run and wait under each."""

    limits: list[LimitInfo]


class LimitBody(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """How many may run at once, and how many may begin in each `per` seconds."""

    concurrency: Amount | None = None
    rate: Amount | None = None
    per: Annotated[float, Meta(gt=0, le=3_162_240_000)] = 1.0
    burst: Amount = 1
    weight: Annotated[float, Meta(ge=0.001, le=1_000_000)] | None = None


@routes.add("GET", "/limits", Role.READ)
async def list_limits(incoming: Incoming[None, None]) -> LimitsAnswer:
    """Lists limits."""
    return await _all(incoming.app)


@routes.add("PUT", "/limits/{scope}/{name}", Role.OPERATE)
async def set_limit(incoming: Incoming[None, LimitBody]) -> LimitsAnswer:
    """Sets a limit on a queue, a task, a key, or each key of a task; what stood before is replaced."""
    body = incoming.body
    await incoming.app.limits.set(
        **_target(incoming.path),
        concurrency=body.concurrency,
        rate=body.rate,
        per=body.per,
        burst=body.burst,
        weight=body.weight,
    )
    return await _all(incoming.app)


@routes.add("DELETE", "/limits/{scope}/{name}", Role.OPERATE, status=204)
async def remove_limit(incoming: Incoming[None, None]) -> None:
    """Removes a limit, if there is one."""
    await incoming.app.limits.remove(**_target(incoming.path))


async def _all(app: Holdfast) -> LimitsAnswer:
    return LimitsAnswer(limits=await app.limits.list())


def _target(path: dict[str, str]) -> dict[str, Any]:
    try:
        scope = Scope(path["scope"])
    except ValueError:
        raise Problem(404, "not_found", f"limits are of {', '.join(Scope)}", "scope") from None
    if scope is Scope.EACH_KEY:
        return {"task": path["name"], "each_key": True}
    return {scope.value: path["name"]}
