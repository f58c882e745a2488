"""On the path of a process, makes its clocks wrong by CHAOS_SHIFT seconds.

CHAOS_CLOCKS says which: "wall", or "all" with those that count from the boot, as libfaketime does.
"""

import os
import time

SHIFT = float(os.environ["CHAOS_SHIFT"])
WALL = {time.CLOCK_REALTIME}
STEADY = {time.CLOCK_MONOTONIC, time.CLOCK_BOOTTIME} if os.environ["CHAOS_CLOCKS"] == "all" else set[int]()

_gettime, _gettime_ns = time.clock_gettime, time.clock_gettime_ns


def clock_gettime(clock: int) -> float:
    return _gettime(clock) + (SHIFT if clock in WALL | STEADY else 0)


def clock_gettime_ns(clock: int) -> int:
    return _gettime_ns(clock) + (round(SHIFT * 1e9) if clock in WALL | STEADY else 0)


time.clock_gettime, time.clock_gettime_ns = clock_gettime, clock_gettime_ns
time.time = lambda: clock_gettime(time.CLOCK_REALTIME)
time.time_ns = lambda: clock_gettime_ns(time.CLOCK_REALTIME)
if STEADY:
    time.monotonic = lambda: clock_gettime(time.CLOCK_MONOTONIC)
    time.monotonic_ns = lambda: clock_gettime_ns(time.CLOCK_MONOTONIC)
