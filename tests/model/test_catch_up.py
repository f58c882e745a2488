"""Many due times at once: fired in parts as if they were fired together."""

from hypothesis import given
from hypothesis import strategies as st

from holdfast.model.recurrence import every
from holdfast.model.schedule import Misfire, Overlap, begin, decide, schedule
from holdfast.model.timing import SECOND

ZERO = 1_790_000_000_000_000


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
