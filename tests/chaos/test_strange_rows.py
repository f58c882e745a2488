"""Rows that a worker does not know what to do with."""

from pathlib import Path

import pytest

from tests.chaos import program
from tests.chaos.harness import Site
from tests.sqlite.support import loosen

pytestmark = pytest.mark.process


async def test_a_job_of_an_unknown_task_waits_until_a_worker_comes_that_knows_it(tmp_path: Path) -> None:
    async with Site(tmp_path, lease_seconds=60) as site:
        await site.workers(1)
        [stranger] = await site.add(program.newcomer.call())
        others = await site.add(*[program.work.call() for _ in range(5)])
        await site.finished(*others)
        waiting = await site.stored(stranger)
        assert (waiting.state, waiting.run) == ("scheduled", 0)
        why = site.start("-m", "holdfast", "why", stranger.id)
        assert await why.ends() == 0
        assert "knows task 'newcomer'" in why.output
        site.worker(app="newer")
        await site.finished(stranger)
        assert await site.outcomes(stranger) == ["success"]
        await site.check([stranger, *others])


BODY = "UPDATE holdfast_body SET payload = {} WHERE pk = (SELECT pk FROM holdfast_job WHERE id = ?)"
ROW = "UPDATE holdfast_job SET {} WHERE id = ?"
DAMAGE = (
    BODY.format("x'c328'"),
    BODY.format("x'80049503000000000000004b2a2e'"),
    BODY.format("'17'"),
    BODY.format("""'[["x"],{"seconds":[]}]'"""),
    BODY.format("replace(hex(zeroblob(50000)), '00', '[')"),
    ROW.format("tags = 'not json'"),
    ROW.format("key = x'ff'"),
    ROW.format("timeout = 'soon'"),
    ROW.format("failures = 'many'"),
    ROW.format("due = 1.5"),
)


async def test_rows_that_cannot_be_decoded_are_dead_lettered_and_the_worker_lives(tmp_path: Path) -> None:
    async with Site(tmp_path, lease_seconds=60) as site:
        jobs = await site.add(*[program.work.call() for _ in DAMAGE])
        others = await site.add(*[program.work.call() for _ in range(5)])
        loosen(site.url.removeprefix("sqlite:///"))
        for job, sql in zip(jobs, DAMAGE, strict=True):
            site.query(sql, job.id)
        [worker] = await site.workers(1)
        await site.finished(*others)
        await site.check(others)
        for job, sql in zip(await site.finished(*jobs), DAMAGE, strict=True):
            assert job.state == "dlq", sql
            assert job.reason is not None
            assert job.reason.startswith("undecodable: "), sql
            assert site.effects("began", job) == []
        assert worker.code is None


async def test_names_in_rows_are_never_imported(tmp_path: Path) -> None:
    async with Site(tmp_path, lease_seconds=60) as site:
        jobs = await site.add(*[program.work.call() for _ in range(3)])
        for job, name in zip(jobs, ("os.system", "builtins:eval", "tests.chaos.program:die"), strict=True):
            site.query("UPDATE holdfast_job SET task = ? WHERE id = ?", name, job.id)
        [other] = await site.add(program.work.call())
        assert await site.worker("--drain").ends() == 0
        await site.check([other])
        for job in jobs:
            waiting = await site.stored(job)
            assert (waiting.state, waiting.run) == ("scheduled", 0)
