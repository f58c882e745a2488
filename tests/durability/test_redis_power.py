"""Power fails while Redis writes its log: `always` keeps what was acknowledged, `everysec` does not."""

from pathlib import Path

import pytest

from tests.durability.redis_power import lose_power, record
from tests.servers.redis_binaries import find_redis
from tests.servers.run import Run

pytestmark = [pytest.mark.process, pytest.mark.timeout(120)]

JOBS = 100
POINTS = 15
SEED = 3


@pytest.mark.parametrize(("fsync", "is_kept"), [("always", True), ("everysec", False)])
def test_what_is_left_is_what_the_setting_promises(
    tmp_path: Path, servers: Run, fsync: str, is_kept: bool
) -> None:
    program = find_redis(servers)
    disk, records = record(tmp_path, program, JOBS, fsync)
    found = lose_power(tmp_path, program, disk, records, POINTS, SEED)
    assert found.inconsistent == []
    assert (found.missing == 0) is is_kept
    assert found.acknowledged > POINTS * 20
