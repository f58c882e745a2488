"""A forked child and its parent use one file, each by itself."""

import asyncio
import os
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from holdfast.model.records import Query
from holdfast.stores.sqlite.store import SqliteSession
from tests.sqlite.support import file_of, new_job, store_at

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")


def exit_code(pid: int) -> int:
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def test_a_forked_child_goes_on_with_connections_of_its_own(tmp_path: Path) -> None:
    parents, childs, last = new_job(), new_job(), new_job()

    async def in_child(session: SqliteSession) -> bool:
        stored = await session.jobs.get(parents.id)
        await session.jobs.add([childs])
        await session.close()
        return stored is not None

    with asyncio.Runner() as runner:
        session = runner.run(store_at(tmp_path).connect("default"))
        runner.run(session.jobs.add([parents]))
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                code = 0 if asyncio.Runner().run(in_child(session)) else 2
            finally:
                os._exit(code)
        assert exit_code(pid) == 0
        runner.run(session.jobs.add([last]))
        found = runner.run(session.jobs.find(Query()))
        assert {job.id for job in found} == {parents.id, childs.id, last.id}
        runner.run(session.close())
    with closing(sqlite3.connect(file_of(tmp_path))) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)


def test_a_fork_in_the_midst_of_writing_leaves_the_child_able_to_write(tmp_path: Path) -> None:
    async def add(session: SqliteSession, count: int) -> int:
        answers = await asyncio.gather(*(session.jobs.add([new_job()]) for _ in range(count)))
        return sum(answer[0].created for answer in answers)

    async def in_child() -> int:
        session = await store_at(tmp_path).connect("child")
        added = await add(session, 10)
        await session.close()
        return added

    async def fork_while_adding(session: SqliteSession) -> None:
        for _ in range(5):
            adding = asyncio.ensure_future(add(session, 20))
            await asyncio.sleep(0)
            pid = os.fork()
            if pid == 0:
                code = 1
                try:
                    asyncio.events._set_running_loop(None)
                    code = 0 if asyncio.Runner().run(in_child()) == 10 else 2
                finally:
                    os._exit(code)
            assert await adding == 20
            assert exit_code(pid) == 0

    with asyncio.Runner() as runner:
        session = runner.run(store_at(tmp_path).connect("default"))
        runner.run(fork_while_adding(session))
        assert sum(line.count for line in runner.run(session.jobs.count())) == 100
        runner.run(session.close())
