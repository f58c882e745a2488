"""However many due times have passed, each is fired once, missed or skipped; parts make the same whole."""

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from holdfast.model.recurrence import every
from holdfast.model.schedule import (
    Misfire,
    Overlap,
    Schedule,
    ScheduleState,
    begin,
    decide,
    jitter_of,
    run_ended,
    schedule,
)
from tests.model.test_schedule import SECOND, ZERO, dues, looks, rules


@given(
    late=st.integers(0, 500),
    most=st.integers(1, 40),
    catch_up=st.integers(1, 300),
    misfire=st.sampled_from(["once", "skip", "all"]),
    overlap=st.sampled_from(["skip", "allow"]),
)
def test_in_parts_the_same_is_fired_and_counted(
    late: int, most: int, catch_up: int, misfire: Misfire, overlap: Overlap
) -> None:
    rule = schedule("s", every(1), misfire=misfire, overlap=overlap, catch_up=catch_up)
    now = ZERO + late * SECOND
    whole = decide(rule, begin(rule, ZERO), now, live=False)
    part = decide(rule, begin(rule, ZERO), now, live=False, most=most)
    fired = list(part.firings)
    while part.state.next_due is not None and part.state.next_due <= now:
        assert len(part.firings) == most
        part = decide(rule, part.state, now, live=True, most=most)
        fired += part.firings
    assert tuple(fired) == whole.firings
    assert part.state == whole.state


def play(rule: Schedule, moments: Sequence[tuple[int, bool]]) -> tuple[list[int], ScheduleState, int]:
    """Decisions at these moments, each a number of seconds later; `live` ends whenever it is False."""
    now, state, fired = ZERO, begin(rule, ZERO), []
    for passing, live in moments:
        now += passing * SECOND
        if not live:
            state = run_ended(rule, state, started=None, ended=now)
        decision = decide(rule, state, now, live=live)
        assert decision == decide(rule, state, now, live=live)
        if rule.overlap != "allow":
            assert len(decision.firings) <= (0 if live else 1)
        for firing in decision.firings:
            assert firing.due <= now
            assert firing.job_due == firing.due + jitter_of(rule, firing.due)
        fired += dues(decision)
        state = decision.state
        assert state.next_due is not None
        assert state.next_due > now or state.waiting
    return fired, state, now


@given(rules, looks)
def test_every_due_time_is_fired_once_missed_skipped_or_still_to_come(
    rule: Schedule, moments: list[tuple[int, bool]]
) -> None:
    fired, state, now = play(rule, moments)
    assert state.next_due is not None
    due = begin(rule, ZERO).next_due
    expected = []
    while due is not None and due < state.next_due:
        expected.append(due)
        due = rule.recurrence.next_after(due, ZERO)
        if len(expected) > 5_000:
            return
    assert due == state.next_due
    assert fired == sorted(set(fired))
    assert set(fired) <= set(expected)
    assert len(fired) + state.missed + state.skipped == len(expected)
    assert state.next_due > now or rule.overlap == "queue"


@given(st.integers(10_000, 100_000), looks)
def test_nothing_is_missing_under_all(interval: int, moments: list[tuple[int, bool]]) -> None:
    rule = schedule("s", every(interval), misfire="all", overlap="allow")
    fired, state, now = play(rule, moments)
    assert fired == list(range(ZERO + interval * SECOND, now + 1, interval * SECOND))
    assert state.missed == state.skipped == 0
