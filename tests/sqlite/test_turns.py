"""Transactions of handlers take turns: one of a process asks for the write lock, the others wait for it."""

import os
import sqlite3
import threading
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from holdfast.stores.sqlite import connection, turns
from holdfast.stores.sqlite.turns import Turns


def connected(file: Path) -> sqlite3.Connection:
    return sqlite3.connect(file, timeout=7, isolation_level=None, check_same_thread=False)


def test_one_asks_for_all_that_wait_and_each_gets_its_turn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asking: set[int] = set()
    asked = threading.Event()
    most = 0

    def counted(act: Callable[[], object], patience: float) -> object:
        nonlocal most
        asking.add(threading.get_ident())
        asked.set()
        most = max(most, len(asking))
        try:
            return connection.insist(act, patience)
        finally:
            asking.discard(threading.get_ident())

    monkeypatch.setattr(turns, "insist", counted)
    ours = Turns()
    file = tmp_path / "jobs.db"
    done: list[int] = []

    def work(number: int) -> None:
        with closing(connected(file)) as mine:
            ours.begin(mine, 30)
            done.append(number)
            mine.execute("COMMIT")

    with closing(connected(file)) as other:
        other.execute("BEGIN IMMEDIATE")
        threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        assert asked.wait(30)
        other.execute("COMMIT")
    for thread in threads:
        thread.join()
    assert sorted(done) == list(range(8))
    assert most == 1


def test_who_waits_in_vain_is_told_as_by_sqlite_and_keeps_its_own_patience(tmp_path: Path) -> None:
    ours = Turns()
    with closing(connected(tmp_path / "jobs.db")) as other, closing(connected(tmp_path / "jobs.db")) as mine:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(sqlite3.OperationalError, match="locked"):
            ours.begin(mine, 0.05)
        other.execute("COMMIT")
        ours.begin(mine, 0.05)
        assert mine.execute("PRAGMA busy_timeout").fetchone() == (7_000,)


@pytest.mark.process
def test_a_forked_child_does_not_wait_for_a_thread_that_it_has_not(tmp_path: Path) -> None:
    ours = Turns()
    ours._lock.acquire()
    child = os.fork()
    if child == 0:
        with closing(connected(tmp_path / "jobs.db")) as mine:
            ours.begin(mine, 0.05)
            os._exit(0 if mine.in_transaction and not ours._lock.locked() else 1)
    assert os.waitpid(child, 0)[1] == 0
