"""Batches whose maker is killed, and sequences whose steps run in processes of their own."""

import re
from itertools import pairwise
from pathlib import Path

import pytest

from tests.chaos import flow_filler, flow_program
from tests.chaos.flow_program import step_in_process
from tests.chaos.harness import Site
from tests.chaos.waiting import until, until_async

pytestmark = pytest.mark.process


async def test_a_batch_whose_maker_was_killed_is_closed_by_another(tmp_path: Path) -> None:
    async with Site(tmp_path) as site:
        maker = site.start("-m", flow_filler.__name__)
        await maker.says("added", times=5)
        maker.kill()
        batch = re.findall(r"added (\S+)", maker.output)[0]
        info = await site.app.batches.get(batch)
        assert info.is_open
        assert info.total >= 10
        worker = site.start("-m", "holdfast", "worker", f"{flow_program.__name__}:app")
        await until_async(
            lambda: site.app.batches.get(batch), "its jobs are done", lambda info: not info.pending
        )
        closing = await site.app.get(batch)
        assert closing is not None
        assert closing.state == "scheduled"
        await site.app.batches.close(batch)
        await site.finished(closing)
        assert await site.app.client.result(batch) == 0
        await site.check([closing])
        info = await site.app.batches.get(batch)
        # Every second one has added another.
        assert (info.pending, info.failed, info.total % 3) == (0, 0, 0)
        assert worker.code is None


async def test_steps_in_processes_come_in_order_though_their_workers_are_killed(tmp_path: Path) -> None:
    async with Site(
        tmp_path, lease_seconds=1.5, reclaim_seconds=0.3, poll_seconds=0.2, lost_limit=50
    ) as site:
        command = ("-m", "holdfast", "worker", f"{flow_program.__name__}:app", "-c", "2")
        workers = [site.start(*command) for _ in range(2)]
        steps = await site.add(
            *[step_in_process.call(line, number) for number in range(8) for line in ("one", "two")]
        )
        for place in range(2):
            enough = len(site.effects("ended")) + 2
            await until(lambda: len(site.effects("ended")), "some go on", enough.__le__)
            workers[place].kill()
            workers[place] = site.start(*command)
        await site.finished(*steps, within=40)
        await site.check(steps)
        for line in ("one", "two"):
            attempts = [await site.app.history(step.id) for step in steps if step.sequence_key == line]
            for earlier, later in pairwise(attempts):
                ended = earlier[-1].finished
                assert ended is not None
                assert round(ended.timestamp() * 1_000_000) <= later[0].token
