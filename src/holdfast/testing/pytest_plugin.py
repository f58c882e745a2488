"""Fixtures for applications that use Holdfast.

Say once, in conftest.py, which application is meant:

    @pytest.fixture
    def holdfast_app():
        return app

Then `holdfast_testing` gives each test that application in memory, with a clock moved by hand.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from holdfast.app import Holdfast
    from holdfast.testing.app import Testing
    from holdfast.testing.clock import ManualClock


@pytest.fixture
def holdfast_app() -> Holdfast:
    """The application under test; to be overridden."""
    raise pytest.UsageError(
        "define a fixture `holdfast_app` in conftest.py that gives your Holdfast application"
    )


@pytest.fixture
def holdfast_testing(holdfast_app: Holdfast) -> Iterator[Testing]:
    """The application in memory. Async tests enter it as well: `async with holdfast_app: ...`."""
    with holdfast_app.testing() as testing:
        yield testing


@pytest.fixture
def holdfast_clock(holdfast_testing: Testing) -> ManualClock:
    """The clock by which jobs become due."""
    return holdfast_testing.clock
