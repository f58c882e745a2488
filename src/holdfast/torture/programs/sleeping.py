"""Sleep that a faked wall clock leaves alone.

Python sleeps until an instant of the monotonic clock, and libfaketime takes that for one of the clock that it
fakes: every `time.sleep` fails. Waiting for nothing takes a duration instead.
"""

from __future__ import annotations

import os
import select
import time
from typing import SupportsIndex


def install() -> None:
    """Has this process sleep so, if its clock is faked."""
    if "FAKETIME_TIMESTAMP_FILE" in os.environ:
        time.sleep = _sleep


def _sleep(seconds: float | SupportsIndex, /) -> None:
    select.select([], [], [], float(seconds))
