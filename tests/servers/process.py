"""A server process: started under a keeper, waited for, ended."""

import os
import signal
import subprocess
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from time import monotonic

from tests.servers.run import Run
from tests.servers.waiting import PATIENCE

_MOMENT = 0.01


class ServerProcess:
    """A program that can be started again and again, what it prints in one file; `ending` ends it at once."""

    def __init__(
        self,
        run: Run,
        command: Sequence[str],
        log: Path,
        environ: dict[str, str],
        ending: signal.Signals,
    ) -> None:
        self._run = run
        self._command = command
        self._log = log
        self._environ = environ
        self._ending = ending
        self._keeper: subprocess.Popen[bytes] | None = None

    @property
    def log(self) -> str:
        return self._log.read_text(encoding="utf-8", errors="replace")

    @property
    def is_running(self) -> bool:
        return self._keeper is not None and self._keeper.poll() is None

    def start(self, is_ready: Callable[[], bool]) -> None:
        """Starts it, and waits until it is ready."""
        assert not self.is_running, "it runs"
        keeper = self._keeper = self._run.keep(self._command, self._log, self._environ, self._ending)
        deadline = monotonic() + PATIENCE
        while not is_ready():
            if _has_ended(keeper) or monotonic() > deadline:
                raise RuntimeError(f"{' '.join(self._command)} did not start:\n{self.log}")

    def stop(self, pid: int, number: signal.Signals) -> None:
        """Sends the signal to its process, and waits until it has ended."""
        assert self._keeper is not None, "it was never started"
        # Its keeper may still be waiting for what a killed process has left behind.
        with suppress(ProcessLookupError):
            if self.is_running:
                os.kill(pid, number)
        self._keeper.wait(PATIENCE)


def _has_ended(process: "subprocess.Popen[bytes]") -> bool:
    """Whether it ends within a moment."""
    try:
        process.wait(_MOMENT)
    except subprocess.TimeoutExpired:
        return False
    return True
