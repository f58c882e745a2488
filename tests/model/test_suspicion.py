"""How many suspects run side by side: soon through, and yet the guilty one is found."""

import itertools
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from holdfast.model.outcome import most_suspects

LIMITS = st.integers(1, 12)


@given(limit=LIMITS)
def test_the_more_losses_the_fewer_and_one_that_cannot_bear_another_runs_alone(limit: int) -> None:
    most = [most_suspects(lost, limit) for lost in range(limit)]
    assert most[-1] == 1
    assert all(more >= 2 * fewer or more == most[0] for more, fewer in itertools.pairwise(most))


def test_a_limit_that_is_out_of_reach_holds_up_nobody() -> None:
    assert most_suspects(0, 1_000_000_000) > 1_000_000


@given(limit=LIMITS, innocent=st.integers(1, 60), draw=st.randoms(use_true_random=False))
def test_one_guilty_job_brings_nobody_else_to_the_limit(limit: int, innocent: int, draw: Random) -> None:
    guilty = 0
    lost = dict.fromkeys(range(innocent + 1), 0)
    while lost[guilty] < limit:
        beside: list[int] = []
        for job in draw.sample(sorted(lost), len(lost)):
            if sum(lost[other] >= lost[job] for other in beside) < most_suspects(lost[job], limit):
                beside.append(job)
        if guilty in beside:
            for job in beside:
                lost[job] += 1
        else:
            # They are through, and it has its turn.
            for job in beside:
                del lost[job]
    assert all(count < limit for job, count in lost.items() if job != guilty)
