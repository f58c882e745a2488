"""One seed of the workload of our own: what it draws, and what came of it."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

from holdfast.model.lifecycle import State
from holdfast.testing.simulation.faults import Faults
from holdfast.testing.simulation.simulation import Simulation
from holdfast.testing.simulation.workload import LONGEST_LEASE, Client, World, make_app

STORM = 6.0
"""For how many leases faults befall the workers."""

PATIENCE = 200.0
"""For how many leases it may take until all is done, once nothing goes wrong any more."""


@dataclass(frozen=True, slots=True)
class Result:
    """What came of a seed. `faults_found` is empty if all promises were kept."""

    seed: int
    digest: str
    seconds: float
    process_seconds: float
    counts: dict[str, int]
    faults_found: list[str]
    lines: list[str]


def run_seed(seed: int, most_lease: float = LONGEST_LEASE) -> Result:
    """Runs the workload under this seed, with leases of at most so many seconds."""
    drawn = Random(seed)
    app = make_app(drawn, most_lease)
    world: World = app.state
    lease = app.settings.lease_seconds
    simulation = Simulation(app, seed, workers=drawn.choice((1, 2, 3)), faults=Faults(), storm=STORM * lease)
    world.crash = simulation.crash
    clients = [Client(name, drawn.choice((3, 15))) for name in ("ann", "bob")]
    simulation.run(*(client.play for client in clients), patience=PATIENCE * lease, are_spared=False)
    for record in simulation.records():
        if record.state is State.SUCCESS and record.token not in world.done[record.id]:
            world.objections.append(f"job {record.id} succeeded, and its handler never came to its end")
    for job_id in sorted({each for client in clients for each in client.accepted}):
        if job_id not in simulation.oracle.jobs.lives:
            world.objections.append(f"job {job_id} was accepted, and is not stored")
    return Result(
        seed=seed,
        digest=simulation.trace.digest,
        seconds=simulation.universe.now,
        process_seconds=simulation.process_seconds,
        counts=simulation.counts,
        faults_found=[*simulation.faults_found, *world.objections],
        lines=simulation.trace.lines(),
    )
