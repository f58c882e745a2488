"""What a seed decides, it decides alike each time."""

from itertools import islice

from holdfast.torture.campaign import floors
from holdfast.torture.plan import FIRST_PART, GAPS, strikes
from holdfast.torture.programs.mix import BOUNDED, SHARED, Mix
from holdfast.torture.resource import Ask, Resource

LONG = 600.0


def test_the_same_seed_strikes_alike_and_another_does_not() -> None:
    first, again = (list(islice(strikes(7, LONG, list(GAPS)), 500)) for _ in range(2))
    assert first == again
    assert [strike.at for strike in first] == sorted(strike.at for strike in first)
    assert first != list(islice(strikes(8, LONG, list(GAPS)), 500))


def test_every_kind_strikes_early_even_in_a_short_campaign() -> None:
    short = 20.0
    early = [strike.name for strike in islice(strikes(1, short, list(GAPS)), 500) if strike.at <= short]
    assert set(early) == set(GAPS)
    first = {strike.name: strike.at for strike in reversed(list(islice(strikes(1, short, list(GAPS)), 500)))}
    assert max(first.values()) <= FIRST_PART * short


def test_a_number_is_the_same_job_for_whoever_draws_it() -> None:
    mix, other = Mix("7", 10_000), Mix("7", 10_000)
    numbers = range(500)
    assert [mix.job(SHARED, each) for each in numbers] == [other.job(SHARED, each) for each in numbers]
    assert all(mix.job(SHARED, each).key == f"{SHARED}-{each}" for each in numbers)
    keyed = sum(mix.job("p0", each).key is not None for each in numbers)
    assert 200 < keyed < 300


def test_what_blocks_or_kills_is_bounded_in_number() -> None:
    jobs = 100_000
    mix = Mix("7", jobs)
    drawn = [mix.job("p0", each).task for each in range(jobs)]
    for task, (_, most) in BOUNDED.items():
        assert drawn.count(task) < 1.5 * most + 10
    assert drawn.count("short") > jobs / 3


def test_floors_grow_with_the_jobs_and_leave_out_what_was_left_out() -> None:
    found = floors(200_000, {"full disk": "mounting a small file system needs root"})
    assert "full disk" not in found
    assert found["kill"] == 1
    assert (found["stale writes"], found["lost replies"], found["leader changes"]) == (200, 2_000, 20)
    assert floors(100, {})["stale writes"] == 1


def test_the_resource_refuses_an_older_token_of_the_same_lock_only() -> None:
    resource = Resource()
    answers = [
        resource.decide(Ask(lock=lock, token=token))
        for lock, token in [("north", 5), ("north", 5), ("north", 4), ("east", 1), ("north", 6)]
    ]
    assert [answer.accepted for answer in answers] == [True, True, False, True, True]
    assert [answer.order for answer in answers] == [1, 2, 3, 4, 5]
