"""How far a group has come: decisions, apart from writing."""

import msgspec
import pytest

from holdfast.model import progress
from holdfast.model.events import EventRecord
from holdfast.model.progress import Progress, Subscriber, Waiting, aggregate_of, lane_of, record_name
from holdfast.model.scheduling import as_written

NOW = 1_000


def event(position: int, aggregate: str | None = "a") -> EventRecord:
    return EventRecord(
        id=f"id-{position}", topic="t", type="x", data=b"", position=position, at=0, aggregate=aggregate
    )


def waiting(position: int, retry_at: int | None = NOW, failures: int = 2) -> Waiting:
    return Waiting(
        position=position,
        event=f"id-{position}",
        failures=failures,
        retry_at=retry_at,
        reason="boom",
        since=1,
    )


def test_the_offset_never_goes_back() -> None:
    assert Progress(offset=5).passed(event(7)) == Progress(offset=7, event="id-7")
    assert Progress(offset=5).passed(event(3)).offset == 5


def test_a_lane_is_its_aggregate_or_the_event_itself() -> None:
    assert lane_of(event(1, "a")) == lane_of(event(2, "a"))
    assert lane_of(event(1, None)) != lane_of(event(2, None))
    assert aggregate_of(lane_of(event(1, "a"))) == "a"
    assert aggregate_of(lane_of(event(1, None))) is None


def test_an_aggregate_that_is_called_like_an_event_has_a_lane_of_its_own() -> None:
    for name in ("id-1", "#id-1", "=id-1"):
        assert lane_of(event(2, name)) != lane_of(event(1, None))
        assert aggregate_of(lane_of(event(2, name))) == name


def test_what_follows_in_a_lane_is_tried_at_once_with_all_its_attempts() -> None:
    before = Progress(offset=9, waiting={"=a": waiting(3), "=b": waiting(4)})
    after = before.went_on("=a", event(6), NOW)
    assert after.waiting["=b"] == before.waiting["=b"]
    assert after.offset == 9
    head = after.waiting["=a"]
    assert (head.position, head.event, head.failures, head.retry_at, head.skip) == (6, "id-6", 0, NOW, False)


def test_a_lane_with_nothing_behind_its_head_waits_no_more() -> None:
    after = Progress(offset=9, waiting={"=a": waiting(3), "=b": waiting(4)}).went_on("=a", None, NOW)
    assert list(after.waiting) == ["=b"]


def test_lanes_are_due_by_position_and_never_before_their_time_or_when_parked() -> None:
    lanes = {
        "=late": waiting(2, NOW + 1),
        "=second": waiting(8, NOW),
        "=parked": waiting(1, None),
        "=first": waiting(5, 0),
    }
    known = Progress(offset=9, waiting=lanes)
    assert known.due(NOW) == ["=first", "=second"]
    assert known.next_retry() == 0
    assert Progress(offset=9, waiting={"=parked": waiting(1, None)}).next_retry() is None
    assert Progress(offset=9).next_retry() is None


def test_nothing_is_needed_up_to_the_offset_but_for_what_waits() -> None:
    assert Progress(offset=9).unneeded == 9
    assert Progress(offset=9, waiting={"=a": waiting(4), "=b": waiting(7, None)}).unneeded == 3


@pytest.mark.parametrize("skip", [False, True])
def test_a_lane_that_is_resumed_is_due_at_once_with_all_its_attempts(skip: bool) -> None:
    before = Progress(offset=9, waiting={"=a": waiting(3, None, failures=6), "=b": waiting(4, None)})
    after = before.resumed("=a", NOW, skip=skip)
    assert after.due(NOW) == ["=a"]
    assert (after.waiting["=a"].failures, after.waiting["=a"].skip) == (0, skip)
    assert after.waiting["=b"] == before.waiting["=b"]


def test_a_failure_after_a_skip_was_meant_for_another_head() -> None:
    resumed = Progress(offset=9, waiting={"=a": waiting(3)}).resumed("=a", NOW, skip=True)
    assert resumed.went_on("=a", event(6), NOW).waiting["=a"].skip is False


def test_progress_is_read_as_it_was_written() -> None:
    subscriber = Subscriber("billing", "orders")
    known = Progress(offset=9, waiting={"=ä b": waiting(3, None), "#id-4": waiting(4)})
    first = progress.as_write(subscriber, known, None, "mark-1")
    assert (first.name, first.version, first.after, first.look_at) == ("~billing orders", 0, None, None)
    record = as_written(first)
    assert progress.decode(record) == (subscriber, known)
    second = progress.as_write(subscriber, known.passed(event(10)), record, "mark-2")
    assert (second.version, second.after) == (record.version, "mark-1")


def test_no_two_subscribers_share_a_record() -> None:
    names = {record_name(group, topic) for group in ("a", "a.b", "a=b") for topic in ("c", "b.c", "b=c")}
    assert len(names) == 9


def test_what_this_version_cannot_read_is_told() -> None:
    write = progress.as_write(Subscriber("g", "t"), Progress(offset=1), None, "m")
    record = msgspec.structs.replace(as_written(write), state=b'{"offset":"one"}')
    with pytest.raises(msgspec.MsgspecError):
        progress.decode(record)


def test_what_a_later_version_has_added_is_left_alone() -> None:
    write = progress.as_write(Subscriber("g", "t"), Progress(offset=1), None, "m")
    record = msgspec.structs.replace(as_written(write), state=b'{"offset":1,"waiting":{},"new":true}')
    assert progress.decode(record)[1] == Progress(offset=1)
