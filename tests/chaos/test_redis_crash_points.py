"""The crash points of every call that changes the store, on Redis."""

import asyncio
import re
import signal
from pathlib import Path

import pytest

from holdfast.model.lifecycle import FINISHED
from holdfast.model.overrides import Overrides
from tests.chaos import test_crash_points as crash_points
from tests.chaos.crashing import GHOST
from tests.chaos.failpoint import CALLS, POINTS
from tests.chaos.redis_site import RedisSite
from tests.redis.soundness import check_sound

pytestmark = [pytest.mark.process, pytest.mark.timeout(180)]

SETTINGS = Overrides(
    lease_seconds=2.0,
    poll_seconds=0.05,
    reclaim_seconds=0.1,
    kill_seconds=1.0,
    leader_candidate=False,  # a candidate writes too, and the commit that counts would not be the next one
)
AT_ONCE = 20
"""Each has a worker, with threads and connections of its own."""


async def test_no_crash_point_loses_a_job_or_records_one_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, redis_url: str
) -> None:
    monkeypatch.setenv("CHAOS_EFFECTS", str(tmp_path / "effects"))
    monkeypatch.setattr(crash_points, "SETTINGS", SETTINGS)
    # Who reclaims a job may claim it, too, before it repeats what it was not answered.
    monkeypatch.setitem(crash_points.SEEN, "reclaim", lambda job: job.worker != GHOST.id)
    points = [(call, point) for call in CALLS for point in POINTS]
    async with RedisSite(tmp_path, redis_url, **SETTINGS) as site:
        crashing = site.start("-m", "tests.chaos.redis_crashing", *CALLS)
        assert await crashing.ends(within=60) == 0
        # Anywhere in a line: one that was killed may have left a line of its log unfinished before it.
        said = re.findall(r"crashed (\S+) (\S+) (-?\d+)$", crashing.output, re.MULTILINE)
        ends = {(call, point): int(number) for call, point, number in said}
        assert ends == dict.fromkeys(points, signal.SIGKILL), crashing.output
        check_sound(redis_url)
        site.open_gate("gate")
        for some in range(0, len(points), AT_ONCE):
            await asyncio.gather(
                *(crash_points.recover(site, *each) for each in points[some : some + AT_ONCE])
            )
        assert set(check_sound(redis_url)) <= FINISHED, "nothing is left over"
