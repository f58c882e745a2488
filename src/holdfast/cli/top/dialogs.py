"""What is laid over the rest: a question, a line to type, and the help."""

from __future__ import annotations

from typing import ClassVar

from rich.console import Group
from rich.table import Table
from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical, VerticalScroll
from textual.screen import ModalScreen
from textual.widgets import Input, Static

from holdfast.cli.top.deeds import Deed
from holdfast.telemetry.logs import printable

HELP = (
    ("Views", ""),
    ("1 … 7", "overview, queues, jobs, workers, schedules, dlq, locks"),
    ("← →", "the view before or after"),
    ("tab", "the next table of the overview; shift+tab: the one before"),
    ("Rows", ""),
    ("↑ ↓  j k", "the row above or below; page up and down, g and G"),
    ("enter", "one job's page; the jobs of a queue or worker; a schedule's last job"),
    ("esc", "back"),
    ("Deeds, each after a question", ""),
    ("p", "pause or resume the queue or schedule"),
    ("c", "cancel the job; one that runs is asked to stop"),
    ("r", "replay the job; of schedules: fire now"),
    ("x", "discard the dead letter for good"),
    ("R  X", "replay or discard all dead letters of the same task and queue"),
    ("Jobs", ""),
    ("/", "find the start of an id; or queue:mail task:send tag:x worker:… and a state"),
    ("f", "the next state: all, waiting, in progress, retry, …"),
    ("< >", "the page before or after"),
    ("All", ""),
    ("u", "look at the store now"),
    ("ctrl+z", "back to the shell for a while"),
    ("q  ctrl+c", "leave"),
)
"""Every key and what it does; headings do nothing."""
NOTE = "Rates come from what workers report about every 5 seconds; lateness is that of the last minute."


def _help() -> Group:
    table = Table(box=None, pad_edge=False, show_header=False, expand=True)
    table.add_column(no_wrap=True, style="bold")
    table.add_column(overflow="fold", ratio=1)
    for key, what in HELP:
        table.add_row(f"  {key}" if what else Text(key, "underline"), what)
    return Group(table, Text(NOTE, "dim"))


class Question(ModalScreen[bool]):
    """Yes or no. What cannot be undone needs the letter; anything else is also done by Enter."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y", "answer(True)"),
        Binding("n,escape,q", "answer(False)"),
        Binding("enter", "accept"),
    ]

    def __init__(self, deed: Deed) -> None:
        super().__init__()
        self.deed = deed

    def compose(self) -> ComposeResult:
        keys = "y yes   n no" if self.deed.grave else "y or enter yes   n no"
        with Vertical(id="question"):
            yield Static(Text(printable(self.deed.question), "bold"))
            yield Static(Text(keys, "dim"))

    def action_answer(self, answer: bool) -> None:
        self.dismiss(answer)

    def action_accept(self) -> None:
        if not self.deed.grave:
            self.dismiss(True)


class Line(ModalScreen[str | None]):
    """One line of text; None if it was given up."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "give_up")]

    def __init__(self, label: str, value: str = "") -> None:
        super().__init__()
        self._label, self._value = label, value

    def compose(self) -> ComposeResult:
        with Vertical(id="line"):
            yield Static(Text(self._label, "dim"))
            yield Input(self._value, compact=True)

    def on_input_submitted(self, event: Input.Submitted) -> None:
        self.dismiss(event.value.strip())

    def action_give_up(self) -> None:
        self.dismiss(None)


class Help(ModalScreen[None]):
    """All keys."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q,question_mark,enter", "close"),
        Binding("j", "down", show=False),
        Binding("k", "up", show=False),
    ]

    def compose(self) -> ComposeResult:
        with VerticalScroll(id="help"):
            yield Static(_help())

    def action_close(self) -> None:
        self.dismiss(None)

    def action_down(self) -> None:
        self.query_one("#help").scroll_down(animate=False)

    def action_up(self) -> None:
        self.query_one("#help").scroll_up(animate=False)
