"""Rates and lateness out of successive reports: restarts, silence, and clocks that jump."""

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.model.pulse import BOUNDS, Pace, Pulse, quantile

START = datetime(2026, 3, 1, 9, tzinfo=UTC)
NONE = (0,) * (len(BOUNDS) + 1)


@dataclass(frozen=True)
class Spread:
    counts: tuple[int, ...] = NONE


@dataclass(frozen=True)
class Counted:
    claimed: int = 0
    success: int = 0
    retried: int = 0
    failed: int = 0
    lateness: Spread = Spread()


@dataclass(frozen=True)
class Report:
    at: datetime
    by_queue: dict[str, Counted]


@dataclass(frozen=True)
class Worker:
    id: str = "one"
    started: datetime = START
    live: bool = True
    report: Report | None = None


@dataclass
class Fleet:
    """Workers that count, a clock of the store, and one of whoever looks; only the latter is steady."""

    pulse: Pulse = field(default_factory=Pulse)
    at: datetime = START + timedelta(hours=1)
    now: float = 100.0
    workers: dict[str, Worker] = field(default_factory=dict)

    def passes(self, seconds: float) -> None:
        self.now += seconds
        self.at += timedelta(seconds=seconds)

    def tells(self, worker: str = "one", started: datetime = START, **queues: Counted) -> None:
        self.workers[worker] = Worker(worker, started, True, Report(self.at, queues))

    def look(self) -> Pace:
        return self.pulse.take(self.workers.values(), self.now)


def done(count: int, retried: int = 0, failed: int = 0) -> Counted:
    return Counted(claimed=count, success=count, retried=retried, failed=failed)


def late(*buckets: int) -> Spread:
    return Spread(tuple(buckets) + (0,) * (len(NONE) - len(buckets)))


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
    fleet.workers["old"] = Worker("old")
    assert fleet.look() == Pace()


def test_counters_that_fall_were_begun_anew() -> None:
    fleet = Fleet()
    fleet.tells(mail=done(1000), scan=done(7))
    fleet.look()
    fleet.passes(5)
    fleet.tells(mail=done(50), scan=done(9))
    assert fleet.look().by_queue["mail"].succeeded == 10
    assert fleet.look().by_queue["scan"].succeeded == pytest.approx(9 / 5)


def test_a_queue_that_is_gone_tells_of_a_new_beginning() -> None:
    fleet = Fleet()
    fleet.tells(mail=done(10), scan=done(7))
    fleet.look()
    fleet.passes(5)
    fleet.tells(mail=done(15))
    assert fleet.look().by_queue["mail"].succeeded == 3


def test_the_same_id_with_another_start_counts_from_nothing() -> None:
    fleet = Fleet()
    fleet.tells(mail=done(10))
    fleet.look()
    fleet.passes(5)
    fleet.tells(started=fleet.at - timedelta(seconds=2), mail=done(20))
    assert fleet.look().total.succeeded == 4


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
    fleet.workers["one"] = Worker("one", live=False, report=report)
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
    fleet.tells(mail=Counted(lateness=late(1000)))
    fleet.look()
    fleet.passes(5)
    fleet.tells(mail=Counted(lateness=late(1000, 0, 0, 0, 0, 90, 0, 0, 10)))
    rates = fleet.look().by_queue["mail"]
    assert rates.lateness_p50 is not None
    assert 0.05 <= rates.lateness_p50 <= 0.1
    assert rates.lateness_p99 is not None
    assert 0.5 <= rates.lateness_p99 <= 1.0


def test_nothing_claimed_has_no_lateness() -> None:
    assert Pace().total.lateness_p50 is None
    assert quantile(NONE, 0.99) is None


def test_of_what_is_above_all_bounds_the_last_is_told() -> None:
    assert quantile((*NONE[:-1], 5), 0.5) == BOUNDS[-1]


@given(
    values=st.lists(st.floats(0, 3600), min_size=1, max_size=200),
    share=st.floats(0.01, 1),
)
def test_a_quantile_lies_in_the_bucket_of_the_true_one(values: list[float], share: float) -> None:
    counts = [0] * len(NONE)
    for value in values:
        counts[next(place for place, bound in enumerate(BOUNDS) if value <= bound)] += 1
    rank = next(n for n in range(1, len(values) + 1) if n >= share * len(values))
    true = sorted(values)[rank - 1]
    place = next(place for place, bound in enumerate(BOUNDS) if true <= bound)
    told = quantile(counts, share)
    assert told is not None
    assert (BOUNDS[place - 1] if place else 0) <= told <= BOUNDS[place] * (1 + 1e-9)
