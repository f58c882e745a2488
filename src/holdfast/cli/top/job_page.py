"""One job's page: where it stands and why, every attempt, and the error in full."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import datetime
from typing import Any, ClassVar

from rich.console import Group
from rich.table import Table
from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.screen import Screen
from textual.widgets import Static

from holdfast.app import Holdfast
from holdfast.cli.jobs import job_facts
from holdfast.cli.output import cell
from holdfast.cli.top import deeds
from holdfast.cli.top.watcher import PATIENCE, Watcher
from holdfast.cli.top.words import span
from holdfast.cli.waiting import flow_of
from holdfast.model.errors import HoldfastError
from holdfast.model.explanation import Explanation
from holdfast.model.job import Attempt, Job


@dataclass(frozen=True, slots=True)
class Told:
    """A job with all that is told of it."""

    job: Job[Any]
    history: list[Attempt]
    explanation: Explanation
    facts: dict[str, object]


async def ask(app: Holdfast, job_id: str) -> Told | None:
    """All about a job; None if it is not there."""
    with app.partitions.tolerating():
        job = await app.get(job_id)
        if job is None:
            return None
        partition = await app.partitions.of_job(job_id)
        facts = {**job_facts(job), **await flow_of(app, job_id), "partition": partition}
        return Told(job, await app.history(job_id), await app.explain(job_id), facts)


def render(told: Told) -> Group:
    """The page as text, with nothing in it that steers a terminal."""
    facts = Table(box=None, pad_edge=False, show_header=False, expand=True)
    for _ in range(2):
        facts.add_column(style="bold", no_wrap=True)
        facts.add_column(overflow="fold", ratio=1)
    shown = [
        (name, cell(value))
        for name, value in told.facts.items()
        if value not in (None, "", 0, False) and name not in {"id", "reason"}
    ]
    half = -(-len(shown) // 2)
    for place in range(half):
        other = shown[half + place] if half + place < len(shown) else ("", Text())
        facts.add_row(*shown[place], *other)
    parts: list[Table | Text] = [
        cell(told.explanation.sentence, "bold"),
        Text(),
        facts,
        Text(),
        _attempts(told),
    ]
    if told.job.error:
        parts += [Text(), *(cell(line, "dim") for line in told.job.error.splitlines())]
    return Group(*parts)


def _attempts(told: Told) -> Table | Text:
    if not told.history:
        return Text("No attempt has ended yet.", "dim")
    table = Table(box=None, pad_edge=False, header_style="bold", expand=True)
    for title in ("run", "outcome", "started", "ran", "worker", "token", "reason"):
        table.add_column(title, overflow="fold", no_wrap=title not in {"worker", "reason"})
    for each in told.history:
        ran = None if each.started is None else span((each.finished - each.started).total_seconds())
        started: datetime = each.started or each.finished
        table.add_row(
            *map(cell, (each.run, each.outcome, started, ran, each.worker, each.token, each.reason))
        )
    return table


class JobPage(Screen[None]):
    """Follows one job until it is left."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,backspace", "leave"),
        Binding("j", "scroll('down')", show=False),
        Binding("k", "scroll('up')", show=False),
    ]

    def __init__(self, watcher: Watcher, job_id: str) -> None:
        super().__init__()
        self.job_id = job_id
        self.told: Told | None = None
        self._watcher = watcher
        self._asking = asyncio.Lock()

    def compose(self) -> ComposeResult:
        yield Static(Text.assemble("job ", (self.job_id, "bold")), id="page-head")
        with VerticalScroll(id="page"):
            yield Static(Text("asking the store …", "dim"), id="page-text")
        yield Static(id="message")
        yield Static(Text("esc back   c cancel   r replay   x discard   ? help   q quit", "dim"), id="keys")

    def on_mount(self) -> None:
        self.query_one("#page").focus()
        self.set_interval(self._watcher.interval, self.look)
        self.look()

    def look(self) -> None:
        """Asks for the job again, unless an answer is still awaited."""
        if not self._asking.locked():
            self.run_worker(self._look())

    async def _look(self) -> None:
        head = self.query_one("#page-head", Static)
        name = Text.assemble("job ", (self.job_id, "bold"))
        async with self._asking:
            try:
                async with asyncio.timeout(PATIENCE):
                    self.told = await ask(self._watcher.app, self.job_id)
            except (HoldfastError, TimeoutError) as error:
                why = str(error) or "no answer"
                head.update(Text.assemble(name, "  ", cell(f"store away: {why}", "bold red")))
                return
        head.update(name)
        text = self.query_one("#page-text", Static)
        if self.told is None:
            text.update(Text("No such job is stored: it was deleted, or retention removed it."))
        else:
            text.update(render(self.told))

    def action_leave(self) -> None:
        self.dismiss(None)

    def action_scroll(self, where: str) -> None:
        page = self.query_one("#page")
        (page.scroll_down if where == "down" else page.scroll_up)(animate=False)

    def offered(self, key: str) -> deeds.Deed | None:
        """What a key does to the job, as it stands."""
        return None if self.told is None else deeds.of_job(key, self.told.job)
