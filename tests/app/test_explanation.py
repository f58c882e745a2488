from datetime import datetime
from typing import Any

import pytest
from msgspec.structs import replace

from holdfast.engine.why import why as explain_why
from holdfast.model import lifecycle
from holdfast.model.lifecycle import Ending, State
from holdfast.model.records import as_added
from holdfast.model.report import WorkerReport, encode_report
from holdfast.model.retry import Fixed, Immediate, encode_retry
from holdfast.model.timing import moment
from tests.app.support import Bench, Benches, new_job, registry


def shown(instant: datetime) -> str:
    return f"{instant:%Y-%m-%d %H:%M:%S} UTC"


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
async def test_a_due_job_that_nobody_serves(
    bench: Benches, workers: dict[str, list[str]], words: str
) -> None:
    async with bench() as it:
        for name, queues in workers.items():
            await it.register(name, queues=queues)
        added = await it.client.enqueue(new_job())
        sentence, facts = await why(it, added.record.id)
        assert sentence == words
        assert facts["is_due"]


async def test_a_due_job_whose_task_nobody_knows(bench: Benches) -> None:
    async with bench() as it:
        await it.register()
        added = await it.client.enqueue(new_job(task="unheard-of"))
        sentence, facts = await why(it, added.record.id)
        assert sentence == "No live worker of queue 'default' knows task 'unheard-of'."
        assert (facts["serving_workers"], facts["knowing_workers"]) == (1, 0)


async def test_a_due_job_that_waits_for_its_turn(bench: Benches) -> None:
    async with bench() as it:
        await it.register()
        added = [await it.client.enqueue(new_job()) for _ in range(3)]
        sentence, facts = await why(it, added[-1].record.id)
        assert sentence == (
            "It is due and waits for its turn, with 2 other due jobs in queue 'default' and "
            "1 live worker that can run it."
        )
        assert facts["due_in_queue"] == 3


async def test_a_job_that_is_not_due_in_a_queue_that_is_paused(bench: Benches) -> None:
    async with bench() as it:
        await it.register()
        await it.session.fleet.pause("default")
        added = await it.client.enqueue(new_job(delay=90_000_000))
        sentence, facts = await why(it, added.record.id)
        assert sentence.startswith("It is not due before 20")
        since = moment(added.record.created)
        assert sentence.endswith(f", in 90 s; queue 'default' has been paused since {shown(since)}.")
        assert facts["queue_paused"]
        assert facts["queue_paused_since"] == since
        assert not facts["is_due"]


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (599, "599 s"),
        (600, "10 min"),
        (7_199, "119 min"),
        (7_200, "2 h 0 min"),
        (63_399, "17 h 36 min"),
        (172_800, "2 d 0 h"),
        (31_539_600, "365 d 1 h"),
    ],
)
async def test_how_long_it_takes_is_said_as_people_say_it(bench: Benches, seconds: int, words: str) -> None:
    async with bench() as it:
        await it.register()
        added = await it.client.enqueue(new_job(delay=seconds * 1_000_000))
        due = shown(moment(added.record.due))
        assert (await why(it, added.record.id))[0] == f"It is not due before {due}, in {words}."


async def test_a_job_that_is_to_be_tried_again(bench: Benches) -> None:
    async with bench() as it:
        await it.client.enqueue(new_job())
        record = await it.claim()
        await it.end(
            record, lifecycle.RETRIED, Ending.RETRY, delay=5_000_000, failures=2, reason="ValueError: no"
        )
        sentence, facts = await why(it, record.id)
        assert sentence.startswith("It waits for retry 2 of 3 at 20")
        assert sentence.endswith(", in 5 s, after failing with: ValueError: no.")
        assert (facts["retry"], facts["retries"]) == (2, 3)


