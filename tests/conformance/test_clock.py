"""The manual clock."""

from datetime import timedelta

import pytest

from holdfast.testing import ManualClock


def test_it_moves_only_when_told_to() -> None:
    clock = ManualClock(100)
    assert clock() == clock.now() == 100
    clock.advance(1.5)
    clock.advance(timedelta(seconds=1))
    assert clock.now() == 2_500_100


def test_it_starts_at_the_present() -> None:
    assert ManualClock().now() > 1_700_000_000_000_000


def test_it_never_goes_back() -> None:
    clock = ManualClock(100)
    with pytest.raises(ValueError, match="never goes back"):
        clock.advance(-1)
    assert clock.now() == 100
