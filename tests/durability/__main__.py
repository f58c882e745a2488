"""`make durability`: measures what each store keeps, and prints a table; `--help` tells the choices."""

import argparse
import sys
import time
from collections.abc import Callable, Iterator
from itertools import chain

from tests.durability import postgres_faults, redis_faults, redis_power, sqlite_power
from tests.durability.options import Options
from tests.durability.tally import Line

MEASURES: dict[str, Callable[[Options], Iterator[Line]]] = {
    "sqlite": sqlite_power.measure,
    "postgres": postgres_faults.measure,
    "redis": lambda options: chain(redis_power.measure(options), redis_faults.measure(options)),
}
HEAD = ["store", "fault", "trials", "acknowledged", "missing", "longest tail, ms", "inconsistent"]


def main() -> int:
    stores, options = read_arguments()
    print(f"| {' | '.join(HEAD)} |", flush=True)
    wrong = 0
    for store in stores:
        began = time.monotonic()
        for line in MEASURES[store](options):
            print(f"| {' | '.join([line.setting, line.fault, *line.tally.row])} |", flush=True)
            if not line.is_right:
                wrong += 1
                print("\n".join(["NOT AS IT MUST BE", *line.tally.inconsistent[:5]]), file=sys.stderr)
        print(f"{store}: {time.monotonic() - began:.0f} s, seed {options.seed}", flush=True)
    return min(wrong, 1)


def read_arguments() -> tuple[list[str], Options]:
    known = Options()
    parser = argparse.ArgumentParser(prog="python -m tests.durability")
    parser.add_argument("stores", nargs="*", help=f"some of {', '.join(MEASURES)}; all if none is named")
    parser.add_argument("--points", type=int, default=known.points, help="at how many points power fails")
    parser.add_argument("--jobs", type=int, default=known.jobs, help="jobs of each of two runs on SQLite")
    parser.add_argument("--trials", type=int, default=known.trials, help="crashes and failovers of servers")
    parser.add_argument("--seed", type=int, default=known.seed)
    told = parser.parse_args()
    if unknown := set(told.stores) - set(MEASURES):
        parser.error(f"unknown: {', '.join(unknown)}")
    return told.stores or list(MEASURES), Options(told.points, told.jobs, told.trials, told.seed)


if __name__ == "__main__":
    sys.exit(main())
