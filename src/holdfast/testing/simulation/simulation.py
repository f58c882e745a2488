"""One simulation: an application, its workers, what befalls them, and whether all came right in the end."""

from __future__ import annotations

import asyncio
import gc
import logging
import random
import sys
import warnings
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NoReturn

from holdfast.engine import surroundings
from holdfast.engine.worker import Worker
from holdfast.model.errors import StoreError
from holdfast.model.records import JobRecord, Query
from holdfast.model.timing import SECOND
from holdfast.opening import Opening
from holdfast.store import Session
from holdfast.stores.memory import MemoryStore
from holdfast.testing.simulation.faults import Faults, Misfortune
from holdfast.testing.simulation.oracle import Oracle
from holdfast.testing.simulation.process import SimulatedProcess
from holdfast.testing.simulation.running import answered_by
from holdfast.testing.simulation.settling import Settling
from holdfast.testing.simulation.standing_in import SimulatedSurroundings
from holdfast.testing.simulation.trace import Trace
from holdfast.testing.simulation.universe import Universe
from holdfast.testing.simulation.weather import Weather
from holdfast.testing.simulation.wire import SimulatedStore, Wire, answered

if TYPE_CHECKING:
    from holdfast.app import Holdfast

PAGE = 1_000
LONGEST_ABSENCE = 0.5
"""After how many leases, at most, another worker comes in the place of one that ended."""

Check = Callable[["Simulation"], None]
Scenario = Callable[["Simulation"], Awaitable[None]]


