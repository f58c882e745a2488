"""For machines that watch: metrics, health, and what this interface is."""

from __future__ import annotations

import msgspec
from starlette.responses import Response

from holdfast.model.errors import StoreError
from holdfast.telemetry.metrics import CONTENT_TYPE
from holdfast.web.access import Role
from holdfast.web.problem import JSON
from holdfast.web.routing import Incoming, Routes

routes = Routes()
root_routes = Routes("")


class HealthAnswer(msgspec.Struct, kw_only=True):
    """Whether all is well, and why not."""

    ok: bool
    reason: str | None = None


@routes.add("GET", "/openapi.json", Role.READ)
async def get_openapi(incoming: Incoming[None, None]) -> Response:
    """Describes this interface, as OpenAPI 3.1."""
    return Response(incoming.site.openapi, media_type=JSON)


@root_routes.add("GET", "/metrics", Role.READ, produces="text/plain")
async def get_metrics(incoming: Incoming[None, None]) -> Response:
    """Metrics as Prometheus reads them: the sizes of queues, and what this process has seen."""
    return Response(await incoming.site.metrics.collect(), media_type=CONTENT_TYPE)


@root_routes.add("GET", "/health/live", None)
async def get_live(incoming: Incoming[None, None]) -> HealthAnswer:  # noqa: ARG001  all handlers take it
    """Tells that the server answers. On this machine nobody needs to sign in for that."""
    return HealthAnswer(ok=True)


@root_routes.add("GET", "/health/ready", None, also=(503,))
async def get_ready(incoming: Incoming[None, None]) -> HealthAnswer:
    """Tells whether the store answers. On this machine nobody needs to sign in for that."""
    try:
        await incoming.site.link.ensure()
        await incoming.app.client.session.jobs.states([])
    except StoreError:
        incoming.status = 503
        return HealthAnswer(ok=False, reason="the store does not answer")
    return HealthAnswer(ok=True)
