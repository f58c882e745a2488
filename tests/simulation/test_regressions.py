"""Seeds that have found a fault once."""

import pytest

from holdfast.testing.simulation.seed import run_seed

SHORT = 20.0


@pytest.mark.parametrize(
    ("seed", "most_lease"),
    [
        pytest.param(10006, SHORT, id="a wait for a lock that was cut off while the store was away"),
        pytest.param(10036, SHORT, id="the same, of a worker that was told to end"),
    ],
)
def test_what_a_seed_has_found_is_mended(seed: int, most_lease: float) -> None:
    assert run_seed(seed, most_lease).faults_found == []
