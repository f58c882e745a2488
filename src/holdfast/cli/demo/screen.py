"""The two ways to show the demo: a live picture on a terminal, plain lines everywhere else."""

from __future__ import annotations

import re
import time
from collections import deque
from types import TracebackType
from typing import Any, Self

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from holdfast.cli.demo.crew import Condition
from holdfast.cli.demo.story import Scene
from holdfast.cli.output import STATE_STYLES
from holdfast.model.job import Job
from holdfast.model.lifecycle import LEASED, State
from holdfast.telemetry.logs import printable

EVENT_LINES = range(3, 13)
LOG_LINES = 3
BORDERS_AND_JOBS = 10
# So that time, worker and progress fit on a line.
NOT_SHOWN = re.compile(r"\b(level|logger|job|task|run|token)=\S+ ")
CONDITION_STYLES = {
    Condition.WORKING: "green",
    Condition.KILLED: "bold red",
    Condition.FROZEN: "bold magenta",
    Condition.WOKEN: "yellow",
    Condition.STOPPED: "dim",
}
MARKS = {State.SUCCESS: "✔", State.SCHEDULED: "·", State.RETRY: "·", State.DLQ: "✘", State.FAILED: "✘"}


class PlainScreen:
    """One line for each thing that happens."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._begun = time.monotonic()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *unused: object) -> None:
        return None

    def tell(self, line: str, style: str = "") -> None:
        elapsed = time.monotonic() - self._begun
        self._console.print(Text(f"{elapsed:5.1f} s  {line}", style=style), soft_wrap=True)

    def draw(self, scene: Scene) -> None:
        """Lines say it all."""


class LiveScreen:
    """Who holds what, what just happened, and what the workers log, drawn anew as the store changes."""

    def __init__(self, console: Console) -> None:
        self._begun = time.monotonic()
        self._events: deque[Text] = deque(maxlen=EVENT_LINES[-1])
        self._console = console
        self._live = Live(console=console, auto_refresh=False)

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._live.stop()

    def tell(self, line: str, style: str = "") -> None:
        elapsed = time.monotonic() - self._begun
        self._events.append(Text(f"{elapsed:5.1f} s  {line}", style=style, no_wrap=True, overflow="ellipsis"))

    def draw(self, scene: Scene) -> None:
        taken = len(scene.crew.members) + LOG_LINES + BORDERS_AND_JOBS
        lines = max(EVENT_LINES[0], min(EVENT_LINES[-1], self._console.height - taken))
        panels = (
            _panel("workers: who holds what", _workers(scene)),
            _panel("jobs", _jobs(scene)),
            _panel("what happened", Group(*list(self._events)[-lines:]), lines),
            _panel("what the tasks log", _logs(scene), LOG_LINES),
        )
        self._live.update(Group(*panels), refresh=True)


def _panel(title: str, content: RenderableType, lines: int | None = None) -> Panel:
    return Panel(content, title=title, title_align="left", height=None if lines is None else lines + 2)


def _workers(scene: Scene) -> RenderableType:
    table = Table(box=None, pad_edge=False, show_header=False, expand=True)
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True)
    table.add_column(ratio=1)
    for member in scene.crew.members:
        held = scene.held_by(member)
        holds: RenderableType = Text("holds nothing", style="dim")
        if held:
            job = held[0]
            holds = Table.grid(padding=(0, 1))
            holds.add_row(
                Text(f"holds job {scene.numbers[job.id]}, run {job.run}"),
                ProgressBar(total=1.0, completed=job.progress or 0.0, width=20),
                Text(f"token …{job.token % 1_000_000:06d}", style="dim"),
            )
        table.add_row(
            f"worker {member.name}", Text(member.condition, style=CONDITION_STYLES[member.condition]), holds
        )
    return table


def _jobs(scene: Scene) -> RenderableType:
    line = Text()
    for job_id, number in scene.numbers.items():
        job = scene.jobs.get(job_id)
        if job is not None:
            line.append(f" {number}{_mark(scene, job)} ", style=STATE_STYLES[job.state])
    return line


def _mark(scene: Scene, job: Job[Any]) -> str:
    return f"▶{scene.name(job.worker)}" if job.state in LEASED else MARKS.get(job.state, "?")


def _logs(scene: Scene) -> RenderableType:
    lines: list[str] = []
    for member in scene.crew.members:
        lines += [line for line in member.last_lines(LOG_LINES * 2) if "logger=holdfast.task" in line]
    recent = [NOT_SHOWN.sub("", line) for line in sorted(lines)[-LOG_LINES:]]
    return Group(*(Text(printable(line), style="dim", no_wrap=True, overflow="ellipsis") for line in recent))
