"""What a schedule fires: downtime, overlap, pauses, edits, jitter."""

from random import Random

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.model.cron import cron
from holdfast.model.errors import ConfigurationError, InvalidJob
from holdfast.model.recurrence import At, every
from holdfast.model.schedule import (
    Decision,
    Misfire,
    Occurrence,
    Overlap,
    Schedule,
    ScheduleState,
    begin,
    decide,
    decode_schedule,
    edit,
    encode_schedule,
    jitter_of,
    pause,
    resume,
    run_ended,
    run_now,
    schedule,
)

SECOND = 1_000_000
MINUTE, HOUR = 60 * SECOND, 3_600 * SECOND
ZERO = 1_790_000_000_000_000

minutely = every(minutes=1)


def minutes(*numbers: int) -> list[int]:
    return [ZERO + number * MINUTE for number in numbers]


def dues(decision: Decision) -> list[int]:
    return [firing.due for firing in decision.firings]


def after_an_hour(misfire: Misfire, overlap: Overlap = "allow", **more: int) -> Decision:
    """Minute 1 was fired in time; then nothing happened until half a minute after minute 61."""
    rule = schedule("s", minutely, misfire=misfire, overlap=overlap, **more)
    state = decide(rule, begin(rule, ZERO), ZERO + MINUTE, live=False).state
    assert state.next_due == ZERO + 2 * MINUTE
    return decide(rule, state, ZERO + 61 * MINUTE + 30 * SECOND, live=False)


def test_nothing_is_fired_before_it_is_due() -> None:
    rule = schedule("s", minutely)
    state = begin(rule, ZERO)
    assert state == ScheduleState(origin=ZERO, next_due=ZERO + MINUTE)
    assert decide(rule, state, ZERO + MINUTE - 1, live=False) == Decision((), state)


def test_a_due_time_is_fired_once_and_the_next_one_follows() -> None:
    rule = schedule("s", minutely)
    decision = decide(rule, begin(rule, ZERO), ZERO + MINUTE + 7, live=False)
    assert decision.firings == (Occurrence(ZERO + MINUTE, ZERO + MINUTE),)
    assert decision.state == ScheduleState(
        origin=ZERO, next_due=ZERO + 2 * MINUTE, last_due=ZERO + MINUTE, missed=0
    )
    assert decide(rule, decision.state, ZERO + MINUTE + 8, live=False).firings == ()


def test_ten_thousand_firings_that_are_late_do_not_drift() -> None:
    rule, random = schedule("s", every(seconds=1.7, anchor="rate")), Random(7)
    state, fired = begin(rule, ZERO), []
    for _ in range(10_000):
        assert state.next_due is not None
        decision = decide(rule, state, state.next_due + random.randrange(1_600_000), live=False)
        state = decision.state
        fired += dues(decision)
    assert fired == [ZERO + step * 1_700_000 for step in range(1, 10_001)]
    assert state.missed == state.skipped == 0


def test_after_downtime_once_fires_the_latest_and_counts_the_rest() -> None:
    decision = after_an_hour("once")
    assert dues(decision) == minutes(61)
    assert (decision.state.missed, decision.state.next_due) == (59, ZERO + 62 * MINUTE)


def test_after_downtime_skip_fires_the_latest_only_within_its_grace() -> None:
    decision = after_an_hour("skip", grace=30)
    assert (dues(decision), decision.state.missed) == (minutes(61), 59)
    decision = after_an_hour("skip", grace=29)
    assert (dues(decision), decision.state.missed) == ([], 60)
    assert decision.state.next_due == ZERO + 62 * MINUTE
    assert decision.state.last_due == ZERO + MINUTE


def test_after_downtime_all_fires_each_up_to_its_bound() -> None:
    decision = after_an_hour("all")
    assert (dues(decision), decision.state.missed) == (minutes(*range(2, 62)), 0)
    decision = after_an_hour("all", catch_up=10)
    assert (dues(decision), decision.state.missed) == (minutes(*range(52, 62)), 50)
    assert decision.state.next_due == ZERO + 62 * MINUTE


def test_skip_drops_what_is_due_while_a_run_is_live() -> None:
    rule = schedule("s", minutely, overlap="skip")
    state = decide(rule, begin(rule, ZERO), ZERO + MINUTE, live=False).state
    decision = decide(rule, state, ZERO + 2 * MINUTE, live=True)
    assert decision.firings == ()
    assert (decision.state.skipped, decision.state.missed) == (1, 0)
    assert decision.state.next_due == ZERO + 3 * MINUTE
    assert dues(decide(rule, decision.state, ZERO + 3 * MINUTE, live=False)) == minutes(3)


def test_skip_and_all_make_one_run_of_many() -> None:
    decision = after_an_hour("all", "skip")
    assert (dues(decision), decision.state.skipped, decision.state.missed) == (minutes(61), 59, 0)


