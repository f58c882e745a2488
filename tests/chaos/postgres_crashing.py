"""Processes that kill themselves at a point of a call to PostgreSQL."""

import sys

from tests.chaos import crashing
from tests.chaos.postgres_failpoint import PostgresFailpoint

if __name__ == "__main__":
    crashing.Failpoint = PostgresFailpoint  # type: ignore[attr-defined]
    crashing.main(sys.argv[1:])
