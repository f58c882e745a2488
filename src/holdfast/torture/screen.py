"""How a campaign is shown while it runs: a live picture on a terminal, a line now and then elsewhere."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from time import monotonic
from types import TracebackType
from typing import Final, Protocol, Self

from rich.console import Console, Group
from rich.live import Live
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from holdfast.model.overview import Stats

RECENT: Final = 8
LINE_EVERY: Final = 10.0


@dataclass(frozen=True, slots=True)
class Sight:
    """How the campaign stands."""

    phase: str
    seconds: float
    wanted: int
    stats: Stats

    @property
    def stored(self) -> int:
        return sum(self.stats.by_state.values())


class Screen(Protocol):
    """Where a campaign is shown."""

    def tell(self, line: str) -> None: ...

    def warn(self, line: str) -> None: ...

    def draw(self, sight: Sight) -> None: ...


class PlainScreen:
    """A line every few seconds, and what must not be missed."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._next = 0.0
        self._faults = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        return None

    def tell(self, line: str) -> None:
        self._faults += 1

    def warn(self, line: str) -> None:
        self._console.print(Text(line, style="yellow"), soft_wrap=True)

    def draw(self, sight: Sight) -> None:
        if monotonic() < self._next:
            return
        self._next = monotonic() + LINE_EVERY
        stats = sight.stats
        self._console.print(
            f"{sight.seconds:6.0f} s  {sight.phase}: {sight.stored:,} of {sight.wanted:,} jobs stored, "
            f"{stats.completed:,} done, {stats.queued:,} queued, {stats.in_progress:,} running, "
            f"{self._faults:,} faults",
            soft_wrap=True,
        )


class LiveScreen:
    """Progress, the states of jobs, and the latest faults, drawn anew again and again."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._recent: deque[Text] = deque(maxlen=RECENT)
        self._faults = 0
        self._begun = monotonic()
        self._live = Live(console=console, auto_refresh=False, transient=True)

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._live.stop()

    def tell(self, line: str) -> None:
        self._faults += 1
        self._recent.append(Text(f"{monotonic() - self._begun:6.1f} s  {line}", style="magenta"))

    def warn(self, line: str) -> None:
        self._console.print(Text(line, style="yellow"), soft_wrap=True)

    def draw(self, sight: Sight) -> None:
        stats = sight.stats
        bar = ProgressBar(total=sight.wanted, completed=min(stats.completed, sight.wanted), width=60)
        facts = Table.grid(padding=(0, 2))
        for name, count in (
            ("stored", sight.stored),
            ("done", stats.completed),
            ("queued", stats.queued),
            ("running", stats.in_progress),
            ("dead", stats.failed),
            ("cancelled", stats.cancelled),
            ("faults", self._faults),
        ):
            facts.add_row(name, f"{count:,}")
        title = f"{sight.phase}, {sight.seconds:.0f} s"
        faults = Panel(Group(*self._recent), title="faults", title_align="left", height=RECENT + 2)
        self._live.update(
            Group(Panel(Group(bar, facts), title=title, title_align="left"), faults), refresh=True
        )
