"""`holdfast bench`: a short measurement of a store, from enqueue to completion, in this one process."""

from __future__ import annotations

import asyncio
import secrets
import statistics
import tempfile
import time
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path

import click

from holdfast.app import Holdfast
from holdfast.cli.access import as_json
from holdfast.cli.output import Advance, progress, say, show_facts, show_json
from holdfast.cli.run import run
from holdfast.config import DEFAULT, load
from holdfast.model.masking import mask_url
from holdfast.task import Task

PROBES = 100
REMOVED_AT_ONCE = 500
SHOWN_AT_ONCE = 100


@dataclass(frozen=True, slots=True)
class Measured:
    """Rates in jobs a second; latencies in milliseconds from enqueue to the handler's first line."""

    store: str
    jobs: int
    callers: int
    enqueue_per_second: float
    process_per_second: float
    latency_ms_p50: float
    latency_ms_p95: float


@click.command()
@click.option(
    "--jobs", type=click.IntRange(100, 1_000_000), default=5_000, show_default=True, help="How many jobs."
)
@click.option(
    "--callers", type=click.IntRange(1, 1_000), default=100, show_default=True, help="Enqueuers at once."
)
@click.option("--store", metavar="URL", help="The store; without one configured, a temporary SQLite file.")
@as_json
def bench(jobs: int, callers: int, store: str | None, as_json: bool) -> None:
    """Measure how fast a store takes and runs empty jobs.

    It works in a namespace of its own and removes its jobs. One process does all: it enqueues, runs the jobs
    and waits for them.
    """
    with _chosen(store) as url:
        namespace = f"bench-{secrets.token_hex(4)}"
        app = Holdfast(url, namespace=namespace, retention_seconds=0, log_level="error")
        measured = run(_measure(app, jobs, callers))
    if as_json:
        show_json(measured)
        return
    say(f"{measured.store}: {jobs} empty jobs, {callers} callers, one process")
    show_facts(
        {
            "enqueue": f"{measured.enqueue_per_second:,.0f} jobs/s",
            "process": f"{measured.process_per_second:,.0f} jobs/s",
            "latency p50": f"{measured.latency_ms_p50:.2f} ms",
            "latency p95": f"{measured.latency_ms_p95:.2f} ms",
        }
    )


@contextmanager
def _chosen(store: str | None) -> Generator[str]:
    """The store that was named or configured; else a temporary one, for nobody asked for a file here."""
    loaded = load({"store": store})
    if loaded.sources["store"] != DEFAULT:
        yield loaded.settings.store
        return
    with tempfile.TemporaryDirectory(prefix="holdfast-bench-") as folder:
        yield f"sqlite:///{Path(folder) / 'bench.db'}"


async def _measure(app: Holdfast, jobs: int, callers: int) -> Measured:
    all_run = asyncio.Event()
    runs = count(1)

    @app.task(name="noop")
    async def noop() -> float:
        if next(runs) == jobs:
            all_run.set()
        return time.perf_counter()

    async with app:
        try:
            with progress("enqueue", jobs) as advance:
                enqueued = await _enqueue(noop, jobs, callers, advance)
            with progress("process", None):
                processed = await _process(app, all_run)
            with progress("latency", PROBES) as advance:
                latencies = await _probe(app, noop, advance)
        finally:
            await _remove(app, jobs + PROBES)
    hundredths = statistics.quantiles(latencies, n=100)
    return Measured(
        store=mask_url(app.settings.store),
        jobs=jobs,
        callers=callers,
        enqueue_per_second=jobs / enqueued,
        process_per_second=jobs / processed,
        latency_ms_p50=hundredths[49] * 1000,
        latency_ms_p95=hundredths[94] * 1000,
    )


async def _enqueue(noop: Task[[], float], jobs: int, callers: int, advance: Advance) -> float:
    remaining = iter(range(jobs))

    async def caller() -> None:
        for number in remaining:
            await noop.enqueue()
            if number % SHOWN_AT_ONCE == SHOWN_AT_ONCE - 1:
                advance(SHOWN_AT_ONCE)

    begun = time.perf_counter()
    await asyncio.gather(*(caller() for _ in range(callers)))
    return time.perf_counter() - begun


async def _process(app: Holdfast, all_run: asyncio.Event) -> float:
    """Until the last job was run, and the worker has recorded all and ended."""
    begun = time.perf_counter()
    async with app.worker(concurrency=100):
        await all_run.wait()
    return time.perf_counter() - begun


async def _probe(app: Holdfast, noop: Task[[], float], advance: Advance) -> list[float]:
    """How long single jobs wait for an idle worker of this process."""
    latencies: list[float] = []
    async with app.worker():
        for _ in range(PROBES):
            sent = time.perf_counter()
            job = await noop.enqueue()
            latencies.append(await job.result(timeout=30) - sent)
            advance()
    return latencies


async def _remove(app: Holdfast, total: int) -> None:
    """Finished jobs by pruning; what is left of a measurement that was cut short, one by one."""
    store = app.client.session.jobs
    with progress("remove", total) as advance:
        while removed := await store.prune(0, REMOVED_AT_ONCE):
            advance(removed)
        while page := await app.find(limit=REMOVED_AT_ONCE):
            removed = sum(await asyncio.gather(*(store.delete(job.id) for job in page)))
            advance(removed)
            if not removed:
                break
