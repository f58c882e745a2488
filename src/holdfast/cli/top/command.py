"""`holdfast top`."""

from __future__ import annotations

import asyncio
import os
import signal
import sys

import click

from holdfast.app import Holdfast
from holdfast.cli.access import as_json, check_files, store_options
from holdfast.cli.errors import Cut, Failure, WrongUse
from holdfast.cli.recurrence import duration
from holdfast.cli.run import run
from holdfast.cli.top import plain
from holdfast.cli.top.watcher import Watcher
from holdfast.model.errors import ConfigurationError

LEAST, MOST = 0.2, 3600.0


@click.command()
@click.option(
    "--interval",
    type=duration,
    default="2",
    metavar="TIME",
    help="How often to look, such as 0.5 or 1m.  [2]",
)
@click.option("--once", is_flag=True, help="Print what there is as plain text, and end.")
@click.option(
    "--over",
    type=duration,
    default="0",
    metavar="TIME",
    help="With --once: look for so long, for rates.  [0]",
)
@click.option("--mouse", is_flag=True, help="Take the mouse; the terminal then selects no text.")
@as_json
@store_options
def top(
    store: str | None,
    namespace: str | None,
    interval: float,
    once: bool,
    over: float,
    mouse: bool,
    as_json: bool,
) -> None:
    """Watch queues, workers, jobs and schedules in the terminal, and steer them.

    Without --once it goes on until q is pressed; ? shows all keys. Rates come from what workers report about
    every 5 seconds, so --once tells none unless it may look for longer: --over 15.
    """
    if as_json and not once:
        raise WrongUse("--json needs --once.")
    if over and not once:
        raise WrongUse("--over needs --once.")
    if not LEAST <= interval <= MOST:
        raise WrongUse(f"--interval must be between {LEAST:g} and {MOST:g} seconds.")
    app = Holdfast(store, namespace=namespace)
    check_files(app)
    if once:
        run(_print_once(app, over, as_json))
    else:
        _check_terminal()
        run(_watch(app, interval, mouse))


async def _print_once(app: Holdfast, over: float, as_json: bool) -> None:
    watcher = Watcher(app, interval=1.0)
    async with watcher.opened():
        picture = await plain.observe(watcher, over)
    if picture.way.fault is not None:
        raise Failure(picture.way.fault)
    if as_json:
        plain.show_document(picture)
    else:
        plain.show(picture)


def _check_terminal() -> None:
    if not (sys.stdin.isatty() and sys.stdout.isatty()) or os.environ.get("TERM", "dumb") == "dumb":
        raise WrongUse("top needs a terminal; --once prints the same as plain text.")


async def _watch(app: Holdfast, interval: float, mouse: bool) -> None:
    try:
        from holdfast.cli.top.display import Display  # noqa: PLC0415  Textual is an extra
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] != "textual":
            raise
        raise ConfigurationError(
            "holdfast top needs the package textual: pip install 'holdfast[top]'; --once works without it"
        ) from None
    display = Display(Watcher(app, interval))
    received: list[int] = []

    def end(number: int) -> None:
        received.append(number)
        display.exit()

    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGHUP):
        loop.add_signal_handler(number, end, number)
    await display.run_async(mouse=mouse)
    if display.failure is not None:
        raise display.failure
    if received:
        raise Cut(received[0])
