"""What follows a failure."""

import math
from datetime import timedelta

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.model.errors import ConfigurationError, InvalidJob
from holdfast.model.retry import (
    Again,
    ByException,
    Custom,
    Exponential,
    Failure,
    Fixed,
    Immediate,
    Linear,
    Never,
    Retry,
    RetryStrategy,
    decode_retry,
    encode_retry,
)
from holdfast.model.timing import seconds

numbers = st.floats(0, 1e8)
draws = st.floats(0, 1, exclude_max=True)
counts = st.integers(1, 10**6)
strategies = st.one_of(
    st.builds(Exponential, st.just(10**8), numbers, numbers, numbers, numbers),
    st.builds(Linear, st.just(10**8), numbers, numbers, numbers),
    st.builds(Fixed, st.just(10**8), numbers, numbers),
)


def failure(failures: int = 1, error: BaseException | None = None) -> Failure:
    return Failure(failures=failures, run=failures, task="t", error=error)


def after(strategy: RetryStrategy, failures: int, random: float = 0.0) -> float:
    again = strategy.decide(failure(failures), random)
    assert again is not None
    assert again.after is not None
    return again.after


def test_exponential_multiplies_up_to_its_cap() -> None:
    strategy = Exponential(10, base=2, factor=3, cap=50, jitter=0)
    assert [after(strategy, number) for number in range(1, 6)] == [2, 6, 18, 50, 50]


def test_linear_adds_up_to_its_cap() -> None:
    strategy = Linear(10, step=10, cap=25, jitter=0)
    assert [after(strategy, number) for number in range(1, 5)] == [10, 20, 25, 25]


def test_fixed_stays_the_same() -> None:
    assert [after(Fixed(9, wait=7), number) for number in (1, 5, 9)] == [7, 7, 7]


@pytest.mark.parametrize("strategy", [Exponential(3), Linear(3), Fixed(3)])
def test_retries_end_after_the_greatest_number(strategy: RetryStrategy) -> None:
    decisions = [strategy.decide(failure(number), 0.5) for number in range(1, 6)]
    assert [decision is not None for decision in decisions] == [True, True, True, False, False]
    assert all(decision.count for decision in decisions if decision)


@pytest.mark.parametrize("kind", [Exponential, Linear, Fixed])
def test_no_retries_means_one_attempt(kind: type[Exponential | Linear | Fixed]) -> None:
    assert kind(max_retries=0).decide(failure(1), 0.0) is None


@given(strategies, counts, draws)
def test_jitter_only_lengthens_and_by_no_more_than_its_part(
    strategy: Exponential | Linear | Fixed, failures: int, random: float
) -> None:
    plain = after(strategy, failures)
    assert math.isfinite(plain)
    assert plain <= after(strategy, failures, random) <= plain * (1 + strategy.jitter) * (1 + 1e-9)


@given(st.builds(Exponential, st.just(10**8), numbers, numbers, numbers, st.just(0.0)), counts)
def test_exponential_never_passes_its_cap(strategy: Exponential, failures: int) -> None:
    assert 0 <= after(strategy, failures) <= seconds(strategy.cap)


@given(st.builds(Exponential, st.just(10**8), numbers, st.floats(1, 1e8), numbers, st.just(0.0)), counts)
def test_exponential_with_a_factor_from_1_up_never_gets_shorter(strategy: Exponential, failures: int) -> None:
    assert after(strategy, failures + 1) >= after(strategy, failures)


@pytest.mark.parametrize("factor", [2, 10, 10.0, 1e8])
def test_a_huge_number_of_failures_waits_the_cap(factor: float) -> None:
    strategy = Exponential(10**8, base=1, factor=factor, cap=60, jitter=0)
    assert after(strategy, 10**7) == 60
    assert after(Exponential(10**8, base=0, factor=factor), 10**7) == 0


def test_a_slow_factor_reaches_the_cap_in_the_end() -> None:
    strategy = Exponential(10**8, base=1, factor=1.001, cap=3600, jitter=0)
    assert after(strategy, 1_000) < 3
    assert after(strategy, 100_000) == 3600


@given(counts, draws)
def test_immediate_never_ends_counts_nothing_and_leaves_the_due_time(failures: int, random: float) -> None:
    assert Immediate().decide(failure(failures), random) == Again(None, count=False)


def test_never_is_one_attempt() -> None:
    assert Never().decide(failure(1), 0.0) is None


def test_the_first_rule_that_matches_decides() -> None:
    strategy = ByException(
        {ConnectionError: Fixed(9, wait=1), OSError: Fixed(9, wait=2), ValueError: Never()},
        otherwise=Fixed(9, wait=3),
    )
    waits = {
        ConnectionResetError(): Again(1),
        FileNotFoundError(): Again(2),
        UnicodeError(): None,
        KeyError(): Again(3),
        None: Again(3),
    }
    for error, decision in waits.items():
        assert strategy.decide(failure(1, error), 0.0) == decision, error


def test_a_plain_function_decides() -> None:
    strategy = Custom(lambda failed: None if failed.failures > 2 else 5.0 * failed.failures)
    assert [strategy.decide(failure(number), 0.9) for number in (1, 2, 3)] == [Again(5), Again(10), None]


def test_a_handlers_wish_is_in_seconds_or_a_timedelta() -> None:
    assert Retry(1.5).after == 1.5
    assert Retry(timedelta(minutes=2)).after == 120
    assert (Retry().after, Retry().count) == (0, True)
    assert str(Retry(1, reason="rate limited")) == "rate limited"


@pytest.mark.parametrize("value", [-1, math.nan, math.inf, 1e9, "3", None])
def test_a_setting_that_cannot_work_is_refused_by_name(value: float) -> None:
    with pytest.raises(ConfigurationError, match=r"retry\.base"):
        Exponential(3, base=value)
    with pytest.raises(ConfigurationError, match=r"retry\.wait"):
        Fixed(3, wait=value)


@given(strategies | st.sampled_from([Immediate(), Never()]))
def test_a_plain_strategy_survives_storing(strategy: RetryStrategy) -> None:
    assert decode_retry(encode_retry(strategy)) == strategy


@pytest.mark.parametrize("strategy", [Custom(lambda _: 1.0), ByException({}, Never())])
def test_a_strategy_with_code_in_it_is_not_stored(strategy: RetryStrategy) -> None:
    with pytest.raises(InvalidJob, match="retry"):
        encode_retry(strategy)


@pytest.mark.parametrize(
    "stored",
    [
        b"",
        b"{}",
        b'{"type":"sudden"}',
        b'{"type":"fixed","wait":"long"}',
        b'{"type":"fixed","wait":-1}',
        b'{"type":"exponential","max_retries":-1}',
        b"\xff",
    ],
)
def test_what_is_not_a_stored_strategy_is_a_decode_error(stored: bytes) -> None:
    with pytest.raises(msgspec.DecodeError):
        decode_retry(stored)
