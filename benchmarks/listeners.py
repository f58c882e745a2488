"""What listeners cost: `python -m benchmarks.listeners [--against SRC]`, CPU time for each no-op job.

Each measurement is a process of its own, and the variants take turns, so that a busy machine slows all of
them. `--against` is the `src` folder of another version, measured beside this one without a listener.
"""

import argparse
import asyncio
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parents[1]
ALONE, METRICS, TRACES, BEFORE = "nobody listens", "metrics", "traces", "another version, nobody listens"


async def measure(variant: str, jobs: int) -> dict[str, float]:
    """CPU microseconds for each job: to enqueue them in batches, and to run them on the memory store."""
    from holdfast import Holdfast  # noqa: PLC0415  of whichever version this process has

    app = Holdfast("memory://", leader_candidate=False, concurrency=100, log_level="error")

    @app.task(keep_result=False)
    async def noop() -> None: ...

    if variant == METRICS:
        from holdfast.telemetry.metrics import Metrics  # noqa: PLC0415

        Metrics(app)
    elif variant == TRACES:
        from opentelemetry.sdk.trace import TracerProvider  # noqa: PLC0415

        from holdfast.telemetry.otel import Tracing  # noqa: PLC0415

        Tracing(app, tracer_provider=TracerProvider())
    async with app:
        begun = time.process_time()
        for _ in range(jobs):
            await noop.enqueue()
        enqueued = time.process_time()
        await app.worker().run(until_idle=True)
        ended = time.process_time()
    return {"enqueue": (enqueued - begun) / jobs * 1e6, "run": (ended - enqueued) / jobs * 1e6}


def measured_apart(variant: str, jobs: int, source: Path) -> dict[str, float]:
    command = [sys.executable, str(Path(__file__).resolve()), "--one", variant, "--jobs", str(jobs)]
    path = os.pathsep.join([str(source), str(HERE)])
    done = subprocess.run(
        command, env={**os.environ, "PYTHONPATH": path}, check=True, capture_output=True, text=True
    )
    found: dict[str, float] = json.loads(done.stdout)
    return found


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.listeners", description=__doc__)
    parser.add_argument("--jobs", type=int, default=20_000)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--against", type=Path, help="the src folder of another version")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    given = parser.parse_args(arguments)
    if given.one:
        print(json.dumps(asyncio.run(measure(given.one, given.jobs))))
        return
    variants = {ALONE: HERE / "src", METRICS: HERE / "src", TRACES: HERE / "src"}
    if given.against is not None:
        variants = {BEFORE: given.against, **variants}
    found: dict[str, list[dict[str, float]]] = {name: [] for name in variants}
    for number in range(given.rounds):
        order = list(variants)[:: 1 if number % 2 else -1]
        for name in order:
            found[name].append(measured_apart(name, given.jobs, variants[name]))
    print(f"CPU µs for each no-op job, median of {given.rounds} (least – most), {given.jobs} jobs each")
    for name, rounds in found.items():
        print(f"{name:34} enqueue {shown(rounds, 'enqueue')}   run {shown(rounds, 'run')}")


def shown(rounds: list[dict[str, float]], part: str) -> str:
    values = [each[part] for each in rounds]
    return f"{statistics.median(values):6.1f} ({min(values):.1f} – {max(values):.1f})"


if __name__ == "__main__":
    main()