class Simulation:
    """An application in a world that depends on nothing but the seed.

    Time is simulated: what takes an hour there takes a moment. Each worker is a process of its own, with a
    clock, event loops and sessions of its own; the application's handlers, and whatever they change outside
    of the store, are shared by all of them, as the rest of the world is.
    """

    def __init__(
        self, app: Holdfast, seed: int, *, workers: int, faults: Faults, storm: float | None
    ) -> None:
        self.app = app
        self.seed = seed
        self.universe = universe = Universe(seed)
        self.trace = Trace(lambda: universe.now)
        self.oracle = Oracle(universe, self.trace)
        self._lease = app.settings.lease_seconds
        self._storm = 5 * self._lease if storm is None else storm
        self._faults = faults
        patience = app.settings.timing.call_timeout / SECOND
        slowness = universe.chance.choice((3 * patience, 1.5 * self._lease))
        drawn = Weather.drawn(universe.chance, slowness=slowness, silence=10 * patience)
        self.weather = drawn if faults.calls else Weather()
        self.workers: list[SimulatedProcess] = []
        self.misfortune = Misfortune(self, faults, self._lease)
        self.store = MemoryStore(universe.store_clock)
        self.wire = Wire(universe, self.weather, self.oracle.observe)
        self._serving: dict[SimulatedProcess, Worker] = {}
        self._size = workers
        self._unfinished = 0
        self._failures: list[BaseException] = []
        self._opening: Opening = app.testing().opening
        self.process_seconds = 0.0
        """For how long its processes lived, together."""

    @property
    def random(self) -> random.Random:
        """Chance that is the same whenever the seed is."""
        return self.universe.chance

    @property
    def counts(self) -> dict[str, int]:
        """What happened, by kind: so that one can see that what is feared did happen."""
        jobs, locks, schedules = self.oracle.jobs, self.oracle.locks, self.oracle.schedules
        return {
            **self.misfortune.counts,
            "jobs": len(jobs.lives),
            "completions": jobs.completions,
            "takeovers": jobs.takeovers,
            "refusals": jobs.refusals,
            "grants": locks.grants,
            "firings": schedules.firings,
        }

    async def crash(self) -> NoReturn:
        """Ends the process that calls this, as a kill does: nothing of it runs any more."""
        self.universe.current.kill()
        await asyncio.get_running_loop().create_future()
        raise AssertionError("a dead process went on")

    def stop(self, process: SimulatedProcess, grace: float | None) -> None:
        """Asks a worker to end."""
        worker = self._serving.get(process)
        if worker is not None:
            process.main.call_soon(worker.stop, grace)

    def run(
        self, *scenarios: Scenario, patience: float, check: Check | None = None, are_spared: bool = True
    ) -> None:
        """Runs it to the end; `faults_found` tells whether it went as it must."""
        with self._taking_the_place_of_the_world():
            for _ in range(self._size):
                self._hire()
            for number, scenario in enumerate(scenarios):
                self._begin(scenario, f"client-{number}", are_spared)
            self.misfortune.begin()
            self.universe.run(self._storm)
            self._calm_down()
            self._go_on(patience, lambda: self._unfinished == 0, "the scenario did not end")
            settling = Settling(self.app, self.oracle, self._session())
            self._go_on(patience, settling.is_over, "not all was done")
            if not settling.is_over():
                for line in settling.left():
                    self.oracle.object_to(line)
            self.oracle.compare(self.records())
            if check is not None and not self.faults_found:
                self._ask(check)
            self.process_seconds = sum(process.lived for process in self.universe.processes)

    def records(self) -> list[JobRecord]:
        """All jobs as they are stored, newest first."""
        session = self._session()
        found: list[JobRecord] = []
        while page := answered(session.jobs.find(Query(cursor=found[-1].id if found else None, limit=PAGE))):
            found += page
        return found

    @property
    def faults_found(self) -> list[str]:
        """What was not as it must be."""
        failures = [f"the scenario failed: {error!r}" for error in self._failures]
        return [*self.oracle.objections, *self.universe.complaints, *failures]

    def _ask(self, check: Check) -> None:
        try:
            check(self)
        except AssertionError as error:
            self.oracle.objections.append(f"the check failed: {error}" if str(error) else "the check failed")

    def _session(self) -> Session:
        session: Session = answered(self.store.connect(self.app.settings.namespace))
        return session

    def _hire(self) -> None:
        """A new worker, in a process of its own."""
        chance, universe = self.universe.chance, self.universe
        rate, wrong = 1.0, 0.0
        if self._faults.clocks:
            rate, wrong = (
                1 + chance.uniform(-1, 1) * 1e-3,
                chance.choice((0.0, chance.uniform(-3_600, 3_600))),
            )
        process = SimulatedProcess(universe, f"worker-{len(universe.processes)}", rate=rate, wrong=wrong)
        process.on_death = lambda: self._replace(process)
        self.workers.append(process)
        process.start(lambda: self._serve(process))

    async def _serve(self, process: SimulatedProcess) -> None:
        try:
            self._serving[process] = worker = self.app.worker()
            await worker.serve(until_idle=False, ready=None)
        except StoreError as error:
            self.trace.note(process.name, "ended", str(error))
        except Exception as error:  # noqa: BLE001  a worker that fails is what is looked for
            self.universe.complain(process, {"message": "the worker failed", "exception": error})
        process.kill()

    def _replace(self, process: SimulatedProcess) -> None:
        self.workers.remove(process)
        self._serving.pop(process, None)
        absence = self.universe.chance.random() * LONGEST_ABSENCE * self._lease
        self.universe.after(absence, self._hire)

    def _begin(self, scenario: Scenario, name: str, is_spared: bool) -> None:
        process = SimulatedProcess(self.universe, name)
        process.is_spared = True
        self._unfinished += 1

        async def play() -> None:
            try:
                async with self.app:
                    process.is_spared = is_spared
                    await scenario(self)
            except BaseException as error:  # noqa: BLE001  told in the end
                self._failures.append(error)
            self._unfinished -= 1

        process.start(play)

    def _calm_down(self) -> None:
        self.misfortune.is_over = True
        self.weather.clear_up()
        for process in self.universe.processes:
            process.steps_left = process.calls_left = process.pauses_at = None
            if not process.is_dead:
                process.resume()

    def _go_on(self, patience: float, is_over: Callable[[], bool], otherwise: str) -> None:
        """Lets time pass until it is over, with a look at every step of the engine's own rhythm."""
        step = max(1.0, self._lease / 20)
        end = self.universe.now + patience
        while not is_over():
            if self.universe.now >= end:
                self.oracle.object_to(f"{otherwise} within {patience:g} s after the last fault")
                return
            self.universe.run(self.universe.now + step)

    @contextmanager
    def _taking_the_place_of_the_world(self) -> Generator[None]:
        opening, before, state = self._opening, self._opening.opened, random.getstate()
        opening.use(opening.sealed(SimulatedStore(self.store, self.wire)), may_lead=True)
        self.universe.on_enter = self._enter
        random.seed(self.seed)
        was_enabled = gc.isenabled()
        gc.disable()  # It would run the `finally` blocks of killed processes, and at times of its own choice.
        try:
            with surroundings.replaced(SimulatedSurroundings(self.universe)), answered_by(self.universe):
                try:
                    yield
                finally:
                    _bury(self.universe)
                    self.universe.end()
        finally:
            if was_enabled:
                gc.enable()
            random.setstate(state)
            opening.opened = before
            opening.use(None)

    def _enter(self, process: SimulatedProcess) -> None:
        opened: Any = process.own.get(self._opening)
        if opened is None:
            opened = process.own[self._opening] = self._opening.made()
        self._opening.opened = opened


def _bury(universe: Universe) -> None:
    """Takes all processes apart; what their code says to that is of no interest."""
    hook, level = sys.unraisablehook, logging.root.manager.disable
    sys.unraisablehook = _ignore
    logging.disable(logging.CRITICAL)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for process in universe.processes:
                process.bury()
            gc.collect(1)
    finally:
        sys.unraisablehook = hook
        logging.disable(level)


def _ignore(unraisable: object) -> None:
    """A coroutine that was cut off has complained."""
