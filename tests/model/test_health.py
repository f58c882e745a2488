"""What is seen of a worker, and what follows."""

import pytest

from holdfast.model.health import Health, Phase, Vitals, all_well, any_well, judge

LIMIT = 30.0


def test_a_worker_that_serves_is_well() -> None:
    assert judge(Vitals(phase="serving", silent=29, away=29), LIMIT) == Health(True, True)


@pytest.mark.parametrize(
    ("phase", "is_live"),
    [("starting", True), ("draining", True), ("stopped", True), ("failed", False)],
)
def test_one_that_does_not_serve_is_not_ready(phase: Phase, is_live: bool) -> None:
    assert judge(Vitals(phase=phase), LIMIT) == Health(is_live, False, (phase,))


def test_a_store_that_is_away_is_no_reason_to_restart() -> None:
    found = judge(Vitals(phase="serving", silent=31, away=31), LIMIT)
    assert found == Health(True, False, ("the store has not answered for 31 s",))


def test_a_worker_that_claims_nothing_though_the_store_is_there_is_to_be_restarted() -> None:
    found = judge(Vitals(phase="serving", silent=31), LIMIT)
    assert (found.live, found.ready) == (False, False)
    assert found.reasons[0].startswith("nothing could be claimed for 31 s")


def test_one_whose_slots_are_all_stuck_is_to_be_restarted() -> None:
    assert judge(Vitals(phase="serving", slots=2, stuck=1), LIMIT).ready
    found = judge(Vitals(phase="draining", slots=2, stuck=2), LIMIT)
    assert found == Health(False, False, ("all slots (2) are stuck", "draining"))


def test_several_are_as_well_as_the_worst_or_as_the_best() -> None:
    parts = {"a": Health(True, True), "b": Health(True, False, ("starting",))}
    assert all_well(parts) == Health(True, False, ("b: starting",))
    assert any_well(parts) == Health(True, True, ("b: starting",))
    assert not any_well({"a": Health(False, False), "b": Health(True, True)}).live
