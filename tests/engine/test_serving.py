"""What a worker serves, and what it leaves behind."""

import asyncio
import gc
import threading
import weakref

import pytest

from holdfast.engine.hold import Hold
from holdfast.model.errors import ConfigurationError
from holdfast.model.lifecycle import State
from holdfast.model.records import JobRecord
from tests.engine.rig import Rig


async def good() -> None: ...


async def test_a_job_of_an_unknown_task_waits_and_is_no_attempt() -> None:
    rig, elsewhere = Rig(), Rig()
    job = await rig.add(elsewhere.task(good, name="elsewhere"))
    known = await rig.add(rig.task(good))
    assert await rig.drain() == 0
    record = await rig.job(job)
    assert (record.state, record.run) == (State.SCHEDULED, 0)
    assert await rig.state(known) is State.SUCCESS


async def test_a_worker_needs_a_queue() -> None:
    with pytest.raises(ConfigurationError, match="queues"):
        Rig().worker(queues=())


async def test_until_idle_waits_for_what_jobs_lead_to_but_not_for_the_future() -> None:
    rig = Rig()

    async def leads(left: int) -> None:
        if left:
            await rig.add(task, left - 1)

    task = rig.task(leads)
    later = await rig.add(task, 0, delay=60)
    first = await rig.add(task, 20)
    assert await rig.drain() == 0
    assert len(rig.seen.of("settled")) == 21
    assert [await rig.state(job) for job in (first, later)] == [State.SUCCESS, State.SCHEDULED]


async def test_a_worker_runs_on_another_thread_as_well() -> None:
    rig = Rig()
    job = await rig.add(rig.task(good))
    codes: list[int] = []
    thread = threading.Thread(target=lambda: codes.append(asyncio.run(rig.drain())))
    thread.start()
    await asyncio.to_thread(thread.join, 10)
    assert codes == [0]
    assert await rig.state(job) is State.SUCCESS


class Told:
    """Whoever waits for results; counts them."""

    def __init__(self, count: int) -> None:
        self.all = asyncio.Event()
        self._left = count

    def settled(self, record: JobRecord) -> None:
        self._left -= 1
        if not self._left:
            self.all.set()


async def test_nothing_of_a_settled_job_stays_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    alive: weakref.WeakSet[Hold] = weakref.WeakSet()
    create = Hold.__init__

    class Watched(Hold):
        """With room for a weak reference."""

        __slots__ = ("__weakref__",)

        def __init__(self, *args: object) -> None:
            create(self, *args)  # type: ignore[arg-type]
            alive.add(self)

    monkeypatch.setattr("holdfast.engine.ledger.Hold", Watched)
    rig = Rig()
    rig.notices._listeners = ()

    def blocking() -> None: ...

    tasks = [rig.task(good, timeout=3600), rig.task(blocking)]
    told = Told(1000)
    worker = rig.worker(results=told)
    async with worker:
        for number in range(1000):
            await rig.add(tasks[number % 2])
        await told.all.wait()
        await asyncio.sleep(0)
        assert not worker._held()
        gc.collect()
        assert len(alive) <= 300, "timeouts of ended jobs go by the hundred, nothing else stays"


async def test_two_workers_of_one_process_share_the_jobs_and_never_one_of_them() -> None:
    rig = Rig(concurrency=2)
    runs: dict[str, int] = {}

    async def counts(name: str) -> None:
        runs[name] = runs.get(name, 0) + 1
        await asyncio.sleep(0)

    task = rig.task(counts)
    jobs = [await rig.add(task, str(number)) for number in range(200)]
    assert await asyncio.gather(*(rig.drain() for _ in range(3))) == [0, 0, 0]
    assert set(runs.values()) == {1}
    assert len(runs) == 200
    assert {await rig.state(job) for job in jobs} == {State.SUCCESS}
