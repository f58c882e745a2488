"""A campaign from beginning to end: processes, faults, calm, and what stands in the store then."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from functools import partial
from time import monotonic
from typing import Final, TypeVar

from holdfast.model.errors import StoreError
from holdfast.model.overview import Stats
from holdfast.model.recurrence import every
from holdfast.torture import dump, dumping
from holdfast.torture.arenas import make_arena
from holdfast.torture.build import commit
from holdfast.torture.clocks import Clocks
from holdfast.torture.crew import Crew, Role, parts_of
from holdfast.torture.dumping import Settling
from holdfast.torture.history import Fault, Recorder
from holdfast.torture.nemesis import Nemesis
from holdfast.torture.plan import GAPS
from holdfast.torture.programs import witness
from holdfast.torture.programs.producer import ENOUGH
from holdfast.torture.programs.workload import app
from holdfast.torture.resource import Resource
from holdfast.torture.screen import Screen, Sight
from holdfast.torture.settings import (
    CANDIDATES,
    CONSUMERS,
    CONTENDERS,
    DRAIN,
    LEASE,
    NAMESPACE,
    PRODUCERS,
    SETTLE,
    SWEEP,
    Campaign,
)

T = TypeVar("T")

LOOK: Final = 0.5
LOSSES: Final = 0.02
"""Answers to be lost on the wire, as a share of the jobs."""
LAST: Final = 10.0
"""Seconds of faults, at most, for the jobs that are left when there are enough."""
STOPPING: Final = 20.0
SCHEDULES: Final = {"second": 1, "other second": 1, "two seconds": 2, "three seconds": 3}


@dataclass(frozen=True, slots=True)
class Ended:
    """How a campaign ended: what was left out of it and why, and how often each fault struck."""

    left_out: dict[str, str]
    counts: dict[str, int]
    seconds: float


class CampaignError(Exception):
    """The campaign itself could not be carried out."""


async def run(campaign: Campaign, screen: Screen) -> Ended:
    """Carries it out; its folder then has histories, logs and the dump."""
    return await _Running(campaign, screen).run()


def floors(jobs: int, left_out: Mapping[str, str]) -> dict[str, int]:
    """What must have happened at least: by the number of jobs, and each fault that is not left out once."""
    by_jobs = {
        "stale writes": 1_000,
        "take-overs": 1_000,
        "unknown outcomes": 1_000,
        "lost replies": 100,
        "leader changes": 10_000,
    }
    struck = {name: 1 for name in GAPS if name not in left_out}
    return {**struck, **{name: max(1, jobs // many) for name, many in by_jobs.items()}}


class _Running:
    def __init__(self, campaign: Campaign, screen: Screen) -> None:
        self._campaign = campaign
        self._screen = screen
        self._begun = monotonic()
        self._recorder = Recorder(campaign.out, "nemesis")
        self._arena = make_arena(campaign.store, campaign.out, campaign.seed, self._note_loss)
        self._app = app

    async def run(self) -> Ended:
        campaign = self._campaign
        parts = parts_of(campaign.workers, CONSUMERS, CANDIDATES, PRODUCERS, CONTENDERS)
        clocks = Clocks(campaign.out / "clocks")
        async with self._opened([part.name for part in parts]), Resource() as resource:
            environ = {
                **campaign.environ(),
                witness.SEED: str(campaign.seed),
                witness.JOBS: str(campaign.jobs),
                witness.RESOURCE: str(resource.port),
            }

            def own(name: str) -> dict[str, str]:
                return {**self._arena.environ(name), **clocks.environ(name)}

            with Crew(campaign.out, parts, environ, own, self._recorder) as crew:
                nemesis = Nemesis(
                    campaign.seed,
                    campaign.expected,
                    self._arena,
                    crew,
                    clocks,
                    self._app,
                    self._recorder,
                    self._screen.tell,
                )
                for what, why in nemesis.left_out.items():
                    self._screen.warn(f"left out: {what}: {why}")
                tending = asyncio.create_task(self._tend(crew))
                try:
                    first = await self._put_schedules()
                    await self._torture(nemesis)
                    settling = await self._settle(crew)
                finally:
                    tending.cancel()
                    await asyncio.wait([tending])
                await self._stop(crew)
            document = await dumping.make(self._app, self._arena, campaign, first, settling)
            document.floors = floors(len(document.jobs), nemesis.left_out)
            document.left_out = nemesis.left_out
            document.commit = commit()
            dump.write(campaign.out, document)
        return Ended(nemesis.left_out, nemesis.counts, monotonic() - self._begun)

    @asynccontextmanager
    async def _opened(self, names: list[str]) -> AsyncGenerator[None]:
        await self._arena.open(names)
        self._app.configured(store=self._arena.direct, namespace=NAMESPACE, auto_migrate=True)
        try:
            async with self._app:
                await self._arena.prepare()
                yield
        finally:
            await self._arena.close()

    async def _tend(self, crew: Crew) -> None:
        while True:
            crew.tend()
            await asyncio.sleep(0.1)

    async def _put_schedules(self) -> dict[str, int]:
        """The first due time of each schedule."""
        fired = self._app.tasks["fired"]
        first: dict[str, int] = {}
        for name, seconds in SCHEDULES.items():
            known = name.replace(" ", "-")
            info = await self._app.schedules.put(
                known, every(seconds), fired.call(known), misfire="all", overlap="allow", catch_up=10_000
            )
            first[known] = dumping.micros(info.next_due)
        return first

    def _note_loss(self, name: str) -> None:
        self._recorder.write(Fault(name="lost reply", target=name, phase="once", count=1))

    async def _torture(self, nemesis: Nemesis) -> None:
        """Faults until there are enough jobs; the last of them are still worked on under faults."""
        striking = asyncio.create_task(nemesis.strike())
        enough = self._campaign.out / ENOUGH
        enough_since: float | None = None
        try:
            while not striking.done():
                await asyncio.sleep(LOOK)
                stats = await self._look("torture")
                if stats is None:
                    continue
                self._lose_answers(sum(stats.by_state.values()))
                if enough_since is None and self._is_enough(stats, nemesis.begun):
                    enough.touch()
                    enough_since = monotonic()
                if enough_since is not None and (not stats.queued or monotonic() > enough_since + LAST):
                    break
        finally:
            (self._campaign.out / witness.CALM).touch()
            striking.cancel()
            await asyncio.wait([striking])
        if not striking.cancelled() and striking.exception() is not None:
            raise CampaignError("a fault could not be carried out") from striking.exception()

    def _is_enough(self, stats: Stats, begun: float | None) -> bool:
        seconds = self._campaign.seconds
        if seconds is not None and begun is not None and monotonic() - begun > seconds:
            return True
        return sum(stats.by_state.values()) >= self._campaign.jobs

    def _lose_answers(self, stored: int) -> None:
        gates = self._arena.gates
        if gates is not None:
            gates.lose(round(stored * LOSSES) + 1)

    async def _settle(self, crew: Crew) -> Settling:
        """Waits until all is done, as long as that may take."""
        calm = monotonic()
        standing = await _answered(self._app.stats)
        groups = await _answered(self._app.events.groups)
        left = standing.queued + standing.scheduled + standing.in_progress
        left += max((group.behind for group in groups), default=0)
        limit = SETTLE + DRAIN * left / self._campaign.workers
        crew.retire(Role.PRODUCER, Role.CONTENDER, Role.OPERATOR)
        for name in SCHEDULES:
            await _answered(partial(self._app.schedules.pause, name.replace(" ", "-")))
        while monotonic() - calm < limit:
            await asyncio.sleep(LOOK)
            stats = await self._look("calm")
            if stats is not None and await self._is_settled(stats):
                return Settling(limit, monotonic() - calm)
        return Settling(limit, None)

    async def _is_settled(self, stats: Stats) -> bool:
        if stats.queued or stats.scheduled or stats.in_progress:
            return False
        return all(group.behind == 0 and not group.waiting for group in await self._app.events.groups())

    async def _stop(self, crew: Crew) -> None:
        """Ends the others as operators would, and waits until whatever they held has run out."""
        crew.retire(*Role)
        await asyncio.to_thread(crew.wait, STOPPING)
        await asyncio.sleep(LEASE + SWEEP)

    async def _look(self, phase: str) -> Stats | None:
        """How it stands, shown; None while the store cannot be asked."""
        with suppress(StoreError, TimeoutError):
            async with asyncio.timeout(2):
                stats = await self._app.stats(exact=False)
            self._screen.draw(Sight(phase, monotonic() - self._begun, self._campaign.jobs, stats))
            return stats
        return None


async def _answered(ask: Callable[[], Awaitable[T]]) -> T:
    """What the store says; it may just be coming back."""
    end = monotonic() + STOPPING
    while True:
        try:
            return await ask()
        except StoreError:
            if monotonic() > end:
                raise
            await asyncio.sleep(LOOK)
