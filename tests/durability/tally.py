"""What was found in many trials of one fault."""

from dataclasses import dataclass, field
from typing import NamedTuple

from tests.durability.acknowledged import Acknowledged
from tests.durability.aftermath import Aftermath


@dataclass
class Tally:
    """Acknowledgements of jobs and of completions, and those that did not last; the rest is about trials."""

    trials: int = 0
    acknowledged: int = 0
    missing: int = 0
    with_loss: int = 0
    tails: list[float] = field(default_factory=list[float])
    inconsistent: list[str] = field(default_factory=list[str])

    def count(self, known: Acknowledged, found: Aftermath, told: str) -> None:
        """Adds one trial; `told` is what leads to it again."""
        self.trials += 1
        self.acknowledged += known.count
        self.missing += len(found.missing)
        self.with_loss += bool(found.missing)
        self.tails.append(known.tail(found.lost, found.undone))
        if not found.is_consistent:
            self.inconsistent.append(f"{told}: {found}")

    @property
    def row(self) -> list[str]:
        """For a table: trials, acknowledged, missing, longest tail in milliseconds, inconsistent."""
        numbers = (self.trials, self.acknowledged, self.missing, round(max(self.tails, default=0)))
        return [f"{number:,}" for number in (*numbers, len(self.inconsistent))]


class Line(NamedTuple):
    """One line of the table. `keeps`: nothing acknowledged may be missing, or something must; or None."""

    setting: str
    fault: str
    tally: Tally
    keeps: bool | None

    @property
    def is_right(self) -> bool:
        """Whether the promise was kept, or, where there is none, the measurement saw what it should."""
        is_lossy = self.keeps is False
        if is_lossy != bool(self.tally.missing) and self.keeps is not None:
            return False
        return is_lossy or not self.tally.inconsistent
