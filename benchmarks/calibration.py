"""How fast this machine is at the moment, and how busy others keep it."""

import os
import sqlite3
import time
from dataclasses import dataclass
from pathlib import Path

from benchmarks.engine import Server

SECONDS = 0.1
CALM = 0.2
"""Cores that others may use in a calm second."""


@dataclass(frozen=True, slots=True)
class Calibration:
    """Rates of two plain things: one-row commits of SQLite (`synchronous=FULL`), and a Python loop."""

    commits_per_second: float
    python_mops: float


def calibrate(folder: Path) -> Calibration:
    return Calibration(_commits(folder / "calibration.db"), _python())


def _commits(path: Path) -> float:
    connection = sqlite3.connect(path, isolation_level=None)
    try:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("CREATE TABLE IF NOT EXISTS commits (number INTEGER)")
        done = 0
        begun = time.perf_counter()
        while time.perf_counter() - begun < SECONDS:
            connection.execute("INSERT INTO commits VALUES (?)", (done,))
            done += 1
        return done / (time.perf_counter() - begun)
    finally:
        connection.close()


def _python() -> float:
    steps, done = 10_000, 0
    begun = time.perf_counter()
    while time.perf_counter() - begun < SECONDS:
        for _ in range(steps):
            pass
        done += steps
    return done / (time.perf_counter() - begun) / 1e6


class Disturbance:
    """Cores that others used since this was made: the machine's busy time less ours and the server's."""

    def __init__(self, server: Server | None = None) -> None:
        self._server = server
        self._begun = time.perf_counter()
        self._others = self._read()

    def cores(self) -> float | None:
        """None where the system does not tell."""
        now = self._read()
        if self._others is None or now is None:
            return None
        return max(0.0, (now - self._others) / (time.perf_counter() - self._begun))

    @classmethod
    def wait_for_calm(cls, patience: float) -> None:
        """Waits, at most so many seconds, for a second in which others use next to nothing."""
        deadline = time.monotonic() + patience
        while time.monotonic() < deadline:
            disturbance = cls()
            time.sleep(1)
            cores = disturbance.cores()
            if cores is None or cores < CALM:
                return

    def _read(self) -> float | None:
        try:
            fields = Path("/proc/stat").read_text().partition("\n")[0].split()
        except OSError:
            return None
        user, nice, system, _idle, _wait, irq, soft, steal = (int(field) for field in fields[1:9])
        busy = (user + nice + system + irq + soft + steal) / os.sysconf("SC_CLK_TCK")
        own = os.times()
        server = 0.0 if self._server is None else self._server.cpu()
        return busy - (own.user + own.system + own.children_user + own.children_system) - server
