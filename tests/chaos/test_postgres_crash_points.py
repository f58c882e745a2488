"""The crash points of every call that changes the store, on PostgreSQL."""

import asyncio
import signal
from pathlib import Path

import pytest

from tests.chaos.failpoint import CALLS, POINTS
from tests.chaos.postgres_site import PostgresSite
from tests.chaos.test_crash_points import SETTINGS, recover

pytestmark = pytest.mark.process

AT_ONCE = 15
"""Each has a worker, with some connections."""


async def test_no_crash_point_loses_a_job_or_records_one_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, postgres_database: str
) -> None:
    monkeypatch.setenv("CHAOS_EFFECTS", str(tmp_path / "effects"))
    points = [(call, point) for call in CALLS for point in POINTS]
    async with PostgresSite(tmp_path, postgres_database, **SETTINGS) as site:
        crashing = site.start("-m", "tests.chaos.postgres_crashing", *CALLS)
        assert await crashing.ends(within=60) == 0
        lines = [line.split()[1:] for line in crashing.output.splitlines() if line.startswith("crashed ")]
        ends = {(call, point): int(number) for call, point, number in lines}
        assert ends == dict.fromkeys(points, signal.SIGKILL), crashing.output
        site.open_gate("gate")
        for some in range(0, len(points), AT_ONCE):
            await asyncio.gather(*(recover(site, *each) for each in points[some : some + AT_ONCE]))
        assert site.query("SELECT count(*) FROM holdfast.job") == [(0,)], "nothing is left over"
