"""`make fuzz`: lets atheris look for bytes that break a target, each target for a while.

`python -m fuzz [--seconds N] [TARGET ...]`. Each target runs in a process of its own, with the package
instrumented; what breaks it is left in a file `crash-…` of its folder, and the exit code is 1.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

LONGEST_INPUT = 8_192
SLOWEST_SECONDS = 10
MOST_MEMORY_MB = 2_048
FOLDER = Path(tempfile.gettempdir(), "holdfast-fuzz")


def main() -> int:
    parser = argparse.ArgumentParser(prog="make fuzz")
    parser.add_argument("targets", nargs="*", help="all of them, unless some are named")
    parser.add_argument("--seconds", type=int, default=60, help="how long for each target")
    parser.add_argument("--attack", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.attack is not None:
        return _attack(asked.attack, asked.seconds)
    from fuzz.all_targets import TARGETS

    unknown = sorted(set(asked.targets) - set(TARGETS))
    if unknown:
        parser.error(f"there is no target {unknown[0]}; there are {', '.join(TARGETS)}")
    broken = [name for name in asked.targets or TARGETS if not _hold(name, asked.seconds)]
    print(f"broken: {', '.join(broken)}" if broken else "Nothing was found.")
    return min(1, len(broken))


def _hold(name: str, seconds: int) -> bool:
    """Whether a target held, attacked by another process."""
    print(f"{name} ...", flush=True)
    command = [sys.executable, "-m", "fuzz", "--attack", name, "--seconds", str(seconds)]
    return subprocess.run(command, check=False).returncode == 0


def _attack(name: str, seconds: int) -> int:
    import atheris  # type: ignore[import-untyped,import-not-found,unused-ignore]  # only in the extra fuzz

    with atheris.instrument_imports(include=["holdfast"]):
        from fuzz.all_targets import TARGETS
    target = TARGETS[name]
    folder = FOLDER / name
    folder.mkdir(parents=True, exist_ok=True)
    for number, seed in enumerate(target.seeds):
        (folder / f"seed-{number}").write_bytes(seed)
    options = [
        f"-max_total_time={seconds}",
        f"-timeout={SLOWEST_SECONDS}",
        f"-rss_limit_mb={MOST_MEMORY_MB}",
        f"-max_len={LONGEST_INPUT}",
        f"-artifact_prefix={folder}/",
        "-verbosity=0",
        "-print_final_stats=1",
    ]
    atheris.Setup([sys.argv[0], *options, str(folder)], target.attack)
    atheris.Fuzz()
    return 0


if __name__ == "__main__":
    sys.exit(main())