def test_allow_fires_beside_a_live_run() -> None:
    rule = schedule("s", minutely, overlap="allow")
    assert dues(decide(rule, begin(rule, ZERO), ZERO + MINUTE, live=True)) == minutes(1)


def test_queue_holds_a_due_time_until_the_run_has_ended() -> None:
    rule = schedule("s", minutely, overlap="queue")
    state = decide(rule, begin(rule, ZERO), ZERO + MINUTE, live=False).state
    held = decide(rule, state, ZERO + 2 * MINUTE, live=True)
    assert held == Decision((), msgspec.structs.replace(state, waiting=True))
    state = run_ended(rule, held.state, started=ZERO + MINUTE, ended=ZERO + 2 * MINUTE + SECOND)
    assert not state.waiting
    assert dues(decide(rule, state, ZERO + 2 * MINUTE + SECOND, live=False)) == minutes(2)


def test_queue_makes_the_misfire_policy_choose_among_those_that_waited() -> None:
    for misfire, expected, missed in (("once", [4], 2), ("skip", [4], 2), ("all", [2, 3, 4], 0)):
        rule = schedule("s", minutely, overlap="queue", misfire=misfire)  # type: ignore[arg-type]
        state = decide(rule, begin(rule, ZERO), ZERO + MINUTE, live=False).state
        now, fired = ZERO + 4 * MINUTE + SECOND, []
        while state.next_due is not None and state.next_due <= now:
            decision = decide(rule, state, now, live=False)
            assert len(decision.firings) == 1
            assert decision.state.waiting == (
                decision.state.next_due == decision.firings[0].due + MINUTE < now
            )
            fired += dues(decision)
            state = run_ended(rule, decision.state, started=now, ended=now)
        assert (fired, state.missed, state.skipped) == (minutes(*expected), missed, 0)


@pytest.mark.parametrize(("anchor", "next_due"), [("start", 10 + 60), ("end", 45 + 60)])
def test_an_interval_after_a_run_waits_for_it(anchor: str, next_due: int) -> None:
    rule = schedule("s", every(60, anchor=anchor))  # type: ignore[arg-type]
    decision = decide(rule, begin(rule, ZERO), ZERO + MINUTE, live=False)
    assert dues(decision) == minutes(1)
    assert (decision.state.next_due, decision.state.waiting) == (None, True)
    assert decide(rule, decision.state, ZERO + HOUR, live=True) == Decision((), decision.state)
    state = run_ended(rule, decision.state, started=ZERO + 10 * SECOND, ended=ZERO + 45 * SECOND)
    assert (state.next_due, state.waiting) == (ZERO + next_due * SECOND, False)


def test_an_interval_after_a_run_counts_from_one_that_was_live_before_it_was_defined() -> None:
    before, rule = schedule("s", minutely), schedule("s", every(60, anchor="end"))
    state = decide(before, begin(before, ZERO), ZERO + MINUTE, live=False).state
    state = edit(before, rule, state, ZERO + MINUTE)
    assert state.next_due == ZERO + 2 * MINUTE
    waiting = decide(rule, state, ZERO + 2 * MINUTE, live=True)
    assert waiting == Decision((), msgspec.structs.replace(state, waiting=True))
    for reached in (state, waiting.state):
        ended = run_ended(rule, reached, started=ZERO + MINUTE, ended=ZERO + HOUR)
        assert (ended.next_due, ended.waiting) == (ZERO + HOUR + MINUTE, False)


def test_a_run_longer_than_its_interval_from_the_start_is_followed_at_once() -> None:
    rule = schedule("s", every(60, anchor="start"))
    state = decide(rule, begin(rule, ZERO), ZERO + MINUTE, live=False).state
    state = run_ended(rule, state, started=ZERO + MINUTE, ended=ZERO + HOUR)
    decision = decide(rule, state, ZERO + HOUR, live=False)
    assert (dues(decision), decision.state.missed) == (minutes(2), 0)


def test_a_live_job_that_is_gone_does_not_hold_its_schedule_for_ever() -> None:
    rule = schedule("s", every(60, anchor="start"))
    state = decide(rule, begin(rule, ZERO), ZERO + MINUTE, live=False).state
    state = run_ended(rule, state, started=None, ended=ZERO + HOUR)
    assert state.next_due == ZERO + HOUR + MINUTE


def test_an_interval_after_a_run_that_is_skipped_begins_anew() -> None:
    rule = schedule("s", every(60, anchor="end"), misfire="skip")
    decision = decide(rule, begin(rule, ZERO), ZERO + HOUR, live=False)
    assert decision.firings == ()
    assert (decision.state.missed, decision.state.waiting) == (1, False)
    assert decision.state.next_due == ZERO + HOUR + MINUTE


