"""How answers are shown: tables for people, JSON for programs, colours and progress on a terminal only."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Protocol, TextIO

import msgspec
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from holdfast.model.masking import mask
from holdfast.telemetry.logs import printable

STATE_STYLES = {
    "scheduled": "cyan",
    "claimed": "blue",
    "running": "bold blue",
    "success": "green",
    "retry": "yellow",
    "failed": "red",
    "dlq": "bold red",
    "cancelled": "dim",
    "lost": "red",
    "superseded": "magenta",
    "released": "dim",
}


def console(stream: TextIO | None = None) -> Console:
    """A console on standard output or the given stream; wide and without colours unless it is a terminal."""
    target: TextIO = sys.stdout if stream is None else stream
    terminal = target.isatty()
    width = None if terminal else 10_000
    plain = not terminal or bool(os.environ.get("NO_COLOR"))
    return Console(
        file=target,
        width=width,
        force_terminal=terminal,
        color_system=None if plain else "auto",
        highlight=False,
        markup=False,
    )


def brief(value: object, longest: int = 500) -> str:
    """JSON on one line, cut if it is long."""
    text = msgspec.json.encode(value).decode()
    return text if len(text) <= longest else f"{text[: longest - 3]}..."


def say(line: str, style: str = "") -> None:
    console().print(cell(line, style), soft_wrap=True)


def warn(line: str) -> None:
    """One line on standard error that does not end the command; nothing in it is secret."""
    console(sys.stderr).print(cell(f"holdfast: {mask(line)}", "yellow"), soft_wrap=True)


def show_json(document: object) -> None:
    """One JSON document on standard output, in ASCII, so that nothing in it can steer a terminal."""
    sys.stdout.write(json.dumps(msgspec.to_builtins(document), indent=2) + "\n")


def cell(value: object, style: str = "") -> Text:
    """A value as one line of plain text; nothing in it is read as markup or as an order to the terminal."""
    if value is None:
        return Text("-", style="dim")
    text = when(value) if isinstance(value, datetime) else printable(str(value))
    return Text(text, style=style or STATE_STYLES.get(text, ""))


def when(moment: datetime) -> str:
    return moment.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%SZ")


def show_table(columns: Sequence[str], rows: Iterable[Sequence[object]], *, nothing: str) -> None:
    """A table; `nothing` is said instead when there are no rows."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in columns:
        table.add_column(column, no_wrap=column == "id", overflow="fold")
    for row in rows:
        table.add_row(*(cell(value) for value in row))
    if table.row_count:
        console().print(table)
    else:
        say(nothing, "dim")


def show_facts(facts: Mapping[str, object]) -> None:
    """Names and values, one pair a line."""
    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in facts.items():
        table.add_row(name, cell(value))
    console().print(table)


class Advance(Protocol):
    """Tells the progress bar that some more is done."""

    def __call__(self, amount: int = 1) -> None: ...


@contextmanager
def progress(what: str, total: int | None) -> Generator[Advance]:
    """A progress bar on standard error; nothing at all when that is not a terminal."""
    if not sys.stderr.isatty():
        yield lambda amount=1: None
        return
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console(sys.stderr), transient=True) as bar:
        task = bar.add_task(what, total=total)
        yield lambda amount=1: bar.advance(task, amount)
