"""Everything at a glance, and the last minutes."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from holdfast.model.overview import Stats
from holdfast.model.series import Point
from holdfast.web.access import Role
from holdfast.web.documents import Overview
from holdfast.web.fields import Name
from holdfast.web.routing import Incoming, Routes
from holdfast.web.sampler import STEP_SECONDS

routes = Routes()


class SeriesQuery(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """Of which queue, all without one; and how far back."""

    queue: Name | None = None
    minutes: Annotated[float, Meta(gt=0, le=15)] = 15


class SeriesAnswer(msgspec.Struct, kw_only=True):
    """Points, oldest first, about `step` seconds apart while somebody watches, else further."""

    step: float
    points: list[Point]


@routes.add("GET", "/overview", Role.READ)
async def get_overview(incoming: Incoming[None, None]) -> Overview:
    """Shows counts, queues, workers, leader and schedules, a few seconds old at most."""
    return await incoming.site.sampler.overview()


@routes.add("GET", "/series", Role.READ)
async def get_series(incoming: Incoming[SeriesQuery, None]) -> SeriesAnswer:
    """Shows throughput, lateness, and what waits, over the last minutes."""
    query = incoming.query
    points = incoming.site.sampler.points(query.queue, query.minutes)
    return SeriesAnswer(step=STEP_SECONDS, points=points)


@routes.add("GET", "/stats", Role.READ)
async def get_stats(incoming: Incoming[None, None]) -> Stats:
    """Counts jobs by state and by queue."""
    with incoming.app.partitions.tolerating():
        return await incoming.app.stats()
