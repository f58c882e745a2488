"""What a program was told is stored: lines in a file that no store knows of."""

import os
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, NamedTuple

SETTING = "DURABILITY_ACKNOWLEDGED"
Word = Literal["stored", "claimed", "done"]


class Notebook:
    """Where a program writes each answer down, as soon as it has it."""

    def __init__(self) -> None:
        self._file = os.open(os.environ[SETTING], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)

    def note(self, word: Word, job: str, token: int = 0) -> None:
        os.write(self._file, f"{word} {job} {token} {time.monotonic_ns() // 1_000}\n".encode())


class Done(NamedTuple):
    """That an attempt was recorded as the job's success, and when that was told."""

    token: int
    at: int


@dataclass
class Acknowledged:
    """Jobs that were stored, and when that was told; tokens of claims and successes of each, in order.

    Instants are microseconds of the machine's monotonic clock. `until` is when the fault came.
    """

    stored: dict[str, int] = field(default_factory=dict[str, int])
    claims: dict[str, list[int]] = field(default_factory=dict[str, list[int]])
    done: dict[str, list[Done]] = field(default_factory=dict[str, list[Done]])
    token: int = 0
    until: int = 0

    @property
    def count(self) -> int:
        return len(self.stored) + len(self.done)

    def read(self, line: str) -> None:
        word, job, token, at = line.split()
        match word:
            case "stored":
                self.stored[job] = int(at)
            case "claimed":
                self.claims.setdefault(job, []).append(int(token))
            case _:
                self.done.setdefault(job, []).append(Done(int(token), int(at)))
        self.token = max(self.token, int(token))
        self.until = int(at)

    def tail(self, lost: Iterable[str], undone: Iterable[str]) -> float:
        """Milliseconds from the first acknowledgement that did not last to the fault."""
        stored = [self.stored[job] for job in lost if job in self.stored]
        done = [self.done[job][0].at for job in undone]
        return max([0.0, *((self.until - at) / 1_000 for at in (*stored, *done))])


def read_all(*paths: Path) -> Acknowledged:
    """Everything in the files, as it was told; a last line that is half written says nothing."""
    known = Acknowledged()
    texts = [path.read_text(encoding="ascii") for path in paths if path.exists()]
    lines = [line for text in texts for line in text[: text.rfind("\n") + 1].splitlines()]
    for line in sorted(lines, key=lambda line: int(line.rpartition(" ")[2])):
        known.read(line)
    return known
