"""Connections between two sessions."""

import os
import threading
import time
from collections import defaultdict
from collections.abc import Callable

import pytest

from holdfast.stores.mssql import shelf as module
from holdfast.stores.mssql.address import parse
from holdfast.stores.mssql.connecting import Connecting
from holdfast.stores.mssql.seat import Opened
from holdfast.stores.mssql.shelf import KEPT_SECONDS, MOST, Shelf, shelf_of
from tests.mssql.fake_driver import FakeConnection, FakeDriver

HERE = parse("mssql+pytds://ann:s3cr3t@localhost/shelved")


class Time:
    """A clock that is moved by hand, and what is to be done later."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.todo: list[tuple[float, Callable[[], None]]] = []

    def clock(self) -> float:
        return self.now

    def later(self, seconds: float, work: Callable[[], None]) -> None:
        self.todo.append((self.now + seconds, work))

    def pass_by(self, seconds: float) -> None:
        end = self.now + seconds
        while self.todo and min(at for at, _ in self.todo) <= end:
            self.todo.sort(key=lambda each: each[0])
            self.now, work = self.todo.pop(0)
            work()
        self.now = end


@pytest.fixture
def times() -> Time:
    return Time()


@pytest.fixture
def shelf(times: Time) -> Shelf:
    return Shelf(times.clock, times.later)


def made(renew_at: float | None = None) -> Opened:
    return Opened(FakeDriver().connect(HERE, None, 1.0), renew_at)


def connection(opened: Opened) -> FakeConnection:
    assert isinstance(opened.connection, FakeConnection)
    return opened.connection


def test_the_last_one_that_was_put_there_is_taken_first_and_once(shelf: Shelf) -> None:
    first, second = made(), made()
    shelf.put(first, 10.0)
    shelf.put(second, 10.0)
    assert [shelf.take(10.0), shelf.take(10.0), shelf.take(10.0)] == [second, first, None]
    assert not connection(first).is_closed


def test_each_has_the_patience_that_it_was_opened_with(shelf: Shelf) -> None:
    patient, hasty = made(), made()
    shelf.put(patient, None)
    shelf.put(hasty, 1.0)
    assert shelf.take(2.0) is None
    assert shelf.take(None) is patient
    assert shelf.take(1.0) is hasty


def test_there_is_room_for_so_many_and_the_oldest_goes(shelf: Shelf) -> None:
    all_of_them = [made() for _ in range(MOST + 2)]
    for opened in all_of_them:
        shelf.put(opened, 1.0)
    assert [connection(opened).is_closed for opened in all_of_them] == [True] * 2 + [False] * MOST
    assert [shelf.take(1.0) for _ in range(MOST + 1)] == [*reversed(all_of_them[2:]), None]


def test_one_that_nobody_needs_is_closed_after_a_while(shelf: Shelf, times: Time) -> None:
    first, second = made(), made()
    shelf.put(first, 1.0)
    times.pass_by(KEPT_SECONDS - 1)
    shelf.put(second, 1.0)
    assert not connection(first).is_closed
    times.pass_by(1)
    assert connection(first).is_closed
    assert not connection(second).is_closed
    times.pass_by(2 * KEPT_SECONDS)
    assert connection(second).is_closed
    assert shelf.take(1.0) is None


def test_nothing_is_watched_where_nothing_is_kept(shelf: Shelf, times: Time) -> None:
    for _ in range(3):
        shelf.put(made(), 1.0)
    assert len(times.todo) == 1
    times.pass_by(KEPT_SECONDS)
    assert times.todo == []
    shelf.put(made(), 1.0)
    assert len(times.todo) == 1


def test_one_that_is_used_again_and_again_stays(shelf: Shelf, times: Time) -> None:
    opened = made()
    for _ in range(5):
        shelf.put(opened, 1.0)
        times.pass_by(KEPT_SECONDS - 1)
        assert shelf.take(1.0) is opened
    assert not connection(opened).is_closed


def test_one_that_is_dead_or_needs_another_sign_in_is_closed_instead_of_taken(shelf: Shelf) -> None:
    fit, dead, old = made(time.time() + 3600), made(), made(time.time() - 1)
    connection(dead).dead = True
    for opened in (fit, dead, old):
        shelf.put(opened, 1.0)
    assert shelf.take(1.0) is fit
    assert connection(dead).is_closed
    assert connection(old).is_closed


def test_a_database_has_one_shelf_in_a_process_and_another_after_a_fork(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    mine = shelf_of(HERE)
    assert shelf_of(parse("mssql+pytds://ann:s3cr3t@localhost/shelved")) is mine
    assert shelf_of(parse("mssql+pytds://ann:s3cr3t@localhost/other")) is not mine
    assert shelf_of(parse("mssql+pytds://bob:s3cr3t@localhost/shelved")) is not mine
    fork(monkeypatch)
    assert shelf_of(HERE) is not mine


@pytest.fixture
def driver(monkeypatch: pytest.MonkeyPatch) -> FakeDriver:
    """What opens connections wherever nobody says otherwise."""
    driver = FakeDriver()
    monkeypatch.setattr("holdfast.stores.mssql.connecting.driver_named", lambda name: driver)
    monkeypatch.setattr(module, "_shelves", defaultdict(lambda: Shelf(later=lambda seconds, work: None)))
    return driver


def fork(monkeypatch: pytest.MonkeyPatch) -> None:
    """From here on this is another process, which has a copy of everything."""
    number = os.getpid() + 1
    monkeypatch.setattr(os, "getpid", lambda: number)


def test_connections_go_from_one_session_to_the_next(driver: FakeDriver) -> None:
    first = Connecting(HERE)
    opened = first.open(1.0)
    first.keep(opened, 1.0)
    assert Connecting(HERE).open(1.0) is opened
    assert len(driver.made) == 1


def test_a_forked_process_leaves_the_connections_of_the_other_alone(
    driver: FakeDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    connecting = Connecting(HERE)
    opened = connecting.open(1.0)
    connecting.keep(opened, 1.0)
    fork(monkeypatch)
    another = connecting.open(1.0)
    assert another is not opened
    connecting.keep(another, 1.0)
    assert connecting.open(1.0) is another
    assert not connection(opened).is_closed


def test_what_a_driver_of_somebody_else_opened_is_not_kept() -> None:
    connecting = Connecting(HERE, FakeDriver())
    opened = connecting.open(1.0)
    connecting.keep(opened, 1.0)
    assert connection(opened).is_closed
    assert connecting.open(1.0) is not opened


def test_without_a_clock_of_its_own_it_goes_by_that_of_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "KEPT_SECONDS", 0.0)
    closed = threading.Event()
    opened = made()
    monkeypatch.setattr(opened.connection, "close", closed.set)
    Shelf().put(opened, 1.0)
    assert closed.wait(20)
