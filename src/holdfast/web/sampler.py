"""Looks at the store for everybody: one look in two seconds, however many watch."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta

from holdfast.app import Holdfast
from holdfast.engine.partition import sorted_ids
from holdfast.model.errors import StoreError
from holdfast.model.flow import Scope
from holdfast.model.lifecycle import State
from holdfast.model.limits import LimitInfo
from holdfast.model.overview import WorkerInfo
from holdfast.model.pulse import Pulse
from holdfast.model.series import Point, Series
from holdfast.telemetry.logs import log
from holdfast.web.documents import (
    Crowd,
    JobDocument,
    Overview,
    ScheduleSummary,
    leader_document,
    queue_documents,
    record_document,
    stats_of,
)
from holdfast.web.link import Link, seen

logger = logging.getLogger("holdfast.web")

STEP_SECONDS = 2.0
IDLE_STEP_SECONDS = 10.0
"""The same while nobody watches: seldom, but so that a chart has something to show."""
LOOKED_SECONDS = 60.0
FRESH_SECONDS = 15.0
"""How old an overview may be that is given at once, while a newer one is fetched."""
RECENT_SECONDS = 1.0
"""The same, for who asks for one thing and wants it as it is."""
_LEAST_STEP_SECONDS = 0.2
_SELDOM_SECONDS = 10.0
_PATIENCE_SECONDS = 60.0
_LONG_SECONDS = 0.5
_SHARE = 5
"""After a look that took long the store is left alone for so many times as long."""
_MOST_ASKED = 500
_MOST_SCHEDULES = 2_000


class Watcher:
    """Somebody who wants to be told of each look. Those who are slow get the newest only."""

    def __init__(self, jobs: Iterable[str] = ()) -> None:
        self.jobs = frozenset(jobs)
        self.news = asyncio.Event()


class Sampler:
    """Keeps the last overview, the points of the last minutes, and the jobs that are watched."""

    def __init__(self, app: Holdfast, link: Link) -> None:
        self._app = app
        self._link = link
        self._pulse = Pulse()
        self._series = Series()
        self._watchers: set[Watcher] = set()
        self._task: asyncio.Task[None] | None = None
        self._looking: asyncio.Task[Overview] | None = None
        self._stir = asyncio.Event()
        self._looked_at = float("-inf")
        self._sampled_at = float("-inf")
        self._seldom_at = float("-inf")
        self._pause = 0.0
        self._limits: dict[str, LimitInfo] = {}
        self._schedules = ScheduleSummary(total=0, paused=0, next=None, more=False)
        self.overview_known: Overview | None = None
        self.point: Point | None = None
        self.jobs: dict[str, JobDocument | None] = {}

    async def overview(self, most_seconds: float = FRESH_SECONDS) -> Overview:
        """The overview: the last one if it is not older than that, else a new one.

        Where a look takes long, because so many jobs wait that it is work to count them, it may be older.
        """
        self._notice_look()
        known = self.overview_known
        if known is not None and _now() - self._sampled_at <= self._allowed(most_seconds):
            return known
        return await self._look()

    def _allowed(self, seconds: float) -> float:
        return seconds if not self._pause else max(seconds, self._pause + FRESH_SECONDS)

    async def first(self, patience: float) -> None:
        """Waits for the first look, but not for long: then nobody else has to."""
        try:
            async with asyncio.timeout(patience):
                await self._look()
        except (StoreError, TimeoutError) as error:
            log(logger, logging.DEBUG, "the first look is late", error=str(error))

    def points(self, queue: str | None, minutes: float) -> list[Point]:
        self._notice_look()
        return self._series.points(queue, datetime.now(UTC) - timedelta(minutes=minutes))

    def watch(self, watcher: Watcher) -> None:
        self._watchers.add(watcher)
        self._looked_at = _now()
        self._stir.set()

    def leave(self, watcher: Watcher) -> None:
        self._watchers.discard(watcher)

    def forget(self) -> None:
        """Something was changed here: what is known is old, and the next look comes at once."""
        self._seldom_at = float("-inf")
        if not self._pause:
            self._sampled_at = float("-inf")
        self._stir.set()

    def start(self) -> None:
        """Begins to look, on the running event loop."""
        if self._task is None or self._task.get_loop() is not asyncio.get_running_loop():
            self._stir, self._looking = asyncio.Event(), None
            self._task = asyncio.get_running_loop().create_task(self._run())

    async def stop(self) -> None:
        task, self._task = self._task, None
        if task is not None and task.get_loop() is asyncio.get_running_loop():
            task.cancel()
            await asyncio.wait([task])

    async def _run(self) -> None:
        while True:
            try:
                await self._look()
            except (StoreError, TimeoutError) as error:
                log(logger, logging.DEBUG, "the store was not looked at", error=str(error))
            except Exception:
                logger.exception("the store could not be looked at")
            is_watched = bool(self._watchers) or _now() - self._looked_at < LOOKED_SECONDS
            await self._rest(max(self._pause, STEP_SECONDS if is_watched else IDLE_STEP_SECONDS))

    async def _rest(self, seconds: float) -> None:
        await asyncio.sleep(max(_LEAST_STEP_SECONDS, self._pause))
        try:
            async with asyncio.timeout(seconds):
                await self._stir.wait()
        except TimeoutError:
            return
        finally:
            self._stir.clear()

    def _notice_look(self) -> None:
        if _now() - self._looked_at >= LOOKED_SECONDS:
            self._stir.set()
        self._looked_at = _now()

    async def _look(self) -> Overview:
        """One look, shared by all who ask while it is under way."""
        if self._looking is None or self._looking.done():
            self._looking = asyncio.get_running_loop().create_task(self._sample())
            self._looking.add_done_callback(seen)
        return await asyncio.shield(self._looking)

    async def _sample(self) -> Overview:
        began = _now()
        async with asyncio.timeout(_PATIENCE_SECONDS):
            overview = await self._sampled()
        took = _now() - began
        self._pause = 0.0 if took < _LONG_SECONDS else took * _SHARE
        return overview

    async def _sampled(self) -> Overview:
        await self._link.ensure()
        app = self._app
        with app.partitions.tolerating():
            queues = await app.queues.list(exact=False)
            workers = await app.workers()
            leader = await app.leader()
            if _now() - self._seldom_at >= _SELDOM_SECONDS:
                await self._look_seldom()
        self.jobs = await self._watched()
        now = datetime.now(UTC)
        self.point = self._series.add(now, queues, self._pulse.take(workers, _now()))
        stats = stats_of(queues)
        self.overview_known = Overview(
            now=now,
            stats=stats,
            queues=queue_documents(queues, self._limits),
            workers=_crowd(workers),
            leader=leader_document(leader),
            schedules=self._schedules,
            dlq=stats.by_state[State.DLQ],
        )
        self._sampled_at = _now()
        for watcher in self._watchers:
            watcher.news.set()
        return self.overview_known

    async def _look_seldom(self) -> None:
        limits = await self._app.limits.list()
        self._limits = {limit.name: limit for limit in limits if limit.scope is Scope.QUEUE}
        found = await self._app.schedules.page(limit=_MOST_SCHEDULES)
        coming = [each.next_due for each in found if each.next_due is not None and not each.paused]
        self._schedules = ScheduleSummary(
            total=len(found),
            paused=sum(each.paused for each in found),
            next=min(coming, default=None),
            more=len(found) == _MOST_SCHEDULES,
        )
        self._seldom_at = _now()

    async def _watched(self) -> dict[str, JobDocument | None]:
        wanted = sorted({job for watcher in self._watchers for job in watcher.jobs})
        session = self._app.client.session
        found: dict[str, JobDocument | None] = {}
        for part in sorted_ids(session, wanted, _MOST_ASKED):
            records = await session.jobs.states(part)
            found.update(
                (job, None if record is None else record_document(record))
                for job, record in zip(part, records, strict=True)
            )
        return found


def _crowd(workers: list[WorkerInfo]) -> Crowd:
    live = [worker for worker in workers if worker.live]
    reports = [worker.report for worker in live if worker.report is not None]
    return Crowd(
        live=len(live),
        dead=len(workers) - len(live),
        slots=sum(worker.concurrency for worker in live),
        busy=sum(report.busy for report in reports),
    )


def _now() -> float:
    return asyncio.get_running_loop().time()