def test_a_single_time_is_fired_late_or_missed_and_is_then_over() -> None:
    late = decide(schedule("s", At(ZERO)), begin(schedule("s", At(ZERO)), ZERO), ZERO + HOUR, live=False)
    assert (dues(late), late.state.next_due, late.state.waiting) == ([ZERO], None, False)
    rule = schedule("s", At(ZERO), misfire="skip")
    missed = decide(rule, begin(rule, ZERO - HOUR), ZERO + HOUR, live=False)
    assert (dues(missed), missed.state.next_due, missed.state.missed) == ([], None, 1)
    assert decide(rule, missed.state, ZERO + 2 * HOUR, live=False) == Decision((), missed.state)


def test_a_paused_schedule_fires_nothing_and_resumes_with_what_comes() -> None:
    rule = schedule("s", minutely, misfire="all")
    state = pause(begin(rule, ZERO))
    assert decide(rule, state, ZERO + HOUR, live=False) == Decision((), state)
    state = resume(rule, state, ZERO + HOUR)
    assert (state.paused, state.next_due, state.missed) == (False, ZERO + HOUR + MINUTE, 0)


def test_a_short_pause_changes_nothing() -> None:
    rule = schedule("s", minutely)
    assert resume(rule, pause(begin(rule, ZERO)), ZERO + 5) == begin(rule, ZERO)


def test_a_pause_does_not_lose_a_single_time() -> None:
    rule = schedule("s", At(ZERO + 5))
    state = resume(rule, pause(begin(rule, ZERO)), ZERO + HOUR)
    assert dues(decide(rule, state, ZERO + HOUR, live=False)) == [ZERO + 5]


def test_a_run_that_ends_during_a_pause_sets_the_next_due_time() -> None:
    rule = schedule("s", every(60, anchor="end"))
    state = pause(decide(rule, begin(rule, ZERO), ZERO + MINUTE, live=False).state)
    assert resume(rule, state, ZERO + HOUR).waiting
    state = run_ended(rule, state, started=ZERO, ended=ZERO + HOUR)
    assert resume(rule, state, ZERO + HOUR + 5).next_due == ZERO + HOUR + MINUTE


def test_declaring_a_schedule_again_changes_nothing_even_while_it_is_due() -> None:
    rule = schedule("s", minutely)
    state = msgspec.structs.replace(begin(rule, ZERO), missed=3, paused=True)
    assert edit(rule, schedule("s", minutely), state, ZERO + HOUR) == state
    assert edit(rule, schedule("s", minutely, misfire="all", jitter=5), state, ZERO + HOUR) == state


def test_another_recurrence_begins_at_the_edit() -> None:
    rule, other = schedule("s", minutely), schedule("s", every(hours=1))
    state = msgspec.structs.replace(begin(rule, ZERO), missed=3, paused=True)
    edited = edit(rule, other, state, ZERO + 5 * MINUTE)
    assert edited == ScheduleState(
        origin=ZERO + 5 * MINUTE, next_due=ZERO + 65 * MINUTE, missed=3, paused=True
    )


def test_a_held_due_time_is_free_when_overlap_becomes_allowed() -> None:
    rule = schedule("s", minutely, overlap="queue")
    held = decide(rule, begin(rule, ZERO), ZERO + MINUTE, live=True).state
    assert held.waiting
    free = edit(rule, schedule("s", minutely, overlap="allow"), held, ZERO + 2 * MINUTE)
    assert (free.waiting, free.next_due) == (False, ZERO + MINUTE)


def test_an_edited_interval_after_a_run_still_waits_for_the_live_one() -> None:
    rule, other = schedule("s", every(60, anchor="end")), schedule("s", every(90, anchor="end"))
    state = decide(rule, begin(rule, ZERO), ZERO + MINUTE, live=False).state
    state = edit(rule, other, state, ZERO + 2 * MINUTE)
    assert (state.next_due, state.waiting) == (None, True)
    assert run_ended(other, state, started=ZERO, ended=ZERO + HOUR).next_due == ZERO + HOUR + 90 * SECOND
    state = edit(other, schedule("s", minutely), state, ZERO + 3 * MINUTE)
    assert (state.next_due, state.waiting) == (ZERO + 4 * MINUTE, False)


def test_run_now_is_one_firing_more() -> None:
    rule = schedule("s", minutely)
    decision = run_now(rule, pause(begin(rule, ZERO)), ZERO + 5, live=False)
    assert decision.firings == (Occurrence(ZERO + 5, ZERO + 5),)
    assert (decision.state.next_due, decision.state.paused) == (ZERO + MINUTE, True)


