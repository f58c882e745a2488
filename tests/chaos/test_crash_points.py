"""Every call that changes the store, with its process killed before or after the commit, or repeating it."""

import asyncio
import re
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from holdfast import Holdfast, Job
from holdfast.engine.worker import Worker
from holdfast.model.overrides import Overrides
from tests.chaos import program
from tests.chaos.crashing import job_id, namespace
from tests.chaos.failpoint import CALLS, POINTS
from tests.chaos.harness import Site, check_attempts
from tests.chaos.waiting import until_async

pytestmark = pytest.mark.process

SETTINGS = Overrides(
    lease_seconds=1.0,
    poll_seconds=0.05,
    reclaim_seconds=0.1,
    kill_seconds=1.0,
    leader_candidate=False,  # a candidate writes too, and the commit that counts would not be the next one
)

# What is seen of a call that was made.
SEEN: dict[str, Callable[[Job[Any]], bool]] = {
    "claim": lambda job: job.state == "claimed",
    "start": lambda job: job.state == "running",
    "complete": lambda job: job.state == "success",
    "retry": lambda job: job.failures == 1,
    "dead-letter": lambda job: job.state == "dlq",
    "release": lambda job: job.state == "scheduled",
    "reclaim": lambda job: job.state != "claimed",
    "cancel": lambda job: job.state == "cancelled",
    "ask-cancel": lambda job: job.cancel_asked,
    "replay": lambda job: job.state == "scheduled",
    "change": lambda job: job.priority == 7,
}


async def test_no_crash_point_loses_a_job_or_records_one_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CHAOS_EFFECTS", str(tmp_path / "effects"))
    points = [(call, point) for call in CALLS for point in POINTS]
    async with Site(tmp_path, **SETTINGS) as site:
        crashing = site.start("-m", "tests.chaos.crashing", *CALLS)
        assert await crashing.ends(within=40) == 0
        # Anywhere in a line: one that was killed may have left a line of its log unfinished before it.
        said = re.findall(r"crashed (\S+) (\S+) (-?\d+)$", crashing.output, re.MULTILINE)
        ends = {(call, point): int(number) for call, point, number in said}
        unlike = [point for point in points if ends.get(point) != signal.SIGKILL]
        assert not unlike, f"each process has reached its point\n{crashing.output}"
        site.open_gate("gate")
        await asyncio.gather(*(recover(site, call, point) for call, point in points))
        assert site.query("SELECT count(*) FROM holdfast_job") == [(0,)], "nothing is left over"
        assert site.query("PRAGMA integrity_check") == [("ok",)]


async def recover(site: Site, call: str, point: str) -> None:
    """Does what is left to do after the crash, and has a worker do the rest."""
    job = job_id(call, point)
    was_made = point != "before"
    settings = Overrides(**SETTINGS, namespace=namespace(call, point))
    async with Holdfast(site.url, **settings) as app:
        found = await app.get(job)
        if call in {"delete", "prune"} and was_made:
            assert found is None
            return
        if call == "add":
            assert (found is not None) == was_made
            await app.enqueue_many([program.work.using(id=job).call()])
        else:
            assert found is not None
        if found is not None and call in SEEN:
            assert SEEN[call](found) == was_made, (call, point, found)
        if call in {"pause", "resume"}:
            assert [queue.paused for queue in await app.queues.list()] == [was_made == (call == "pause")]
            await app.queues.resume("default")
        if call == "replay" and not was_made:
            await app.replay(job)
        await settle(app, job, call, point)


async def settle(app: Holdfast, job: str, call: str, point: str) -> None:
    async def finished() -> list[Job[Any]]:
        return [found for found in await app.find() if found.is_finished]

    registry = program.app.registry
    async with Worker(app.store, registry, app.settings, queues=("default",), notices=app.notices):
        [done] = await until_async(finished, f"the job of {call}, {point}, is finished")
    assert done.id == job
    attempts = await app.history(job)
    if call in {"cancel", "ask-cancel"} and point != "before":
        assert done.state == "cancelled"
    elif call == "dead-letter":
        ends = [attempt.outcome.value for attempt in attempts]
        assert (ends.count("retry"), ends.count("failed"), ends[-1]) == (1, 1, "failed"), ends
    else:
        check_attempts(done, attempts)
