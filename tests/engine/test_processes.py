"""Handlers in processes: they can do what they like, and be killed, and the worker lives."""

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from holdfast.engine.child import PARENT_GONE
from holdfast.model.lifecycle import State
from holdfast.model.records import Query
from holdfast.model.retry import Never
from holdfast.model.timing import SECOND
from holdfast.stores.memory.store import steady_clock
from tests.engine import process_tasks as tasks
from tests.engine.rig import Rig

pytestmark = pytest.mark.process


def rig(**settings: Any) -> Rig:
    made = Rig(**{"kill_seconds": 1.5, **settings})
    made.registry = tasks.app.registry
    return made


async def test_a_child_is_used_again_and_shares_nothing_but_its_process(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PYTHONPATH", "given by the user")
    bench = rig(concurrency=1)
    pids = [await bench.add(tasks.pid.definition) for _ in range(2)]
    looks = [await bench.add(tasks.look.definition) for _ in range(2)]
    assert await bench.drain() == 0
    first, second = [(await bench.job(job)).result for job in pids]
    assert first == second != str(os.getpid()).encode()
    assert [(await bench.job(job)).result for job in looks] == [b'["unset","given by the user"]'] * 2


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        (0, "the child process ended with exit code 0"),
        (7, "the child process ended with exit code 7"),
        (-signal.SIGKILL, "the child process was killed by SIGKILL"),
        (-(signal.SIGRTMIN + 6), f"the child process was killed by signal {signal.SIGRTMIN + 6}"),
    ],
)
async def test_a_child_that_ends_is_one_failed_attempt(code: int, reason: str) -> None:
    bench = rig(concurrency=1)
    bad, good = await bench.add(tasks.ends.definition, code), await bench.add(tasks.pid.definition)
    assert await bench.drain() == 0
    record = await bench.job(bad)
    assert (record.state, record.reason, record.failures) == (State.DLQ, reason, 1)
    assert await bench.state(good) is State.SUCCESS


async def test_whatever_a_handler_raises_or_gives_comes_back_as_a_failure() -> None:
    bench = rig(concurrency=2)
    jobs = [await bench.add(tasks.raises.definition, kind) for kind in ("exit", "interrupt", "surrogate")]
    jobs += [await bench.add(tasks.gives.definition, what) for what in ("coroutine", "object", "huge")]
    jobs.append(await bench.add(tasks.eats_memory.definition))
    assert await bench.drain() == 0
    reasons = [str((await bench.job(job)).reason) for job in jobs]
    beginnings = [
        "SystemExit: 3",
        "KeyboardInterrupt",
        "ValueError: \\ud800",
        "TypeError: the handler returned a coroutine",
        "TypeError: the result cannot be stored: result: builtins.object",
        "TypeError: the result cannot be stored: result: 3000002 bytes",
        "MemoryError",
    ]
    for reason, beginning in zip(reasons, beginnings, strict=True):
        assert reason.startswith(beginning)


async def test_rules_by_exception_see_the_type_that_was_raised_in_the_child() -> None:
    bench = rig(concurrency=1)
    plain, known = [await bench.add(task.definition) for task in (tasks.raises_plain, tasks.raises_known)]
    assert await bench.drain() == 0
    assert (await bench.job(plain)).state is State.RETRY
    assert (await bench.job(known)).reason == "Known: (1, 2)"


async def test_a_child_that_ignores_term_is_killed_with_all_that_it_started() -> None:
    bench = rig(concurrency=1)
    # Its timeout would go on while a process starts: this one is there by then.
    first = await bench.add(tasks.pid.definition)
    async with bench.serving() as worker:
        await bench.seen.wait("settled", job=first)
        job = await bench.add(tasks.ignores_term.definition)
        good = await bench.add(tasks.pid.definition)
        await bench.seen.wait("settled", job=job)
        await bench.seen.wait("settled", job=good)
    assert worker.exit_code == 0, "one process that had to be killed is no reason to end"
    assert not bench.seen.of("stuck")
    record = await bench.job(job)
    assert (record.state, record.reason) == (State.DLQ, "timeout after 1 s")
    assert record.progress_note is not None
    assert _is_gone(record.progress_note)


