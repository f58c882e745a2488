"""Trials of servers that are lost: each case as often as is asked for, on servers of one run."""

import asyncio
import tempfile
from collections.abc import Callable, Coroutine, Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol, TypeVar

from tests.durability.options import Options
from tests.durability.tally import Line, Tally
from tests.servers.run import OwnedRun, Run


class Case(Protocol):
    """What becomes of a server; `keeps` as in Line."""

    @property
    def fault(self) -> str: ...

    @property
    def keeps(self) -> bool | None: ...


C = TypeVar("C", bound=Case)
Try = Callable[[Run, Path, C, Tally], Coroutine[Any, Any, None]]
"""One trial of the case, in that folder, with servers of its own."""


def lines(setting: str, cases: Sequence[C], try_once: Try[C], options: Options) -> Iterator[Line]:
    """One line of the table for each case."""
    run = OwnedRun()
    try:
        for case in cases:
            tally = Tally()
            for _ in range(options.trials):
                with tempfile.TemporaryDirectory(prefix="holdfast-durability-") as folder:
                    asyncio.run(try_once(run, Path(folder), case, tally))
            yield Line(setting, case.fault, tally, case.keeps)
    finally:
        run.close()
