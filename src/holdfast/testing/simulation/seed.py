"""One seed of the workload of our own: what it draws, and what came of it."""

from __future__ import annotations

import os
import time
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from random import Random
from unittest.mock import patch

from holdfast.config import FILE_VARIABLE, PREFIX
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
    """What came of a seed. `faults_found` is empty if all promises were kept.

    `seconds` were simulated, `process_seconds` are those of its processes together, and simulating took
    `cpu_seconds`.
    """

    seed: int
    digest: str
    seconds: float
    process_seconds: float
    cpu_seconds: float
    counts: dict[str, int]
    faults_found: list[str]
    lines: list[str]


@contextmanager
def _nothing_configured() -> Generator[None]:
    """Settings come of the seed alone, whatever the environment says, and the files in this directory."""
    own = {name: value for name, value in os.environ.items() if not name.startswith(PREFIX)}
    with patch.dict(os.environ, {**own, FILE_VARIABLE: os.devnull}, clear=True):
        yield


def run_seed(seed: int, most_lease: float = LONGEST_LEASE) -> Result:
    """Runs the workload under this seed, with leases of at most so many seconds."""
    began = time.process_time()
    drawn = Random(seed)
    with _nothing_configured():
        app = make_app(drawn, most_lease)
        lease = app.settings.lease_seconds
    world: World = app.state
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
    faults_found = [*simulation.faults_found, *world.objections]
    return Result(
        seed=seed,
        digest=simulation.trace.digest,
        seconds=simulation.universe.now,
        process_seconds=simulation.process_seconds,
        cpu_seconds=time.process_time() - began,
        counts=simulation.counts,
        faults_found=faults_found,
        lines=simulation.trace.lines() if faults_found else [],
    )
