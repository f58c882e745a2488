"""Many seeds of the workload of our own, on as many processes as there are processors."""

from __future__ import annotations

import gc
import logging
import os
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass, field
from itertools import repeat
from multiprocessing import get_context

from holdfast.testing.simulation.seed import Result, run_seed
from holdfast.testing.simulation.weakened import weakened
from holdfast.testing.simulation.workload import LONGEST_LEASE

CHUNK = 5


@dataclass(slots=True)
class Tally:
    """What all seeds together came to. `hours` are those of the whole, `process_hours` those of each part."""

    began: float = field(default_factory=time.monotonic)
    seeds: int = 0
    hours: float = 0.0
    process_hours: float = 0.0
    cpu_minutes: float = 0.0
    counts: Counter[str] = field(default_factory=Counter[str])
    failed: list[Result] = field(default_factory=list[Result])

    def add(self, result: Result) -> None:
        self.seeds += 1
        self.hours += result.seconds / 3_600
        self.process_hours += result.process_seconds / 3_600
        self.cpu_minutes += result.cpu_seconds / 60
        self.counts.update(result.counts)
        if result.faults_found:
            self.failed.append(result)

    @property
    def minutes(self) -> float:
        return (time.monotonic() - self.began) / 60

    def line(self) -> str:
        minutes, cpu_minutes = max(self.minutes, 1e-9), max(self.cpu_minutes, 1e-9)
        return (
            f"{self.seeds} seeds, {len(self.failed)} failed, {self.hours:,.1f} simulated hours "
            f"({self.process_hours:,.1f} of processes) in {minutes * 60:.1f} s: "
            f"{self.hours / minutes:,.0f} a minute ({self.process_hours / minutes:,.0f} of processes), "
            f"{self.hours / cpu_minutes:,.0f} a minute of one processor"
        )


def run(
    seeds: Sequence[int],
    *,
    at_once: int | None = None,
    weak: str | None = None,
    most_lease: float = LONGEST_LEASE,
) -> Iterator[Result]:
    """The results of the seeds, in their order; none has leases of more than `most_lease` seconds."""
    chunks = [seeds[start : start + CHUNK] for start in range(0, len(seeds), CHUNK)]
    size = min(len(chunks), at_once or os.cpu_count() or 1)
    if size <= 1:
        for chunk in chunks:
            yield from _run_chunk(chunk, weak, most_lease)
        return
    with ProcessPoolExecutor(size, mp_context=get_context("spawn")) as pool:
        for results in pool.map(_run_chunk, chunks, repeat(weak), repeat(most_lease)):
            yield from results


def _run_chunk(seeds: Sequence[int], weak: str | None, most_lease: float) -> list[Result]:
    logging.disable(logging.CRITICAL)
    gc.freeze()  # Each seed leaves much to be collected; what was there before need not be looked through.
    try:
        with nullcontext() if weak is None else weakened(weak):
            return [run_seed(seed, most_lease) for seed in seeds]
    finally:
        gc.collect()
        gc.unfreeze()
        logging.disable(logging.NOTSET)
