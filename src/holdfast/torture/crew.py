"""The processes of a campaign: started, struck, started again, and gone at the end whatever happens."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from time import monotonic, sleep
from types import TracebackType
from typing import Final, Self

from holdfast.torture.history import FOLDER, SUFFIX, Fault, Recorder
from holdfast.torture.programs import witness
from holdfast.torture.servers.process import leash

APP: Final = "holdfast.torture.programs.workload:app"
SLOTS: Final = 24
BATCH: Final = 100
"""What a worker holds when it is struck becomes suspect. Up to a batch of suspects may wait for others in a
worker without keeping the rest from their turn."""
PAUSE: Final = 0.3
"""Seconds until a process that has ended is started again."""


class Role(StrEnum):
    """What a process is there for."""

    WORKER = "worker"
    CONSUMER = "consumer"
    SCHEDULER = "scheduler"
    PRODUCER = "producer"
    CONTENDER = "contender"
    OPERATOR = "operator"


@dataclass(frozen=True, slots=True)
class Part:
    """What one member runs: `arguments` for the interpreter, and settings of its own."""

    role: Role
    index: int
    arguments: Sequence[str]
    environ: Mapping[str, str] = field(default_factory=dict[str, str])

    @property
    def name(self) -> str:
        return f"{self.role}-{self.index}"


class Member:
    """One place in the crew, filled by one process after another."""

    def __init__(self, part: Part) -> None:
        self.part = part
        self.incarnation = 0
        self.process: subprocess.Popen[bytes] | None = None
        self.is_over = False
        """Whether it is not started again."""
        self.was_struck = False
        """Whether its end is of our doing."""
        self.ended_at: float | None = None

    @property
    def role(self) -> Role:
        return self.part.role

    @property
    def who(self) -> str:
        return f"{self.part.name}-{self.incarnation}"

    @property
    def pid(self) -> int:
        return 0 if self.process is None else self.process.pid

    @property
    def is_running(self) -> bool:
        return self.process is not None and self.process.poll() is None

    @property
    def code(self) -> int | None:
        return None if self.process is None else self.process.returncode

    def send(self, number: signal.Signals, *, with_children: bool = False) -> None:
        if not self.is_running:
            return
        with suppress(ProcessLookupError):
            (os.killpg if with_children else os.kill)(self.pid, number)

    def end(self) -> None:
        """Ends it and whatever it started, at once."""
        with suppress(ProcessLookupError):
            if self.pid:
                os.killpg(self.pid, signal.SIGKILL)
        if self.process is not None:
            self.process.wait()


class Crew:
    """All members. `environ_of` gives what a member is told beside what all are told."""

    def __init__(
        self,
        out: Path,
        parts: Sequence[Part],
        environ: Mapping[str, str],
        environ_of: Callable[[str], Mapping[str, str]],
        recorder: Recorder,
    ) -> None:
        self._out = out
        self._environ = {
            # What the user has configured for real work is not the campaign's business.
            **{name: value for name, value in os.environ.items() if not name.startswith("HOLDFAST_")},
            **environ,
            witness.OUT: str(out),
            witness.PARENT: str(os.getpid()),
        }
        self._environ_of = environ_of
        self._recorder = recorder
        self.members = [Member(part) for part in parts]
        (out / "logs").mkdir(parents=True, exist_ok=True)

    def __enter__(self) -> Self:
        try:
            for member in self.members:
                self._start(member)
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end()

    def of(self, *roles: Role) -> list[Member]:
        """Members that run now, of these roles or of all."""
        return [each for each in self.members if each.is_running and (not roles or each.role in roles)]

    def is_at_work(self, member: Member) -> bool:
        """Whether it has done something, or said so, since it was started."""
        signs = (self._out / "logs" / f"{member.who}.log", self._out / FOLDER / f"{member.who}{SUFFIX}")
        return any(sign.exists() and sign.stat().st_size for sign in signs)

    def wait_until_at_work(self, seconds: float) -> None:
        """Waits until all are, at most so long."""
        end = monotonic() + seconds
        while not all(map(self.is_at_work, self.members)) and monotonic() < end:
            sleep(0.1)

    def tend(self) -> None:
        """Starts again what has ended, a little later; writes down what ended unasked."""
        for member in self.members:
            if member.is_over or member.is_running:
                continue
            if member.ended_at is None:
                member.ended_at = monotonic()
                self._note_end(member)
                # A producer that ends well has produced enough.
                member.is_over = member.role is Role.PRODUCER and member.code == 0
            elif monotonic() > member.ended_at + PAUSE:
                self._start(member)

    def retire(self, *roles: Role) -> None:
        """Asks members to end, for good."""
        for member in self.members:
            if member.role in roles:
                member.is_over = True
                member.was_struck = True
                member.send(signal.SIGTERM)

    def wait(self, seconds: float) -> None:
        """Waits until all have ended, at most so long."""
        end = monotonic() + seconds
        for member in self.members:
            with suppress(subprocess.TimeoutExpired):
                if member.process is not None:
                    member.process.wait(max(0.0, end - monotonic()))

    def _note_end(self, member: Member) -> None:
        if not member.was_struck and member.code != 0:
            facts: dict[str, bool | int | float | str | None] = {"code": member.code}
            self._recorder.write(Fault(name="ended unasked", target=member.who, phase="once", facts=facts))

    def _start(self, member: Member) -> None:
        member.incarnation += 1
        member.was_struck = False
        member.ended_at = None
        environ = {
            **self._environ,
            **self._environ_of(member.part.name),
            **member.part.environ,
            witness.WHO: member.who,
        }
        with (self._out / "logs" / f"{member.who}.log").open("ab") as log:
            # A session of its own, so that Ctrl-C stops the campaign, and not its members behind its back.
            member.process = subprocess.Popen(
                [*leash(), sys.executable, *member.part.arguments],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self._out,
                env=environ,
                start_new_session=True,
            )

    def _end(self) -> None:
        for member in self.members:
            member.end()


def parts_of(workers: int, consumers: int, schedulers: int, producers: int, contenders: int) -> list[Part]:
    """The parts of a campaign."""
    programs = "holdfast.torture.programs"
    worker = ["-m", "holdfast", "worker", APP, "--concurrency"]
    quiet = {
        "HOLDFAST_LEADER_CANDIDATE": "false",
        "HOLDFAST_EVENT_CONSUMER": "false",
        "HOLDFAST_BATCH": str(BATCH),
    }
    telling = {"HOLDFAST_LEADER_CANDIDATE": "false"}
    return [
        *(Part(Role.WORKER, each, [*worker, str(SLOTS)], quiet) for each in range(workers)),
        *(Part(Role.CONSUMER, each, [*worker, "1", "-q", "nothing"], telling) for each in range(consumers)),
        *(Part(Role.SCHEDULER, each, ["-m", "holdfast", "scheduler", APP]) for each in range(schedulers)),
        *(Part(Role.PRODUCER, each, ["-m", f"{programs}.producer", str(each)]) for each in range(producers)),
        *(Part(Role.CONTENDER, each, ["-m", f"{programs}.contender"]) for each in range(contenders)),
        Part(Role.OPERATOR, 0, ["-m", f"{programs}.operator"]),
    ]
