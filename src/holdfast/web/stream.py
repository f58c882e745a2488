"""The live stream: server-sent events for pages that stay open."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Annotated

import msgspec
from msgspec import Meta
from starlette.responses import Response, StreamingResponse

from holdfast.model.timing import EPOCH
from holdfast.web.access import Role
from holdfast.web.documents import JobDocument, LeaderDocument, Overview
from holdfast.web.entry import find_entry
from holdfast.web.fields import JobId
from holdfast.web.problem import Problem
from holdfast.web.routing import Incoming, Routes
from holdfast.web.sampler import Sampler, Watcher

routes = Routes()

EVENT_STREAM = "text/event-stream"
HEARTBEAT_SECONDS = 15.0
_GLANCE_SECONDS = 1.0
_RETRY = b"retry: 3000\n\n"
_HEARTBEAT = b": still here\n\n"


class StreamQuery(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """The jobs that are watched, if any; the parameter is repeated for each."""

    job: Annotated[tuple[JobId, ...], Meta(max_length=50)] = ()


@routes.add("GET", "/stream", Role.READ, produces=EVENT_STREAM, streams=True)
async def stream(incoming: Incoming[StreamQuery, None]) -> Response:
    """Tells of changes as server-sent events, until the session ends.

    `overview` has what GET /overview has, whenever that changed; `point` the newest of GET /series; `job` a
    watched job that changed. A comment every 15 seconds shows that the line is open.
    """
    site, user = incoming.site, incoming.identity.user
    if site.streaming[user] >= site.bounds.streams_each or site.streaming.total() >= site.bounds.streams:
        raise Problem(
            429, "too_many_streams", "too many streams are open; close some", headers={"Retry-After": "5"}
        )
    watcher = Watcher(job.lower() for job in incoming.query.job)

    async def may_stay() -> bool:
        """Of a session that was ended, or whose role has changed, the streams end as well."""
        entry = await find_entry(site, incoming.request)
        return entry is not None and entry.identity == incoming.identity

    async def told() -> AsyncGenerator[bytes]:
        site.streaming[user] += 1
        site.sampler.watch(watcher)
        try:
            async with asyncio.timeout(site.bounds.stream_seconds):
                async for part in _told(site.sampler, watcher, may_stay, lambda: site.is_closing):
                    yield part
        except TimeoutError:
            return
        finally:
            site.sampler.leave(watcher)
            site.streaming[user] -= 1

    return StreamingResponse(told(), media_type=EVENT_STREAM, headers={"X-Accel-Buffering": "no"})


async def _told(
    sampler: Sampler,
    watcher: Watcher,
    may_stay: Callable[[], Awaitable[bool]],
    is_closing: Callable[[], bool],
) -> AsyncGenerator[bytes]:
    loop = asyncio.get_running_loop()
    yield _RETRY
    memory = _Memory(sampler, watcher)
    checked = spoken = loop.time()
    while not (is_closing() or _is_server_leaving()):
        watcher.news.clear()
        parts = memory.news()
        if parts:
            spoken = loop.time()
            yield b"".join(parts)
        elif loop.time() - spoken >= HEARTBEAT_SECONDS:
            spoken = loop.time()
            yield _HEARTBEAT
        if loop.time() - checked >= _GLANCE_SECONDS:
            checked = loop.time()
            if not await may_stay():
                return
        try:
            async with asyncio.timeout(_GLANCE_SECONDS):
                await watcher.news.wait()
        except TimeoutError:
            continue


class _Memory:
    """What was told to one stream, so that only news are."""

    def __init__(self, sampler: Sampler, watcher: Watcher) -> None:
        self._sampler = sampler
        self._watcher = watcher
        self._overview: Overview | None = None
        self._point: object = None
        self._jobs: dict[str, JobDocument | None] = {}

    def news(self) -> list[bytes]:
        sampler = self._sampler
        parts: list[bytes] = []
        overview = sampler.overview_known
        if overview is not None and not _is_alike(overview, self._overview):
            self._overview = overview
            parts.append(_event("overview", overview))
        if sampler.point is not None and sampler.point is not self._point:
            self._point = sampler.point
            parts.append(_event("point", sampler.point))
        for job_id in self._watcher.jobs & sampler.jobs.keys():
            job = sampler.jobs[job_id]
            if job is not None and job != self._jobs.get(job_id):
                self._jobs[job_id] = job
                parts.append(_event("job", job))
        return parts


def _is_alike(one: Overview, other: Overview | None) -> bool:
    """Whether they say the same, but for the time that has passed."""
    return other is not None and _timeless(one) == _timeless(other)


def _timeless(overview: Overview) -> Overview:
    leader = overview.leader
    still = None if leader is None else LeaderDocument(worker=leader.worker, term=leader.term, left=0)
    return msgspec.structs.replace(overview, now=EPOCH, leader=still)


def _event(name: str, value: object) -> bytes:
    """JSON has no line breaks of its own, so that nothing in it can end the event."""
    return b"event: %s\ndata: %s\n\n" % (name.encode(), msgspec.json.encode(value))


def _is_server_leaving() -> bool:
    """Whether a uvicorn that serves us was told to stop: it waits for streams, but does not tell them."""
    server = getattr(signal.getsignal(signal.SIGTERM), "__self__", None)
    return getattr(server, "should_exit", False) is True
