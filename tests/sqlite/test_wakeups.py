"""Wake-ups: at once within the process, soon from another, and no looking around for nobody."""

import asyncio
import threading
from pathlib import Path

import pytest

from holdfast.stores.sqlite.writer import Writer
from tests.sqlite.support import Child, new_job, session_at, store_at, url_of

SOON = 5


@pytest.mark.process
async def test_a_job_from_another_process_wakes_the_listener(tmp_path: Path) -> None:
    async with session_at(tmp_path) as session:
        woken = threading.Event()
        stop = session.wakeups.listen(woken.set)
        with Child("add_one", url_of(tmp_path)) as child:
            assert child.line() == "ready"
            for _ in range(3):
                woken.clear()
                child.say("add")
                assert await asyncio.to_thread(woken.wait, SOON)
        stop()


async def test_a_job_of_the_users_own_transaction_wakes_the_listener(tmp_path: Path) -> None:
    async with session_at(tmp_path) as session:
        woken = threading.Event()
        stop = session.wakeups.listen(woken.set)
        transactions = store_at(tmp_path).transactions
        with transactions.begin_sync() as connection:
            transactions.add_in_sync(connection, "default", [new_job()])
            woken.clear()
        assert await asyncio.to_thread(woken.wait, SOON)
        stop()


async def test_only_listeners_of_the_namespace_are_woken_within_the_process(tmp_path: Path) -> None:
    async with session_at(tmp_path) as one, session_at(tmp_path, namespace="other") as other:
        woken: list[str] = []
        enough = threading.Event()
        stops = [
            other.wakeups.listen(lambda: woken.append("other")),
            one.wakeups.listen(enough.set),
        ]
        await one.jobs.add([new_job()])
        assert await asyncio.to_thread(enough.wait, SOON)
        assert woken == []
        for stop in stops:
            stop()


async def test_nobody_looks_around_when_nobody_listens(tmp_path: Path) -> None:
    async with session_at(tmp_path) as session:
        await session.jobs.add([new_job()])
        writer = session._database and session._database._writer
        assert isinstance(writer, Writer)
        assert writer._pause() is None
        stop = session.wakeups.listen(lambda: None)
        assert writer._pause() is not None
        stop()
        assert writer._pause() is None