def _is_gone(pid: str) -> bool:
    stat = Path(f"/proc/{pid}/stat")
    return not stat.exists() or stat.read_text().split()[2] == "Z"


async def test_progress_state_and_children_pass_through_the_pipe() -> None:
    bench = rig(concurrency=1, lease_seconds=60, heartbeat_seconds=0.1)
    job, after = await bench.add(tasks.reports.definition), await bench.add(tasks.waits.definition)
    async with bench.serving() as worker:
        await bench.seen.wait("settled", job=job)
        await bench.seen.wait("claimed", job=after)
        await _until_progress(bench, after)
        worker.stop(0)
    assert (await bench.job(job)).result == b'"shared"'
    session = await bench.memory.connect("default")
    assert len(await session.jobs.find(Query(task="pid"))) == 1
    assert await bench.outcomes(after) == ["released"]


async def _until_progress(bench: Rig, job: str) -> None:
    """Until the job's own progress has arrived; nothing of another job may come before it."""
    count = 0
    while (note := (await bench.job(job)).progress_note) is None:
        count += 1
        await bench.seen.wait("heartbeat", count=count)
    assert note == "waiting"


async def test_an_async_handler_in_a_process_is_cancelled() -> None:
    bench = rig(concurrency=1, lease_seconds=60, heartbeat_seconds=0.1)
    job = await bench.add(tasks.waits.definition)
    async with bench.serving():
        await _until_progress(bench, job)
        await bench.cancel(job)
        await bench.seen.wait("settled", job=job)
    assert await bench.outcomes(job) == ["cancelled"]


async def test_a_job_that_is_cancelled_while_its_process_starts_is_cancelled() -> None:
    bench = rig(concurrency=1)
    job = await bench.add(tasks.waits.definition)
    async with bench.serving():
        await bench.seen.wait("claimed", job=job)
        await bench.cancel(job)
        await bench.seen.wait("settled", job=job)
    assert await bench.outcomes(job) == ["cancelled"]


async def test_a_handler_that_a_child_cannot_find_fails_with_a_clear_reason() -> None:
    bench = Rig()

    def inside() -> None: ...

    job = await bench.add(bench.task(inside, run_in="process", retry=Never()))
    assert await bench.drain() == 0
    assert "to run in a process it must be outside" in str((await bench.job(job)).reason)


async def test_a_handler_in_a_process_may_hold_its_gil_for_longer_than_the_lease() -> None:
    bench = rig(lease_seconds=60, heartbeat_seconds=0.02, reclaim_seconds=0.05)
    bench.hurry(20)
    job = await bench.add(tasks.holds_the_gil.definition)
    assert await bench.drain() == 0
    record = await bench.job(job)
    assert record.started is not None
    assert record.finished is not None
    assert record.finished - record.started > 60 * SECOND
    assert await bench.outcomes(job) == ["success"]


async def test_a_handler_that_holds_our_gil_may_lose_its_lease_but_completes_once() -> None:
    bench = rig(clock=steady_clock(), lease_seconds=0.1, reclaim_seconds=5)
    job = await bench.add(tasks.holds_our_gil.definition)
    async with bench.serving():
        while await bench.state(job) is not State.SUCCESS:
            await bench.seen.wait("settled", count=len(await bench.history(job)) + 1, job=job)
    assert (await bench.outcomes(job)).count("success") == 1


def test_a_child_whose_parent_is_gone_ends_without_a_word() -> None:
    program = """
import socket
from holdfast.engine.child import Pipe
from holdfast.engine.frames import Progressed

ours, parents = socket.socketpair()
parents.close()
Pipe(ours).say(Progressed(0.5, None))
print("went on")
"""
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stdout, ended.stderr) == (PARENT_GONE, "", "")