def test_run_now_obeys_overlap() -> None:
    for overlap, count in (("skip", 0), ("queue", 0), ("allow", 1)):
        rule = schedule("s", minutely, overlap=overlap)  # type: ignore[arg-type]
        assert len(run_now(rule, begin(rule, ZERO), ZERO + 5, live=True).firings) == count


def test_run_now_counts_as_a_run_for_an_interval_after_it() -> None:
    rule = schedule("s", every(60, anchor="end"), overlap="allow")
    assert run_now(rule, begin(rule, ZERO), ZERO + 5, live=True).firings == ()
    state = run_now(rule, begin(rule, ZERO), ZERO + 5, live=False).state
    assert (state.next_due, state.waiting) == (None, True)
    assert run_ended(rule, state, started=ZERO + 5, ended=ZERO + 9).next_due == ZERO + 9 + MINUTE


def test_jitter_delays_the_job_by_the_same_each_time_and_never_the_due_time() -> None:
    rule = schedule("s", minutely, jitter=30)
    state = begin(rule, ZERO)
    first, again = (decide(rule, state, ZERO + MINUTE + late, live=False) for late in (0, 5 * SECOND))
    assert first.firings == again.firings
    assert dues(first) == minutes(1)
    delays = [jitter_of(rule, due) for due in minutes(*range(1_000))]
    assert all(0 <= delay < 30 * SECOND for delay in delays)
    assert 13 * SECOND < sum(delays) / len(delays) < 17 * SECOND
    others = [jitter_of(schedule("t", minutely, jitter=30), due) for due in minutes(*range(1_000))]
    assert sum(a == b for a, b in zip(delays, others, strict=True)) < 5


@pytest.mark.parametrize(
    ("arguments", "setting"),
    [
        ({"misfire": "twice"}, "schedule.misfire"),
        ({"overlap": "kill"}, "schedule.overlap"),
        ({"jitter": -1}, "schedule.jitter"),
        ({"jitter": 86_401}, "schedule.jitter"),
        ({"catch_up": 0}, "schedule.catch_up"),
        ({"catch_up": 10_001}, "schedule.catch_up"),
        ({"grace": -1}, "schedule.grace"),
    ],
)
def test_a_policy_that_cannot_be_is_refused_by_name(arguments: dict[str, int], setting: str) -> None:
    with pytest.raises(ConfigurationError) as raised:
        schedule("s", minutely, **arguments)  # type: ignore[arg-type]
    assert raised.value.setting == setting


def test_a_schedule_is_named_like_everything_else() -> None:
    with pytest.raises(InvalidJob, match="schedule: 'two words' is not a valid name"):
        schedule("two words", minutely)
    with pytest.raises(ConfigurationError, match="is not made by every"):
        schedule("s", "@daily")  # type: ignore[arg-type]


misfires: st.SearchStrategy[Misfire] = st.sampled_from(["skip", "once", "all"])
overlaps: st.SearchStrategy[Overlap] = st.sampled_from(["skip", "queue", "allow"])
rules = st.builds(
    schedule,
    st.just("s"),
    st.one_of(
        st.just(cron("*/7 * * * *", tz="Europe/Berlin")),
        st.just(cron("30 2 * * *", tz="Europe/Berlin")),
        st.builds(every, st.integers(1, 100_000)),
    ),
    misfire=misfires,
    overlap=overlaps,
    jitter=st.integers(0, 90),
    catch_up=st.integers(1, 50),
    grace=st.integers(0, 1_000),
)
looks = st.lists(st.tuples(st.integers(0, 500_000), st.booleans()), min_size=1, max_size=30)


@given(rules)
def test_a_schedule_and_its_state_survive_storing(rule: Schedule) -> None:
    assert decode_schedule(encode_schedule(rule)) == rule
    state = pause(begin(rule, ZERO))
    assert msgspec.json.decode(msgspec.json.encode(state), type=ScheduleState) == state


@pytest.mark.parametrize(
    "recurrence",
    [
        b"{}",
        b'"@daily"',
        b'{"type":"yearly"}',
        b'{"type":"every","interval":0}',
        b'{"type":"every","interval":"5"}',
        b'{"type":"every","interval":5000000,"anchor":"now"}',
        b'{"type":"cron","expression":"61 * * * *"}',
        b'{"type":"cron","expression":"@daily","tz":"Mars/Olympus"}',
        b'{"type":"at"}',
        b"\xff",
    ],
)
def test_what_is_not_a_stored_schedule_is_a_decode_error(recurrence: bytes) -> None:
    assert decode_schedule(b'{"name":"s","recurrence":{"type":"at","instant":5}}') == schedule("s", At(5))
    with pytest.raises(msgspec.DecodeError):
        decode_schedule(b'{"name":"s","recurrence":%b}' % recurrence)
    with pytest.raises(msgspec.DecodeError):
        decode_schedule(b'{"name":"two words","recurrence":{"type":"at","instant":5}}')
