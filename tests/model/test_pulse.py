"""Rates and lateness out of successive reports: restarts, silence, and clocks that jump."""

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

import pytest

from holdfast.model.overview import WorkerInfo
from holdfast.model.pulse import Pace, Pulse
from holdfast.model.report import BOUNDS, Lateness, QueueReport, WorkerReport

START = datetime(2026, 3, 1, 9, tzinfo=UTC)


def worker(
    name: str, started: datetime = START, *, live: bool = True, report: WorkerReport | None
) -> WorkerInfo:
    return WorkerInfo(
        id=name,
        host="host",
        pid=1,
        queues=("mail",),
        tasks=("send",),
        concurrency=4,
        version="1",
        started=started,
        seen=START,
        live=live,
        report=report,
    )


@dataclass
class Fleet:
    """Workers that count, a clock of the store, and one of whoever looks; only the latter is steady."""

    pulse: Pulse = field(default_factory=Pulse)
    at: datetime = START + timedelta(hours=1)
    now: float = 100.0
    workers: dict[str, WorkerInfo] = field(default_factory=dict)

    def passes(self, seconds: float) -> None:
        self.now += seconds
        self.at += timedelta(seconds=seconds)

    def tells(self, name: str = "one", started: datetime = START, **queues: QueueReport) -> None:
        self.workers[name] = worker(name, started, report=WorkerReport(at=self.at, by_queue=queues))

    def look(self) -> Pace:
        return self.pulse.take(self.workers.values(), self.now)


def done(count: int, retried: int = 0, failed: int = 0) -> QueueReport:
    return QueueReport(claimed=count, success=count, retried=retried, failed=failed)


def late(*buckets: int) -> Lateness:
    return Lateness(counts=tuple(buckets) + (0,) * (len(BOUNDS) + 1 - len(buckets)))


def test_of_one_report_nothing_is_known() -> None:
    fleet = Fleet()
    fleet.tells(mail=done(1000))
    pace = fleet.look()
    assert not pace.known
    assert pace.total.succeeded == 0


def test_two_reports_make_a_rate() -> None:
    fleet = Fleet()
    fleet.tells(mail=done(1000, retried=10, failed=1))
    fleet.look()
    fleet.passes(5)
    fleet.tells(mail=done(1500, retried=15, failed=2))
    pace = fleet.look()
    assert pace.known
    total = pace.total
    assert (total.claimed, total.succeeded, total.retried, total.failed) == (100.0, 100.0, 1.0, 0.2)


def test_a_rate_holds_until_the_next_report_and_is_not_spiky() -> None:
    fleet = Fleet()
    count, seen = 0, []
    for second in range(0, 41, 2):  # looked at every 2 seconds, told about every 5
        if second % 5 < 2:
            count = second * 10
            fleet.tells(mail=done(count))
        seen.append(fleet.look().total.succeeded)
        fleet.passes(2)
    assert all(rate == pytest.approx(10) for rate in seen[3:])


def test_rates_are_told_by_queue_and_by_worker() -> None:
    fleet = Fleet()
    fleet.tells("one", mail=done(0), scan=done(0))
    fleet.tells("two", mail=done(0))
    fleet.look()
    fleet.passes(4)
    fleet.tells("one", mail=done(4), scan=done(8))
    fleet.tells("two", mail=done(12))
    pace = fleet.look()
    assert {queue: rates.succeeded for queue, rates in pace.by_queue.items()} == {"mail": 4, "scan": 2}
    assert {worker: rates.succeeded for worker, rates in pace.by_worker.items()} == {"one": 3, "two": 3}
    assert pace.total.succeeded == 6


def test_a_worker_that_starts_while_we_look_counts_from_its_first_report() -> None:
    fleet = Fleet()
    fleet.look()
    fleet.passes(10)
    fleet.tells(started=fleet.at - timedelta(seconds=4), mail=done(40))
    assert fleet.look().total.succeeded == 10


def test_a_worker_that_was_there_before_we_looked_does_not() -> None:
    fleet = Fleet()
    fleet.look()
    fleet.passes(10)
    fleet.tells(started=START, mail=done(1_000_000))
    assert fleet.look().total.succeeded == 0


def test_a_worker_without_a_report_is_no_obstacle() -> None:
    fleet = Fleet()
    fleet.workers["old"] = worker("old", report=None)
    assert fleet.look() == Pace()


def test_counters_that_fall_after_a_new_start_count_from_nothing() -> None:
    fleet = Fleet()
    fleet.tells(mail=done(1000), scan=done(7))
    fleet.look()
    fleet.passes(5)
    fleet.tells(started=fleet.at, mail=done(50), scan=done(9))
    pace = fleet.look()
    assert pace.by_queue["mail"].succeeded == 10
    assert pace.by_queue["scan"].succeeded == pytest.approx(9 / 5)


def test_a_queue_that_is_gone_after_a_new_start_does_not_matter() -> None:
    fleet = Fleet()
    fleet.tells(mail=done(10), scan=done(7))
    fleet.look()
    fleet.passes(5)
    fleet.tells(started=fleet.at, mail=done(15))
    assert fleet.look().by_queue["mail"].succeeded == 3


def test_a_worker_that_a_store_forgot_and_knows_again_goes_on_counting() -> None:
    fleet = Fleet()
    fleet.tells(mail=done(1_000_000))
    fleet.look()
    fleet.passes(5)
    fleet.tells(started=fleet.at, mail=done(1_000_020))
    assert fleet.look().total.succeeded == 4


