"""Simulation as users see it."""

import asyncio

import pytest

from holdfast import BlockingCallOnLoop, Context, Holdfast, JobFailed, every
from holdfast.testing import Faults, Simulation, SimulationFailed, simulate
from holdfast.testing.simulation import NO_FAULTS


@pytest.fixture
def app() -> Holdfast:
    return Holdfast("memory://", lease_seconds=10)


async def nothing(simulation: Simulation) -> None: ...


def test_an_hour_takes_a_moment_and_all_is_done_in_it(app: Holdfast) -> None:
    done: list[int] = []

    @app.task
    async def work(number: int) -> int:
        await asyncio.sleep(600)
        done.append(number)
        return number

    async def scenario(simulation: Simulation) -> None:
        jobs = [await work.enqueue(number) for number in range(30)]
        assert [await job.result() for job in jobs] == list(range(30))

    summary = simulate(app, scenario, seeds=1, workers=1, faults=NO_FAULTS)
    assert sorted(done) == list(range(30))
    assert summary.hours > 0.5
    assert summary.counts["takeovers"] == 0


def test_a_handler_that_does_not_bear_a_crash_is_found_and_its_seed_shows_it_again(app: Holdfast) -> None:
    balance = {"ann": 0, "bob": 0}

    def begin() -> None:
        balance.update(ann=0, bob=0)

    @app.task
    async def transfer() -> None:
        balance["ann"] -= 1
        await asyncio.sleep(1)
        balance["bob"] += 1

    async def scenario(simulation: Simulation) -> None:
        for _ in range(10):
            await transfer.enqueue()

    def check(simulation: Simulation) -> None:
        assert sum(balance.values()) == 0, "money is gone"

    def run(seeds: int | list[int]) -> SimulationFailed:
        with pytest.raises(SimulationFailed, match="money is gone") as failed:
            simulate(app, scenario, check=check, before=begin, seeds=seeds)
        return failed.value

    first = run(50)
    assert f"seeds=[{first.seed}]" in str(first)
    assert run([first.seed]).args == first.args


def test_a_handler_may_end_its_worker_and_the_job_ends_in_the_dead_letter_queue(app: Holdfast) -> None:
    ends: list[JobFailed] = []

    @app.task
    async def die(ctx: Context[None]) -> None:
        await simulations[-1].crash()

    simulations: list[Simulation] = []

    async def scenario(simulation: Simulation) -> None:
        simulations.append(simulation)
        with pytest.raises(JobFailed, match="worker lost") as failed:
            await (await die.enqueue()).result()
        ends.append(failed.value)

    simulate(app, scenario, seeds=2, faults=NO_FAULTS)
    assert len(ends) == 2


def test_what_stands_in_finally_does_not_run_in_a_worker_that_was_killed(app: Holdfast) -> None:
    seen: list[str] = []

    @app.task
    async def die(ctx: Context[None]) -> None:
        if ctx.run > 1:
            return
        try:
            await simulations[-1].crash()
        finally:
            seen.append("finally")

    simulations: list[Simulation] = []

    async def scenario(simulation: Simulation) -> None:
        simulations.append(simulation)
        await (await die.enqueue()).result()

    def check(simulation: Simulation) -> None:
        assert seen == []

    simulate(app, scenario, check=check, seeds=1, faults=NO_FAULTS)


def test_schedules_are_fired_by_an_elected_worker(app: Holdfast) -> None:
    ticks: list[object] = []

    @app.schedule(every(60))
    @app.task
    def tick(ctx: Context[None]) -> None:
        assert ctx.firing is not None
        ticks.append(ctx.firing.due)

    async def scenario(simulation: Simulation) -> None:
        await asyncio.sleep(3_600)

    simulate(app, scenario, seeds=1, workers=3, faults=NO_FAULTS)
    assert len(ticks) == len(set(ticks))
    assert 58 <= len(ticks) <= 62


@pytest.mark.parametrize("kind", ["crashes", "stops", "pauses", "stalls", "cuts", "outages", "clocks"])
def test_each_kind_of_fault_befalls_when_it_is_wanted_alone(app: Holdfast, kind: str) -> None:
    app.task(nothing_done)
    only = Faults(**{each: each == kind for each in NO_FAULTS.__dataclass_fields__})
    counts = simulate(app, nothing, seeds=6, faults=only, storm=100).counts
    assert counts[kind] > 0
    assert (
        not {each for each in ("crashes", "stops", "pauses", "cuts", "outages") if each != kind}
        & counts.keys()
    )


async def nothing_done() -> None: ...


def test_a_scenario_that_fails_is_told(app: Holdfast) -> None:
    app.task(nothing_done)

    async def scenario(simulation: Simulation) -> None:
        raise ValueError("no such shop")

    with pytest.raises(SimulationFailed, match=r"the scenario failed: ValueError\('no such shop'\)"):
        simulate(app, scenario, seeds=1)


def test_what_is_never_done_is_told(app: Holdfast) -> None:
    app.task(nothing_done)

    @app.task(queue="nobody")
    async def left() -> None: ...

    async def scenario(simulation: Simulation) -> None:
        await left.using(delay=7_200).enqueue()

    with pytest.raises(SimulationFailed, match=r"not all was done within 60 s(.|\n)*is not finished"):
        simulate(app, scenario, seeds=1, patience=60)


async def test_it_is_not_called_on_an_event_loop(app: Holdfast) -> None:
    with pytest.raises(BlockingCallOnLoop, match="from a plain function"):
        simulate(app, nothing, seeds=1)


def test_the_application_is_as_before_when_it_is_over(app: Holdfast) -> None:
    app.task(nothing_done)
    simulate(app, nothing, seeds=1)
    with app.testing() as testing:
        assert testing.jobs() == []
