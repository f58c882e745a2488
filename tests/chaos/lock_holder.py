"""Holds a lock until a file says to give it back: `URL NAME GATE`."""

import sys
import time
from pathlib import Path

from holdfast import Holdfast
from tests.chaos.lock_program import say


def main(url: str, name: str, gate: str) -> None:
    with Holdfast(url) as app:
        say("asks")
        began = time.monotonic()
        with app.sync_lock(name, ttl=60):
            say(f"held after {time.monotonic() - began:.3f} s")
            while not Path(gate).exists():
                time.sleep(0.005)  # blocks on purpose: this program has no loop
            say(f"gives back at {time.monotonic():.6f}")


if __name__ == "__main__":
    main(*sys.argv[1:])
