"""Waiting for servers, for code that has no event loop or must not use its own."""

import time
from collections.abc import Callable

PATIENCE = 30
_MOMENT = 0.01


def wait_until(is_so: Callable[[], bool], what: str) -> None:
    """Looks again and again until it is so."""
    deadline = time.monotonic() + PATIENCE
    while not is_so():
        assert time.monotonic() < deadline, f"not within {PATIENCE} seconds: {what}"
        time.sleep(_MOMENT)  # blocks on purpose: this runs outside of any event loop
