"""Processes that kill themselves at a point of a call to Redis."""

import sys

from tests.chaos import crashing
from tests.chaos.redis_failpoint import RedisFailpoint

if __name__ == "__main__":
    crashing.Failpoint = RedisFailpoint  # type: ignore[attr-defined]
    crashing.main(sys.argv[1:])
