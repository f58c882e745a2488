"""The crash points of every call that changes the store, on PostgreSQL."""

import asyncio
import re
import signal
from pathlib import Path

import pytest

from holdfast.model.overrides import Overrides
from tests.chaos import test_crash_points as crash_points
from tests.chaos.crashing import GHOST
from tests.chaos.failpoint import CALLS, POINTS
from tests.chaos.postgres_site import PostgresSite

pytestmark = [pytest.mark.process, pytest.mark.timeout(180)]

# A call may take an eighth of the lease: long enough for a machine that is busy with other tests.
SETTINGS = Overrides(
    lease_seconds=3.0,
    poll_seconds=0.05,
    reclaim_seconds=0.1,
    kill_seconds=1.0,
    leader_candidate=False,  # a candidate writes too, and the commit that counts would not be the next one
)
AT_ONCE = 6
"""Each has a worker, with threads and connections of its own."""


async def test_no_crash_point_loses_a_job_or_records_one_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, postgres_database: str
) -> None:
    monkeypatch.setenv("CHAOS_EFFECTS", str(tmp_path / "effects"))
    points = [(call, point) for call in CALLS for point in POINTS]
    monkeypatch.setattr(crash_points, "SETTINGS", SETTINGS)
    # Who reclaims a job may claim it, too, before it repeats what it was not answered.
    monkeypatch.setitem(crash_points.SEEN, "reclaim", lambda job: job.worker != GHOST.id)
    async with PostgresSite(tmp_path, postgres_database, **SETTINGS) as site:
        crashing = site.start("-m", "tests.chaos.postgres_crashing", *CALLS)
        assert await crashing.ends(within=60) == 0
        # Anywhere in a line: one that was killed may have left a line of its log unfinished before it.
        said = re.findall(r"crashed (\S+) (\S+) (-?\d+)$", crashing.output, re.MULTILINE)
        ends = {(call, point): int(number) for call, point, number in said}
        assert ends == dict.fromkeys(points, signal.SIGKILL), crashing.output
        site.open_gate("gate")
        for some in range(0, len(points), AT_ONCE):
            await asyncio.gather(
                *(crash_points.recover(site, *each) for each in points[some : some + AT_ONCE])
            )
        assert site.query("SELECT count(*) FROM holdfast.job") == [(0,)], "nothing is left over"
