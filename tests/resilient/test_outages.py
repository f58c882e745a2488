"""While the store is away for long: producers are told at once, workers wait, and nobody hammers it."""

import asyncio
import heapq
import re
import statistics
from itertools import count
from time import perf_counter

import pytest

from holdfast import Holdfast
from holdfast.engine.outage import pauses
from holdfast.model.errors import StoreUnavailable
from holdfast.model.lifecycle import State
from holdfast.store import Session
from holdfast.store.circuit import CircuitState, circuits
from holdfast.stores.memory import MemoryStore
from holdfast.stores.resilient import Breaker, ResilientStore
from tests.engine.faulty import Faults, FaultyStore
from tests.engine.rig import Rig as EngineRig
from tests.resilient.rig import DOWN, claim, job

PATIENCE = 10


class Hours:
    """Time for many who sleep at once: when all do, it goes on to who wakes first."""

    def __init__(self) -> None:
        self.now = 0.0
        self.sleeps = 0
        self._order = count()
        self._asleep: list[tuple[float, int, asyncio.Future[None]]] = []

    def clock(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.sleeps += 1
        awake: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heapq.heappush(self._asleep, (self.now + seconds, next(self._order), awake))
        await awake

    async def pass_until(self, end: float) -> None:
        while True:
            for _ in range(20):  # whoever is awake gets as far as its next sleep
                await asyncio.sleep(0)
            if not self._asleep or self._asleep[0][0] > end:
                self.now = end
                return
            self.now, _, awake = heapq.heappop(self._asleep)
            awake.set_result(None)


async def tick_for_ever(session: Session, hours: Hours) -> None:
    """What a worker does: a tick is patient, and after each that failed it pauses."""
    waits = pauses()
    while True:
        try:
            await session.jobs.tick(claim())
        except StoreUnavailable:
            await hours.sleep(next(waits))
        else:
            waits = pauses()
            await hours.sleep(1)


async def add_for_ever(session: Session, hours: Hours, every: float) -> None:
    """What an impatient producer does."""
    for number in count():
        try:
            await session.jobs.add([job(f"{number:032x}")])
        except StoreUnavailable:
            await hours.sleep(every)
        else:
            await hours.sleep(1)


async def test_many_callers_send_a_store_that_is_away_about_one_call_a_second_and_find_it_again() -> None:
    hours, faults = Hours(), Faults()
    store = ResilientStore(FaultyStore(MemoryStore(), faults), sleep=hours.sleep, clock=hours.clock)
    session = await store.connect("test")
    callers = [asyncio.ensure_future(tick_for_ever(session, hours)) for _ in range(5)]
    callers += [asyncio.ensure_future(add_for_ever(session, hours, every=0.05)) for _ in range(2)]
    try:
        faults.down = DOWN
        await hours.pass_until(10)
        before, slept = len(faults.calls), hours.sleeps
        assert store.circuit.report().away_seconds == pytest.approx(10)
        await hours.pass_until(130)
        sent = len(faults.calls) - before
        assert 120 / 1.6 <= sent <= 120 / 0.5, "one probe each 0.5 to 1.5 s, and soon after it is due"
        assert store.circuit.report().refused > 10 * sent
        waits = hours.sleeps - slept - 2 * 120 / 0.05
        assert waits < 5 * 120 * 8, "a worker that waits looks at the circuit, a few times a second at most"
        faults.down = None
        await hours.pass_until(132)
        assert store.circuit.state is CircuitState.CLOSED
    finally:
        for caller in callers:
            caller.cancel()
        await asyncio.gather(*callers, return_exceptions=True)


async def test_a_worker_does_not_spin_during_an_outage_and_runs_the_job_after_it() -> None:
    rig = EngineRig(heartbeat_seconds=0.2)
    breaker = Breaker(failures=3, outage_seconds=0.05, reset_seconds=0.2)
    rig.store = ResilientStore(rig.store, retry_seconds=0.5, breaker=breaker)  # type: ignore[assignment]
    task = rig.task(lambda: None, name="work")
    async with rig.serving():
        rig.faults.down = DOWN
        await rig.seen.wait("tick_failed")
        before, began = len(rig.faults.calls), perf_counter()
        await rig.seen.wait("tick_failed", len(rig.seen.of("tick_failed")) + 1)
        lasted = perf_counter() - began
        assert len(rig.faults.calls) - before <= lasted / 0.1 + 1, "no two probes within half of 0.2 s"
        rig.faults.down = None
        job_id = await rig.add(task)
        await rig.seen.wait("settled", job=job_id)
    assert await rig.state(job_id) is State.SUCCESS
    assert breaker.state is CircuitState.CLOSED


async def test_an_application_is_told_at_once_what_is_wrong_since_when_and_when_to_try_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    faults = Faults()
    breaker = Breaker(failures=1, outage_seconds=0, reset_seconds=3600)
    store = ResilientStore(FaultyStore(MemoryStore(), faults), retry_seconds=0, breaker=breaker)
    monkeypatch.setattr("holdfast.opening.open_store", lambda url, **_: store)
    app = Holdfast("memory://")

    @app.task
    async def greet() -> None: ...

    async with app:
        faults.down = DOWN
        with pytest.raises(StoreUnavailable, match="connection refused"):
            await greet.enqueue()
        took: list[float] = []
        for _ in range(15):
            began = perf_counter()
            with pytest.raises(StoreUnavailable) as raised:
                await greet.enqueue()
            took.append(perf_counter() - began)
        assert statistics.median(took) < 0.01
        wanted = (
            r"the store has been unreachable since \d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC "
            r"\(connection refused\); nothing was sent, the next try is in \d+\.\d s"
        )
        assert re.fullmatch(wanted, str(raised.value))
        assert faults.count("add") == 1
        [circuit] = circuits(app.store).values()
        assert (circuit.state, circuit.report().refused) == (CircuitState.OPEN, 15)
