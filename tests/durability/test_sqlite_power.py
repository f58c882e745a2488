"""Power fails at any point: what SQLite has answered for is there, and a weaker choice is seen to lose it."""

from pathlib import Path

import pytest

from tests.durability.sqlite_power import FILE, LOG, checkpoints, lose_power, record

pytestmark = pytest.mark.process

JOBS = 100
POINTS = 100
SEED = 9


@pytest.mark.timeout(180)
def test_no_power_loss_takes_back_what_was_acknowledged(tmp_path: Path) -> None:
    records = record(tmp_path, JOBS, "full")
    assert checkpoints(records) >= 3, "the log was brought back into the file under load"
    assert {(each.kind, each.name) for each in records} >= {("u", LOG), ("s", "."), ("s", FILE)}
    found = lose_power(tmp_path, records, POINTS, SEED)
    assert found.acknowledged > POINTS * JOBS
    assert found.inconsistent == []
    assert found.missing == 0
    lying = lose_power(tmp_path, records, POINTS // 10, SEED, honest=False)
    assert lying.missing > 0, "a disk that only says that it has synced is found out"
    assert lying.inconsistent != []


@pytest.mark.timeout(180)
def test_the_weaker_choice_loses_the_last_moments_and_stays_consistent(tmp_path: Path) -> None:
    records = record(tmp_path, JOBS, "normal")
    found = lose_power(tmp_path, records, POINTS // 2, SEED, behind=0)
    assert found.with_loss > POINTS // 10
    assert found.inconsistent == []
