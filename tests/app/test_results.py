import asyncio
import threading
from collections.abc import Sequence
from typing import Any

import pytest

from holdfast.engine.results import Results
from holdfast.model import lifecycle
from holdfast.model.errors import (
    JobCancelled,
    JobFailed,
    JobGone,
    NotOpen,
    ResultNotKept,
    StoreUnavailable,
    Undecodable,
)
from holdfast.model.lifecycle import Ending, State
from holdfast.model.records import JobRecord
from tests.app.support import Bench, bench, new_job


class Asked:
    """The store's `states`, counted, and perhaps away for a while."""

    def __init__(self, inner: Any, errors: Sequence[BaseException] = ()) -> None:
        self._inner = inner
        self.questions: list[list[str]] = []
        self.errors = list(errors)
        self.asked = asyncio.Event()

    async def states(self, job_ids: Sequence[str]) -> list[JobRecord | None]:
        self.questions.append(list(job_ids))
        self.asked.set()
        if self.errors:
            raise self.errors.pop(0)
        answer: list[JobRecord | None] = await self._inner.states(job_ids)
        return answer


def observed(it: Bench, *errors: BaseException) -> tuple[Results, Asked]:
    results = it.client.results
    asked = Asked(results._jobs, errors)
    results._jobs = asked  # type: ignore[assignment]
    return results, asked


async def test_a_finished_job_is_answered_at_once() -> None:
    async with bench() as it:
        added = await it.client.enqueue(new_job())
        await it.succeed(b"42")
        assert await it.client.result(added.record.id) == 42
        assert await it.client.result(added.record.id, timeout=0) == 42


async def test_a_job_that_another_process_finishes_is_found_by_asking() -> None:
    async with bench() as it:
        added = await it.client.enqueue(new_job())
        waiting = asyncio.create_task(it.client.result(added.record.id, timeout=10))
        await asyncio.sleep(0)
        await it.succeed(b"7")
        assert await waiting == 7


async def test_a_job_that_this_process_finishes_is_answered_without_asking() -> None:
    async with bench() as it:
        added = await it.client.enqueue(new_job())
        results, asked = observed(it)
        waiting = asyncio.create_task(results.wait(added.record.id))
        await asked.asked.wait()
        record = await it.claim()
        record.state, record.result = State.SUCCESS, b"8"
        results.settled(record)
        assert await waiting == 8
        assert len(asked.questions) == 1


async def test_a_worker_on_another_thread_can_tell() -> None:
    async with bench() as it:
        added = await it.client.enqueue(new_job())
        results, asked = observed(it)
        waiting = asyncio.create_task(results.wait(added.record.id))
        await asked.asked.wait()
        record = await it.claim()
        record.state, record.result = State.SUCCESS, b"9"
        thread = threading.Thread(target=results.settled, args=(record,))
        thread.start()
        assert await waiting == 9
        thread.join()


async def test_all_who_wait_share_one_question() -> None:
    async with bench() as it:
        added = [(await it.client.enqueue(new_job())).record.id for _ in range(50)]
        for _ in range(50):
            await it.succeed(b"1")
        results, asked = observed(it)
        assert await asyncio.gather(*(results.wait(job_id) for job_id in added * 2)) == [1] * 100
        assert len(asked.questions) == 1
        assert sorted(asked.questions[0]) == sorted(added)


async def test_a_job_told_of_while_nobody_waits_is_no_matter() -> None:
    async with bench() as it:
        await it.client.enqueue(new_job())
        it.client.results.settled(await it.succeed())


async def test_a_store_that_is_away_is_asked_again() -> None:
    async with bench() as it:
        added = await it.client.enqueue(new_job())
        await it.succeed(b"5")
        results, asked = observed(it, StoreUnavailable("away"), StoreUnavailable("away"))
        assert await results.wait(added.record.id, timeout=10) == 5
        assert len(asked.questions) == 3


async def test_a_defect_of_the_store_is_told_to_those_who_wait() -> None:
    async with bench() as it:
        added = await it.client.enqueue(new_job())
        results, _ = observed(it, ZeroDivisionError("defect"))
        with pytest.raises(ZeroDivisionError):
            await results.wait(added.record.id)
        await it.succeed(b"5")
        assert await results.wait(added.record.id) == 5


async def test_the_wait_ends_when_its_time_is_over_and_the_job_goes_on() -> None:
    async with bench() as it:
        added = await it.client.enqueue(new_job())
        with pytest.raises(TimeoutError, match=f"job {added.record.id} did not finish within 0.01 s"):
            await it.client.result(added.record.id, timeout=0.01)
        with pytest.raises(TimeoutError, match="it is scheduled"):
            await it.client.result(added.record.id, timeout=0)
        assert not it.client.results._waiting
        await it.succeed(b"5")
        assert await it.client.result(added.record.id) == 5


async def test_each_end_without_a_value_has_its_own_error() -> None:
    async with bench() as it:
        await it.client.enqueue(new_job())
        buried = await it.bury("ValueError: no")
        with pytest.raises(JobFailed, match="ValueError: no") as failure:
            await it.client.result(buried.id)
        assert (failure.value.job_id, failure.value.error) == (buried.id, "Traceback")
        await it.client.enqueue(new_job())
        failed = await it.claim()
        await it.end(failed, lifecycle.FAILED_FOR_GOOD, Ending.FAILED)
        with pytest.raises(JobFailed):
            await it.client.result(failed.id)
        cancelled = await it.client.enqueue(new_job())
        await it.client.cancel(cancelled.record.id)
        with pytest.raises(JobCancelled):
            await it.client.result(cancelled.record.id)
        await it.client.enqueue(new_job())
        unkept = await it.succeed(None)
        with pytest.raises(ResultNotKept):
            await it.client.result(unkept.id)
        await it.client.delete(unkept.id)
        with pytest.raises(JobGone):
            await it.client.result(unkept.id)


async def test_a_result_of_the_wrong_type_is_undecodable() -> None:
    async with bench() as it:
        await it.client.enqueue(new_job())
        record = await it.succeed(b'"two"')
        with pytest.raises(Undecodable, match="result: Expected `int`"):
            await it.client.result(record.id)


async def test_a_result_of_a_task_that_is_not_known_here_is_plain_json() -> None:
    async with bench() as it:
        await it.client.enqueue(new_job())
        record = await it.succeed(b'{"a":[1]}')
        stored = await it.session.jobs.get(record.id)
        assert stored is not None
        stored.task = "elsewhere"
        assert it.client.results._value(record.id, stored) == {"a": [1]}


async def test_closing_tells_those_who_still_wait() -> None:
    async with bench() as it:
        added = await it.client.enqueue(new_job())
        waiting = asyncio.create_task(it.client.result(added.record.id))
        await asyncio.sleep(0)
        await it.client.close()
        with pytest.raises(NotOpen, match="closed while a result was waited for"):
            await waiting
