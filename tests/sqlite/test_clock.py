"""The store's clock: one for all processes of a boot, never backwards."""

import sqlite3
import time
from pathlib import Path

import pytest

from holdfast.stores.sqlite import clock as module
from holdfast.stores.sqlite.clock import STAMP_EVERY, AnchoredClock
from tests.sqlite.support import Child, new_job, register, session_at, store_at, tick, url_of

HOUR = 3_600_000_000


class Machine:
    """A boot clock that stands still unless it is moved, and a wall clock that may be wrong."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.boot = "first boot"
        self.uptime = 100_000_000_000
        self.wall = 1_800_000_000_000_000_000
        monkeypatch.setattr(module, "boot_clock", lambda: (lambda: self.uptime, self.boot))
        monkeypatch.setattr(time, "time_ns", lambda: self.wall)

    def pass_time(self, micros: int) -> None:
        self.uptime += micros * 1_000
        self.wall += micros * 1_000

    def reboot(self) -> None:
        self.boot, self.uptime = "second boot", 1_000_000_000


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Machine:
    return Machine(monkeypatch)


async def opened_file(folder: Path) -> sqlite3.Connection:
    migrations = store_at(folder).migrations
    assert migrations is not None
    await migrations.apply()
    connection = sqlite3.connect(folder / "jobs.db", isolation_level=None)
    connection.text_factory = bytes
    return connection


def anchored(connection: sqlite3.Connection) -> AnchoredClock:
    clock = AnchoredClock("holdfast_")
    clock.set_anchor(connection)
    return clock


async def test_a_process_with_a_wrong_wall_clock_tells_the_same_time(
    tmp_path: Path, machine: Machine
) -> None:
    connection = await opened_file(tmp_path)
    right = anchored(connection)
    machine.wall += HOUR * 1_000
    ahead = anchored(connection)
    machine.wall -= 2 * HOUR * 1_000
    behind = anchored(connection)
    assert right() == ahead() == behind()
    machine.pass_time(5)
    assert ahead() == behind() == right()
    connection.close()


async def test_time_does_not_go_back_over_a_reboot_with_a_wrong_wall_clock(
    tmp_path: Path, machine: Machine
) -> None:
    connection = await opened_file(tmp_path)
    clock = anchored(connection)
    machine.pass_time(10 * STAMP_EVERY)
    clock.stamp(connection, clock())
    machine.pass_time(STAMP_EVERY - 1)
    last = clock()
    machine.reboot()
    machine.wall -= 24 * HOUR * 1_000
    assert anchored(connection)() > last
    connection.close()


async def test_what_a_process_wrote_right_after_its_start_counts_as_seen(
    tmp_path: Path, machine: Machine
) -> None:
    connection = await opened_file(tmp_path)
    anchored(connection)
    machine.pass_time(HOUR)
    late = anchored(connection)
    late.stamp(connection, late())
    last = late()
    machine.reboot()
    machine.wall -= 24 * HOUR * 1_000
    assert anchored(connection)() > last
    connection.close()


async def test_after_a_reboot_the_wall_clock_counts_again(tmp_path: Path, machine: Machine) -> None:
    connection = await opened_file(tmp_path)
    anchored(connection)
    machine.pass_time(HOUR)
    machine.reboot()
    assert anchored(connection)() == machine.wall // 1_000
    connection.close()


async def test_time_stands_still_rather_than_going_back(tmp_path: Path, machine: Machine) -> None:
    connection = await opened_file(tmp_path)
    clock = anchored(connection)
    before = clock()
    machine.uptime -= 5_000_000
    assert clock() == before
    connection.close()


async def test_how_far_time_has_come_is_noted_once_in_a_while(tmp_path: Path, machine: Machine) -> None:
    connection = await opened_file(tmp_path)
    clock = anchored(connection)
    changes = connection.total_changes
    for _ in range(10):
        machine.pass_time(STAMP_EVERY // 4)
        clock.stamp(connection, clock())
    assert connection.total_changes - changes == 2
    connection.close()


@pytest.mark.process
@pytest.mark.parametrize("seconds_off", [3_600, -3_600])
async def test_a_process_whose_clock_is_an_hour_off_changes_nothing(tmp_path: Path, seconds_off: int) -> None:
    async with session_at(tmp_path) as session:
        [first] = await session.jobs.add([new_job(delay=60_000_000)])
        with Child("add_with_wrong_clock", url_of(tmp_path), seconds_off) as child:
            created, claimed, due = child.line().split()
        # It took the job that was due, and neither of those that are due in a minute.
        assert claimed == due
        assert 0 <= int(created) - first.record.created < 60_000_000
        await register(session)
        ticked = await tick(session, 1)
        assert ticked.claimed == []
        assert ticked.next_due is not None
        assert 0 < ticked.next_due <= 60_000_000
