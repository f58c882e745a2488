from typing import Any

import pytest

from holdfast.model import lifecycle
from holdfast.model.lifecycle import Ending
from tests.app.support import Bench, bench, new_job


async def why(it: Bench, job_id: str) -> tuple[str, dict[str, Any]]:
    explanation = await it.client.explain(job_id)
    return str(explanation), dict(explanation.facts)


@pytest.mark.parametrize(
    ("workers", "words"),
    [
        ({}, "No live worker is known."),
        ({"w": ["other"]}, "No live worker serves queue 'default'."),
    ],
)
async def test_a_due_job_that_nobody_serves(workers: dict[str, list[str]], words: str) -> None:
    async with bench() as it:
        for name, queues in workers.items():
            await it.register(name, queues=queues)
        added = await it.client.enqueue(new_job())
        sentence, facts = await why(it, added.record.id)
        assert sentence == words
        assert facts["is_due"]


async def test_a_due_job_whose_task_nobody_knows() -> None:
    async with bench() as it:
        await it.register()
        added = await it.client.enqueue(new_job(task="unheard-of"))
        sentence, facts = await why(it, added.record.id)
        assert sentence == "No live worker of queue 'default' knows task 'unheard-of'."
        assert (facts["serving_workers"], facts["knowing_workers"]) == (1, 0)


async def test_a_due_job_that_waits_for_its_turn() -> None:
    async with bench() as it:
        await it.register()
        added = [await it.client.enqueue(new_job()) for _ in range(3)]
        sentence, facts = await why(it, added[-1].record.id)
        assert sentence == (
            "It is due and waits for its turn, with 2 other due jobs in queue 'default' and "
            "1 live worker that can run it."
        )
        assert facts["due_in_queue"] == 3


async def test_a_job_that_is_not_due_in_a_queue_that_is_paused() -> None:
    async with bench() as it:
        await it.register()
        await it.session.fleet.pause("default")
        added = await it.client.enqueue(new_job(delay=90_000_000))
        sentence, facts = await why(it, added.record.id)
        assert sentence.startswith("It is not due before 20")
        assert sentence.endswith(", in 90 s; queue 'default' is paused.")
        assert facts["queue_paused"]
        assert not facts["is_due"]


async def test_a_job_that_is_to_be_tried_again() -> None:
    async with bench() as it:
        await it.client.enqueue(new_job())
        record = await it.claim()
        await it.end(
            record, lifecycle.RETRIED, Ending.RETRY, delay=5_000_000, failures=2, reason="ValueError: no"
        )
        sentence, _ = await why(it, record.id)
        assert sentence.startswith("It is tried again at ")
        assert sentence.endswith(", in 5 s, after failure 2: ValueError: no.")


async def test_a_job_that_is_held_and_then_running_and_asked_to_stop() -> None:
    async with bench() as it:
        await it.client.enqueue(new_job())
        record = await it.claim()
        sentence, facts = await why(it, record.id)
        assert sentence == "It was claimed by worker w, which has not reported its start yet."
        assert facts["worker_live"]
        await it.start(record)
        await it.client.cancel(record.id)
        sentence, facts = await why(it, record.id)
        assert sentence.startswith("It has been running since 20")
        assert sentence.endswith("on worker w, run 1; it was asked to stop.")


async def test_a_job_whose_worker_is_gone() -> None:
    async with bench() as it:
        await it.client.enqueue(new_job())
        record = await it.claim()
        await it.session.fleet.retire("w")
        sentence, facts = await why(it, record.id)
        assert "that worker is not live, and the job is taken back when its lease ends at 20" in sentence
        assert not facts["worker_live"]


async def test_a_job_that_has_finished() -> None:
    async with bench() as it:
        await it.client.enqueue(new_job())
        succeeded = await it.succeed()
        assert (await why(it, succeeded.id))[0].startswith("It succeeded at 20")
        await it.client.enqueue(new_job())
        buried = await it.bury("ValueError: no")
        sentence, facts = await why(it, buried.id)
        assert sentence.startswith("It was dead-lettered at 20")
        assert sentence.endswith(", after 1 run, because: ValueError: no. Replay it to try again.")
        assert facts["failures"] == 4
        cancelled = await it.client.enqueue(new_job(delay=10**9))
        await it.client.cancel(cancelled.record.id)
        assert (await why(it, cancelled.record.id))[0].startswith("It was cancelled at 20")
