"""Where the time of a job goes on the loop: `python -m benchmarks.profile [--store URL] [--task NAME]`.

A profiler makes small functions look dearer than they are: read shares from this, and costs from the
`framework` case.
"""

import argparse
import asyncio
import cProfile
import pstats
import sys
from pathlib import Path

from benchmarks.sides.work import make_app, store_jobs
from holdfast import Holdfast

Line = tuple[str, float, float, float]


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.profile", description=__doc__)
    parser.add_argument("--store", default="memory://", help="its URL (%(default)s)")
    parser.add_argument("--task", choices=("noop_async", "noop_sync"), default="noop_async")
    parser.add_argument("--jobs", type=int, default=20_000)
    parser.add_argument("--top", type=int, default=25, help="how many functions to show (%(default)s)")
    given = parser.parse_args(arguments)
    profiler = asyncio.run(_profiled(make_app(given.store), given.task, given.jobs))
    lines = _lines(profiler, given.jobs)
    total = sum(own for _, _, own, _ in lines)
    print(f"{given.task} on {given.store}: {total:.1f} µs a job under the profiler")
    print("calls/job   own µs  share  with callees µs  function")
    for function, calls, own, deep in lines[: given.top]:
        print(f"{calls:9.2f} {own:8.2f} {own / total:6.1%} {deep:16.2f}  {function}")


async def _profiled(app: Holdfast, task: str, count: int) -> cProfile.Profile:
    profiler = cProfile.Profile()
    async with app:
        await store_jobs(app, task, count)
        worker = app.worker()
        app.on_startup(profiler.enable)
        app.on_shutdown(profiler.disable)
        await worker.run(until_idle=True)
    return profiler


def _lines(profiler: cProfile.Profile, jobs: int) -> list[Line]:
    """Function, calls, own and whole microseconds for a job; the dearest first."""
    # The stubs leave out `stats`, which is documented and holds what `print_stats` prints.
    stats = vars(pstats.Stats(profiler, stream=sys.stderr))["stats"]
    lines: list[Line] = []
    for (path, number, name), (_, calls, own, deep, _) in stats.items():
        where = name if path == "~" else f"{'/'.join(Path(path).parts[-2:])}:{number} {name}"
        lines.append((where, calls / jobs, own / jobs * 1e6, deep / jobs * 1e6))
    return sorted(lines, key=lambda line: -line[2])


if __name__ == "__main__":
    main()
