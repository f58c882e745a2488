"""The last minutes as points, of the whole and of each queue."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from holdfast.model.lifecycle import State
from holdfast.model.overview import Counts
from holdfast.model.pulse import Pace, Rates
from holdfast.model.records import QueueCount
from holdfast.model.series import MOST_QUEUES, Point, Series

START = datetime(2026, 3, 1, 9, tzinfo=UTC)


@dataclass(frozen=True)
class Queue:
    name: str
    counts: Counts
    oldest: float | None = None


def queue(name: str, due: int, oldest: float | None = None) -> Queue:
    count = QueueCount(queue=name, state=State.SCHEDULED, count=due, due=due)
    return Queue(name, Counts.of([count]), oldest)


def test_a_point_has_the_whole() -> None:
    pace = Pace(Rates(succeeded=5, failed=1, retried=2), {"mail": Rates(succeeded=3)}, {}, known=True)
    series = Series()
    whole = series.add(START, [queue("mail", 4, 1.5), queue("scan", 6, 9), queue("idle", 0)], pace)
    assert (whole.queued, whole.oldest, whole.succeeded, whole.failed, whole.retried) == (10, 9, 5, 1, 2)
    assert series.points() == [whole]
    (mail,) = series.points("mail")
    assert (mail.queued, mail.oldest, mail.succeeded) == (4, 1.5, 3)


def test_a_queue_that_was_not_there_has_empty_points() -> None:
    series = Series()
    series.add(START, [], Pace())
    assert series.points("mail") == [Point(START)]


def test_only_the_newest_are_kept() -> None:
    series = Series(keep=3)
    for second in range(10):
        series.add(START + timedelta(seconds=second), [], Pace())
    assert [point.at.second for point in series.points()] == [7, 8, 9]
    assert [point.at.second for point in series.points(since=START + timedelta(seconds=8))] == [8, 9]


def test_of_very_many_queues_the_busiest_have_points_of_their_own() -> None:
    series = Series()
    series.add(START, [queue(f"q{number}", number) for number in range(MOST_QUEUES + 50)], Pace())
    assert series.points("q0") == [Point(START)]
    assert series.points(f"q{MOST_QUEUES + 49}")[0].queued == MOST_QUEUES + 49
