"""What workers tell of themselves, read by whoever has another version."""

from datetime import UTC, datetime

import msgspec
import pytest

from holdfast.model.report import (
    BOUNDS,
    Lateness,
    QueueReport,
    WorkerReport,
    decode_report,
    encode_report,
    merged,
)

AT = 1_700_000_000_000_000
MOMENT = datetime.fromtimestamp(1_700_000_000, UTC)


def spread(**by_bound: int) -> tuple[int, ...]:
    counts = [0] * (len(BOUNDS) + 1)
    for bound, count in by_bound.items():
        counts[int(bound.removeprefix("at_"))] = count
    return tuple(counts)


def test_a_report_comes_back_with_the_instant_of_the_store() -> None:
    queue = QueueReport(claimed=9, success=5, lateness=Lateness(counts=spread(at_2=4, at_17=5), sum=1.5))
    told = WorkerReport(slots=4, busy=3, stuck=1, claiming=True, oldest_run=1.5, by_queue={"mail": queue})
    found = decode_report(encode_report(told), AT)
    assert found == msgspec.structs.replace(told, at=MOMENT)
    assert found is not None
    assert found.total == queue


def test_an_older_and_a_newer_version_are_read_as_far_as_they_can_be() -> None:
    newer = {"report": {"slots": 3, "mood": "fine", "by_queue": {"q": {"claimed": 2, "x": [1]}}}, "y": 1}
    found = decode_report(msgspec.msgpack.encode(newer), AT)
    assert found == WorkerReport(at=MOMENT, slots=3, by_queue={"q": QueueReport(claimed=2)})
    older = {"report": {"busy": 1}}
    assert decode_report(msgspec.msgpack.encode(older), AT) == WorkerReport(at=MOMENT, busy=1)


def test_counts_of_other_bounds_go_where_they_belong() -> None:
    lateness = {"counts": [1, 2, 3, 4], "sum": 9.0}
    told = {"bounds": [0.02, 5.0, 9_999.0], "report": {"by_queue": {"q": {"lateness": lateness}}}}
    found = decode_report(msgspec.msgpack.encode(told), AT)
    assert found is not None
    # 0.02 is told within 0.025; what is above the hour, or above all that the other knew, within the last.
    assert found.by_queue["q"].lateness == Lateness(counts=spread(at_3=1, at_10=2, at_17=7), sum=9.0)


@pytest.mark.parametrize("told", [b"", b"\xc1", b"[]", msgspec.msgpack.encode({"report": {"busy": "many"}})])
def test_what_is_no_report_is_none(told: bytes) -> None:
    assert decode_report(told, AT) is None


def test_what_came_between_two_reports_is_never_below_nothing() -> None:
    earlier = QueueReport(claimed=5, success=4, lateness=Lateness(counts=spread(at_0=5), sum=2.0))
    later = QueueReport(claimed=8, success=3, lateness=Lateness(counts=spread(at_0=6, at_1=2), sum=2.5))
    since = later.minus(earlier)
    assert (since.claimed, since.success) == (3, 0)
    assert since.lateness == Lateness(counts=spread(at_0=1, at_1=2), sum=0.5)
    assert earlier.minus(later).lateness.count == 0


def test_quantiles_lie_between_the_bounds() -> None:
    assert Lateness().quantile(0.5) is None
    even = Lateness(counts=spread(at_8=10))
    assert even.quantile(0.5) == pytest.approx(0.75)
    assert even.quantile(1.0) == pytest.approx(1.0)
    mixed = Lateness(counts=spread(at_0=98, at_10=1, at_17=1))
    assert mixed.quantile(0.5) == pytest.approx(0.001 * 50 / 98)
    assert mixed.quantile(0.99) == pytest.approx(5.0)
    assert mixed.quantile(0.999) == BOUNDS[-1]


def test_the_parts_of_one_worker_are_told_as_one() -> None:
    one = WorkerReport(at=MOMENT, slots=4, busy=1, oldest_run=2.0, by_queue={"a": QueueReport(claimed=1)})
    other = WorkerReport(
        slots=4,
        busy=2,
        stuck=1,
        waiting=3,
        claiming=True,
        by_queue={"a": QueueReport(claimed=2), "b": QueueReport(failed=1)},
    )
    assert merged([one, other]) == WorkerReport(
        at=MOMENT,
        slots=4,
        busy=3,
        stuck=1,
        waiting=3,
        claiming=True,
        oldest_run=2.0,
        by_queue={"a": QueueReport(claimed=3), "b": QueueReport(failed=1)},
    )
