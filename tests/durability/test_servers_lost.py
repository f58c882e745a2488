"""Servers that crash or are replaced under load: what is promised is kept, what is not is seen to be lost."""

from collections.abc import Sequence
from pathlib import Path
from typing import TypeVar

import pytest

from tests.durability import postgres_faults, redis_faults
from tests.durability.tally import Line, Tally
from tests.servers.run import Run

pytestmark = [pytest.mark.process, pytest.mark.timeout(180)]

HARDEST = {"async-behind", "sync-waited", "crash-always", "failover-behind"}
"""The others are measured by `make durability`, and in part tested in tests/chaos."""

C = TypeVar("C", postgres_faults.Case, redis_faults.Case)


def hardest(cases: Sequence[C]) -> list[C]:
    return [case for case in cases if case.name in HARDEST]


@pytest.mark.parametrize("case", hardest(postgres_faults.CASES), ids=lambda case: case.name)
async def test_postgres_keeps_what_it_promises(
    tmp_path: Path, servers: Run, case: postgres_faults.Case
) -> None:
    tally = Tally()
    await postgres_faults.try_once(servers, tmp_path, case, tally)
    check(Line("PostgreSQL", case.fault, tally, case.keeps))


@pytest.mark.parametrize("case", hardest(redis_faults.CASES), ids=lambda case: case.name)
async def test_redis_keeps_what_it_promises(tmp_path: Path, servers: Run, case: redis_faults.Case) -> None:
    tally = Tally()
    await redis_faults.try_once(servers, tmp_path, case, tally)
    check(Line("Redis", case.fault, tally, case.keeps))


def check(line: Line) -> None:
    assert line.tally.inconsistent == [], "what is left can be worked with"
    assert line.is_right, line
    assert line.tally.acknowledged > 200