def test_a_partition_that_is_away_and_comes_back_makes_no_spike() -> None:
    fleet = Fleet()
    fleet.tells(mail=done(1000), scan=done(1_000_000))
    fleet.look()
    for count in (1050, 1100):
        fleet.passes(5)
        fleet.tells(mail=done(count))  # what the other partition knows of the worker is missing
        assert fleet.look().total.succeeded == 10
    fleet.passes(5)
    fleet.tells(mail=done(1150), scan=done(1_000_500))
    pace = fleet.look()
    assert pace.by_queue["mail"].succeeded == 10
    assert pace.by_queue["scan"].succeeded == 100


def test_counters_of_one_queue_in_two_partitions_do_not_spike_either() -> None:
    fleet = Fleet()
    fleet.tells(mail=done(1000))
    fleet.look()
    fleet.passes(5)
    fleet.tells(mail=done(10))
    assert fleet.look().total.succeeded == 0
    fleet.passes(5)
    fleet.tells(mail=done(1100))
    assert fleet.look().total.succeeded == 20


def test_a_worker_that_vanishes_has_no_rate() -> None:
    fleet = Fleet()
    fleet.tells(mail=done(0))
    fleet.look()
    fleet.passes(5)
    fleet.tells(mail=done(50))
    assert fleet.look().total.succeeded == 10
    del fleet.workers["one"]
    assert fleet.look().total.succeeded == 0


def test_one_that_is_away_for_a_while_goes_on_where_it_was() -> None:
    fleet = Fleet()
    fleet.tells(mail=done(0))
    fleet.look()
    before = fleet.workers.copy()
    fleet.workers.clear()
    fleet.passes(100)
    fleet.look()
    fleet.workers = before
    fleet.tells(mail=done(1000))
    assert fleet.look().total.succeeded == 10


def test_one_that_is_away_for_long_is_forgotten() -> None:
    fleet = Fleet()
    fleet.tells(mail=done(0))
    fleet.look()
    fleet.workers.clear()
    fleet.passes(1000)
    fleet.look()
    assert not fleet.pulse._known
    fleet.tells(mail=done(1000))
    assert fleet.look().total.succeeded == 0


def test_one_that_is_dead_or_silent_has_no_rate() -> None:
    fleet = Fleet()
    fleet.tells(mail=done(0))
    fleet.look()
    fleet.passes(5)
    fleet.tells(mail=done(50))
    fleet.look()
    fleet.passes(14)
    assert fleet.look().total.succeeded == 10
    fleet.passes(2)
    assert fleet.look().total.succeeded == 0
    fleet.tells(mail=done(210))
    assert fleet.look().total.succeeded == 10
    report = fleet.workers["one"].report
    fleet.workers["one"] = worker("one", live=False, report=report)
    assert fleet.look().total.succeeded == 0


@pytest.mark.parametrize("jump", [-86_400, -4.9, -5])
def test_a_clock_of_the_store_that_goes_back_makes_no_spike(jump: float) -> None:
    fleet = Fleet()
    fleet.tells(mail=done(0))
    fleet.look()
    fleet.passes(4)
    fleet.look()
    fleet.passes(1)
    fleet.at += timedelta(seconds=jump)
    fleet.tells(mail=done(50))
    assert fleet.look().total.succeeded == 10
    fleet.passes(5)
    fleet.tells(mail=done(100))
    assert fleet.look().total.succeeded == 10


def test_a_clock_of_the_store_that_leaps_ahead_makes_no_spike_either() -> None:
    fleet = Fleet()
    fleet.tells(mail=done(0))
    fleet.look()
    fleet.passes(5)
    fleet.at += timedelta(days=1)
    fleet.tells(mail=done(50))
    assert fleet.look().total.succeeded < 10
    fleet.passes(5)
    fleet.tells(mail=done(100))
    assert fleet.look().total.succeeded == 10


def test_two_looks_at_one_moment_do_not_divide_by_nothing() -> None:
    fleet = Fleet()
    fleet.tells(mail=done(0))
    fleet.look()
    fleet.tells(mail=done(50))
    assert fleet.look().total.succeeded == 0
    fleet.passes(5)
    assert fleet.look().total.succeeded == 10


def test_a_window_evens_out() -> None:
    fleet = Fleet(Pulse(window=10))
    for count in (0, 100, 100, 100, 100):
        fleet.tells(mail=done(count))
        pace = fleet.look()
        if count:
            seen = pace.total.succeeded
        fleet.passes(5)
    assert seen == 0
    fleet.tells(mail=done(200))
    assert fleet.look().total.succeeded == 10


def test_lateness_is_that_of_the_newest_jobs() -> None:
    fleet = Fleet()
    fleet.tells(mail=QueueReport(lateness=late(1000)))
    fleet.look()
    fleet.passes(5)
    fleet.tells(mail=QueueReport(lateness=late(1000, 0, 0, 0, 0, 90, 0, 0, 10)))
    rates = fleet.look().by_queue["mail"]
    assert rates.lateness_p50 is not None
    assert 0.05 <= rates.lateness_p50 <= 0.1
    assert rates.lateness_p99 is not None
    assert 0.5 <= rates.lateness_p99 <= 1.0


def test_nothing_claimed_has_no_lateness() -> None:
    assert Pace().total.lateness_p50 is None
    assert Pace().total.lateness_p99 is None
