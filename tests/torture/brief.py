"""`python -m tests.torture.brief CREW OPTIONS…`: `holdfast torture`, but brief and dense.

CREW names how many of whom there are, as `workers=3,producers=2`; nobody else takes part. Faults that cost
a holder its lease come more often, more answers are lost, and what does not settle soon is left: a mutant is
known by what it breaks long before.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

from holdfast.cli.main import main
from holdfast.torture import campaign, plan
from holdfast.torture.arenas import sqlite
from holdfast.torture.crew import Part, Role, parts_of

SETTLE = 20.0
LOSS_SHARE = 0.12
GAPS = {"kill": 6.0, "freeze": 2.5, "terminate": 15.0, "freeze leader": 5.0, "clock jump": 4.0}
ROLES = {
    "workers": Role.WORKER,
    "consumers": Role.CONSUMER,
    "schedulers": Role.SCHEDULER,
    "producers": Role.PRODUCER,
    "contenders": Role.CONTENDER,
    "operators": Role.OPERATOR,
}


def condense(crew: str) -> None:
    """Changes what the campaign's process is about to do; the others are not told."""
    counts = {ROLES[name]: int(count) for name, _, count in (each.partition("=") for each in crew.split(","))}

    def few(*_: int) -> list[Part]:
        return [part for part in parts_of(4, 2, 3, 2, 2) if part.index < counts.get(part.role, 0)]

    changed: Any = campaign
    changed.SETTLE = SETTLE
    changed.parts_of = few
    sqlite.LOSS_SHARE = LOSS_SHARE  # type: ignore[misc]
    plan.GAPS.update(GAPS)


def run(arguments: Sequence[str]) -> None:
    condense(arguments[0])
    main(["torture", *arguments[1:]])


if __name__ == "__main__":
    run(sys.argv[1:])
