"""The workload of our own, under seeds that are the same in every run."""

import os
import subprocess
import sys

import pytest

from holdfast.testing.simulation import campaign
from holdfast.testing.simulation.campaign import Tally
from holdfast.testing.simulation.weakened import NAMES

DIGESTS = """
import logging
from holdfast.testing.simulation.seed import run_seed
logging.disable(logging.CRITICAL)
print([run_seed(seed).digest for seed in range(6)])
"""


@pytest.mark.timeout(300)
def test_all_promises_are_kept_under_many_seeds() -> None:
    tally = Tally()
    for result in campaign.run(range(SEEDS), at_once=2, most_lease=20.0):
        tally.add(result)
    assert not [(result.seed, result.faults_found) for result in tally.failed]
    assert tally.seeds == SEEDS
    floors = {"crashes": 100, "stops": 100, "pauses": 100, "cuts": 100, "outages": 100, "takeovers": 100}
    assert {kind: tally.counts[kind] for kind in floors if tally.counts[kind] < floors[kind]} == {}
    assert tally.counts["refusals"] > 20, "writes that came too late must have been tried"


SEEDS = 200


def digests(hash_seed: str) -> str:
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
    return subprocess.run(
        [sys.executable, "-c", DIGESTS], env=environment, capture_output=True, text=True, check=True
    ).stdout


@pytest.mark.timeout(180)
def test_a_seed_goes_the_same_way_in_every_process() -> None:
    assert digests("1") == digests("2")


@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", NAMES)
def test_a_guard_that_is_left_out_is_found(name: str) -> None:
    for result in campaign.run(range(150), at_once=1, most_lease=20.0, weak=name):
        if result.faults_found:
            return
    pytest.fail(f"nobody noticed that the store was weakened: {name}")