@pytest.mark.parametrize(
    ("task", "retry", "words"),
    [
        ("double", Fixed(max_retries=5), "waits for retry 1 of 5 at"),
        ("double", Immediate(), "waits for retry 1 at"),
        ("unheard-of", None, "waits for retry 1 at"),
    ],
)
async def test_a_retry_is_counted_as_far_as_its_limit_is_known(
    bench: Benches, task: str, retry: Fixed | Immediate | None, words: str
) -> None:
    async with bench() as it:
        stored = None if retry is None else encode_retry(retry)
        job = as_added(new_job(task=task, retry=stored), 0)
        waiting = replace(job, state=State.RETRY, due=2 * it.clock(), failures=1, reason="no")
        explained = await explain_why(it.session, registry(), it.client.settings, job.id, waiting)
        assert words in str(explained)
        uncounted = replace(waiting, failures=0)
        explained = await explain_why(it.session, registry(), it.client.settings, job.id, uncounted)
        assert "it is tried again at" in str(explained).lower()


async def test_a_job_that_is_held_and_then_running_and_asked_to_stop(bench: Benches) -> None:
    async with bench() as it:
        await it.client.enqueue(new_job())
        record = await it.claim()
        sentence, facts = await why(it, record.id)
        until = moment(record.lease_until or 0)
        held = f"its lease is held until {shown(until)}, and prolonged while that worker lives."
        assert sentence == f"It was claimed by worker w, which has not reported its start yet; {held}"
        assert facts["worker_live"]
        assert facts["lease_until"] == until
        await it.start(record)
        await it.client.cancel(record.id)
        sentence, facts = await why(it, record.id)
        assert sentence.startswith("It has been running since 20")
        assert sentence.endswith(f"on worker w, run 1; it was asked to stop; {held}")
        it.clock.advance(60)
        sentence, _ = await why(it, record.id)
        assert sentence.endswith(
            f"; its lease ended at {shown(until)}, and the first worker that looks takes the job back."
        )


async def test_a_job_whose_worker_is_gone(bench: Benches) -> None:
    async with bench() as it:
        await it.client.enqueue(new_job())
        record = await it.claim()
        await it.session.fleet.retire("w")
        sentence, facts = await why(it, record.id)
        assert "that worker is not live, and the job is taken back when its lease ends at 20" in sentence
        assert not facts["worker_live"]


@pytest.mark.parametrize(
    ("told", "words"),
    [
        (
            {"busy": 1},
            "All 2 slots of the 2 live workers that can run it are busy; it waits with 1 other due job in",
        ),
        (
            {"busy": 1, "stuck": 1},
            "All 2 slots of the 2 live workers that can run it are busy, 2 of them with code that does not",
        ),
        ({"busy": 0}, "It is due and waits for its turn, with 1 other due job in queue 'default' and 2 live"),
        (
            {"claiming": False},
            "The 2 live workers that can run it do not ask for work: stopping, or cut off from the store.",
        ),
        (None, "It is due and waits for its turn, with 1 other"),
    ],
)
async def test_what_its_workers_do_is_told(bench: Benches, told: dict[str, Any] | None, words: str) -> None:
    async with bench() as it:
        for worker in ("v", "w"):
            await it.register(worker)
        await it.client.enqueue(new_job())
        it.clock.advance(42)
        if told is not None:
            report = encode_report(WorkerReport(**{"slots": 1, "claiming": True, **told}))
            for worker in it.workers:
                await it.session.fleet.beat(worker, 10**12, report)
        added = await it.client.enqueue(new_job())
        sentence, facts = await why(it, added.record.id)
        assert sentence.startswith(words)
        assert facts["oldest_wait"] == 42.0
        assert ("slots" in facts) is (told is not None)
        assert sentence.endswith(", the first of all for 42 s.") or not facts.get("busy_slots")
        it.clock.advance(31)
        sentence, facts = await why(it, added.record.id)
        assert "slots" not in facts, "an old report says nothing"


async def test_a_suspect_says_so_while_it_waits_and_while_it_is_held_back(bench: Benches) -> None:
    async with bench() as it:
        await it.client.enqueue(new_job())
        record = await it.claim()
        await it.end(record, lifecycle.RETURNED, Ending.RELEASED, suspect=True, lost=1)
        sentence, facts = await why(it, record.id)
        assert sentence.startswith("It is due and waits for its turn")
        assert "; it is a suspect, because a worker that held it was lost" in sentence
        assert facts["suspect"]
        await it.claim()
        sentence, _ = await why(it, record.id)
        assert sentence.startswith(
            "It was claimed by worker w, which has not reported its start yet; it is a suspect"
        )


async def test_a_job_that_has_finished(bench: Benches) -> None:
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
