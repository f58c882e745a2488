"""A process that a test has started."""

import os
import re
import signal
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from tests.chaos.waiting import PATIENCE, until

_CHILD = re.compile(r'event="worker process started".* pid=(\d+)')


class Process:
    """A process of ours, its output in a file."""

    def __init__(self, command: Sequence[str], folder: Path, environ: Mapping[str, str], log: Path) -> None:
        self._folder = folder
        self._log = log
        with log.open("wb") as output:
            self._process = subprocess.Popen(
                command,
                cwd=folder,
                env=environ,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self.pid = self._process.pid

    @property
    def code(self) -> int | None:
        """The exit code, negative for a signal; None while it runs."""
        return self._process.poll()

    @property
    def output(self) -> str:
        return self._log.read_text(encoding="utf-8", errors="replace")

    async def says(self, text: str, times: int = 1) -> None:
        """Waits until it has printed the text so often."""
        await until(
            lambda: self.output.count(text),
            f"{text!r} is printed",
            lambda count: count >= times,
            show=lambda: self.output,
        )

    async def starts(self) -> None:
        """Waits until it has started, being a worker."""
        await self.says('event="worker started"')

    async def ends(self, within: float = PATIENCE) -> int:
        """Waits until it has ended; its exit code."""
        await until(lambda: self.code is not None, "it ends", within=within, show=lambda: self.output)
        return self._process.returncode

    def signal(self, number: signal.Signals) -> None:
        self._process.send_signal(number)

    def kill(self) -> None:
        """SIGKILL, and waits for its effect."""
        self._process.kill()
        self._process.wait()

    def children(self) -> list[int]:
        """The worker processes that this one, a supervisor, has started."""
        return [int(pid) for pid in _CHILD.findall(self.output)]

    def live_children(self) -> list[int]:
        return [pid for pid in self.children() if is_in(self._folder, pid)]


def is_in(folder: Path, pid: int) -> bool:
    """Whether that process still runs, and in our folder: another may have got its number since."""
    try:
        return Path(f"/proc/{pid}/cwd").resolve(strict=True) == folder.resolve()
    except OSError:
        return False


def end_all(folder: Path) -> None:
    """Ends whatever still runs in the folder, which is ours alone, whoever has started it there."""
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal() and is_in(folder, pid := int(entry.name)):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
