"""What a program was told is stored: lines in a file that no store knows of."""

import os
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

SETTING = "DURABILITY_ACKNOWLEDGED"
Word = Literal["stored", "claimed", "done"]


class Notebook:
    """Where a program writes each answer down, as soon as it has it."""

    def __init__(self) -> None:
        self._file = os.open(os.environ[SETTING], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)

    def note(self, word: Word, job: str, token: int = 0) -> None:
        os.write(self._file, f"{word} {job} {token} {time.monotonic_ns() // 1_000}\n".encode())


@dataclass
class Acknowledged:
    """Jobs that were stored, and when that was told; those that were done; the greatest token of a claim."""

    stored: dict[str, int] = field(default_factory=dict[str, int])
    done: dict[str, int] = field(default_factory=dict[str, int])
    token: int = 0
    last: int = 0

    def read(self, line: str) -> None:
        word, job, token, at = line.split()
        self.last = max(self.last, int(at))
        self.token = max(self.token, int(token))
        if word != "claimed":
            known = self.stored if word == "stored" else self.done
            known[job] = int(at)

    def tail(self, missing: Iterable[str]) -> float:
        """Milliseconds from the first acknowledgement that did not last to the last of all."""
        return max(((self.last - self.at(job)) / 1_000 for job in missing), default=0.0)

    def at(self, job: str) -> int:
        """When it was last told that this job is stored or done."""
        return max(self.stored.get(job, 0), self.done.get(job, 0))


def read_all(path: Path) -> Acknowledged:
    """Everything in the file; a last line that is half written says nothing."""
    known = Acknowledged()
    text = path.read_text(encoding="ascii")
    for line in text[: text.rfind("\n") + 1].splitlines():
        known.read(line)
    return known
