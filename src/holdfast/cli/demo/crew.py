"""The demo's worker processes: started, killed, frozen, woken, and gone at the end whatever happens."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Self

from holdfast.cli.supervisor import command_line


class Condition(StrEnum):
    """What the demo did to a worker."""

    WORKING = "working"
    KILLED = "killed"
    FROZEN = "frozen"
    WOKEN = "woken"
    STOPPED = "stopped"


@dataclass(slots=True)
class Member:
    """One worker process; `name` is a letter, and `log` is where its standard error goes."""

    name: str
    process: subprocess.Popen[bytes]
    log: Path
    condition: Condition = Condition.WORKING

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def died_unasked(self) -> bool:
        return self.process.poll() is not None and self.condition not in {Condition.KILLED, Condition.STOPPED}

    def last_lines(self, count: int) -> list[str]:
        return self.log.read_text(encoding="utf-8", errors="replace").splitlines()[-count:]


class Crew:
    """A context manager: every process that it started has ended when it is left."""

    def __init__(self, count: int, folder: Path, lease: float) -> None:
        self._count = count
        self._folder = folder
        self._lease = lease
        self.members: list[Member] = []

    def __enter__(self) -> Self:
        try:
            for index in range(self._count):
                self.members.append(self._start(chr(ord("A") + index)))
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(self, *unused: object) -> None:
        self._end()

    def by_pid(self, pid: int) -> Member | None:
        return next((member for member in self.members if member.pid == pid), None)

    def pause(self, member: Member) -> None:
        member.process.send_signal(signal.SIGSTOP)

    def go_on(self, member: Member) -> None:
        member.process.send_signal(signal.SIGCONT)

    def kill(self, member: Member) -> None:
        member.condition = Condition.KILLED
        member.process.kill()
        member.process.wait()

    async def drain(self, seconds: float) -> dict[str, int | None]:
        """Asks all to stop in order; their exit codes, None for one that did not stop in time."""
        for member in self.members:
            if member.condition is not Condition.KILLED:
                member.condition = Condition.STOPPED
                if member.process.poll() is None:
                    member.process.terminate()
        live = [member for member in self.members if member.condition is Condition.STOPPED]
        try:
            async with asyncio.timeout(seconds):
                await asyncio.gather(*(asyncio.to_thread(member.process.wait) for member in live))
        except TimeoutError:
            self._end()
            return {member.name: None for member in live}
        return {member.name: member.process.returncode for member in live}

    def _start(self, name: str) -> Member:
        log = self._folder / f"worker-{name}.log"
        arguments = ["worker", "holdfast.sample:app", "--concurrency", "1", "--lease", str(self._lease)]
        arguments += ["--stop-with-stdin"]
        # What the user has configured for real work is not the demo's business.
        environ = {name: value for name, value in os.environ.items() if not name.startswith("HOLDFAST_")}
        # A session of its own, so that Ctrl-C stops the demo, and not the workers behind its back.
        with log.open("wb") as stream:
            process = subprocess.Popen(
                command_line(arguments),
                stdin=subprocess.PIPE,
                stdout=stream,
                stderr=stream,
                cwd=self._folder,
                env=environ,
                start_new_session=True,
            )
        return Member(name, process, log)

    def _end(self) -> None:
        for member in self.members:
            if member.process.poll() is None:
                member.process.kill()
                member.process.wait()
