"""Every parser gives a value or an error of ours, whatever it is given: a little of `make fuzz`."""

import time

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fuzz.all_targets import TARGETS

SLOWEST_SECONDS = 5
FOUND = (
    b"\xff\xfe",
    b"[" * 100_000,
    b'{"a":' * 50_000,
    b"9" * 5_000,
    b"lease_seconds = " + b"9" * 5_000,
    b"a = " + b"[" * 5_000,
    b'"\\ud800"',
    b'"\xed\xa0\x80"',
    b'"\\u0000"',
    b"partition://?a=x://\xe5",
    b'{"a":1,"a":2}',
    b"2 * 2 * 3 7l",
    b"postgresql://host/db?p\xbf=4",
)
"""What broke a parser once, or breaks others'."""


@pytest.mark.parametrize("name", TARGETS)
def test_what_broke_a_parser_once_does_not_again(name: str) -> None:
    for data in (*FOUND, *TARGETS[name].seeds, b""):
        began = time.monotonic()
        TARGETS[name].attack(data)
        assert time.monotonic() - began < SLOWEST_SECONDS, data[:40]


@pytest.mark.parametrize("name", TARGETS)
@pytest.mark.timeout(120)
def test_whatever_a_parser_is_given_it_answers(name: str) -> None:
    seeds = st.sampled_from(TARGETS[name].seeds)
    cuts = st.tuples(seeds, st.integers(0, 200), st.binary(max_size=40), st.integers(0, 3))

    @settings(
        max_examples=60,
        deadline=None,
        database=None,
        derandomize=True,
        suppress_health_check=list(HealthCheck),
    )
    @given(st.one_of(st.binary(max_size=300), st.text(max_size=200).map(lambda text: text.encode()), cuts))
    def attack(data: bytes | tuple[bytes, int, bytes, int]) -> None:
        if isinstance(data, tuple):
            seed, place, put, gone = data
            data = seed[:place] + put + seed[place + gone :]
        TARGETS[name].attack(data)

    attack()
