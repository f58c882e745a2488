"""`holdfast worker`: runs jobs until a signal says stop."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import click

from holdfast.app import Holdfast
from holdfast.cli.errors import DONE, Left
from holdfast.cli.load import load_app, load_strategy
from holdfast.cli.supervisor import Supervisor, command_line, stop_with_parent
from holdfast.cli.telling import Children, telling_of_all, telling_of_one
from holdfast.cli.tuning import tuned_runner
from holdfast.model.strategy import Strategy
from holdfast.telemetry import logs


@click.command()
@click.argument("app", metavar="MODULE:APP")
@click.option(
    "-q", "--queue", "queues", multiple=True, metavar="NAME", help="Serve this queue; may be repeated."
)
@click.option("-c", "--concurrency", type=int, metavar="N", help="Jobs to run at once.")
@click.option("--processes", type=click.IntRange(1, 1000), default=1, metavar="N", help="Worker processes.")
@click.option(
    "--lease", type=float, metavar="S", help="Seconds that a lease lasts; heartbeats scale with it."
)
@click.option(
    "--strategy",
    metavar="NAME",
    help="Which queue to serve first: rotating (default), strict, weighted, or your own as MODULE:NAME.",
)
@click.option("--drain", is_flag=True, help="End when nothing that is due is left.")
@click.option("--store", metavar="URL", help="Another store than the application's own.")
@click.option("--namespace", metavar="NAME", help="Another namespace than the application's own.")
@click.option("--health-port", type=int, metavar="N", help="Tell health and metrics over HTTP on this port.")
@click.option("--health-host", metavar="ADDRESS", help="Listen there; by default on this machine only.")
@click.option("--health-file", metavar="PATH", help="Write health into this file every second.")
@click.option("--health-socket", type=click.Path(path_type=Path), hidden=True)
@click.option("--stop-with-stdin", is_flag=True, hidden=True)
def worker(
    app: str,
    queues: tuple[str, ...],
    concurrency: int | None,
    processes: int,
    lease: float | None,
    strategy: str | None,
    drain: bool,
    store: str | None,
    namespace: str | None,
    health_port: int | None,
    health_host: str | None,
    health_file: str | None,
    health_socket: Path | None,
    stop_with_stdin: bool,
) -> int:
    """Run the jobs of an application.

    The first SIGTERM or Ctrl-C lets running jobs finish, the second cancels and releases them. The exit code
    is 0 when all ended well, 130 or 143 when a job had to be cut short.
    """
    with leaving_on_signals():
        application = load_app(app).configured(
            store=store,
            namespace=namespace,
            lease_seconds=lease,
            concurrency=concurrency,
            health_port=health_port,
            health_host=health_host,
            health_file=health_file,
        )
        chosen = None if strategy is None else load_strategy(strategy)
        logs.configure(application.settings)
        if processes > 1:
            options = {
                "--concurrency": concurrency,
                "--lease": lease,
                "--store": store,
                "--namespace": namespace,
                "--strategy": strategy,
            }
            command = command_line(["worker", app, *_options(queues, drain, options), "--stop-with-stdin"])
            with telling_of_all(application.settings, processes) as children:
                return asyncio.run(_supervise(command, processes, drain, children))
        if stop_with_stdin:
            stop_with_parent()
        with tuned_runner() as runner:
            return runner.run(
                _serve(application, queues, chosen, drain, health_socket, is_child=stop_with_stdin)
            )


@contextmanager
def leaving_on_signals() -> Generator[None]:
    """Until a command listens itself, there is nothing that a signal could cut short."""

    def leave(_number: int, _frame: object) -> None:
        raise Left(DONE)

    before = {number: signal.signal(number, leave) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


async def _serve(
    app: Holdfast,
    queues: tuple[str, ...],
    strategy: Strategy | None,
    drain: bool,
    socket: Path | None,
    *,
    is_child: bool,
) -> int:
    worker = app.worker(queues or None, strategy=strategy)
    if is_child and socket is None:
        return await worker.run(until_idle=drain)
    with telling_of_one(app, worker.health, socket):
        return await worker.run(until_idle=drain)


async def _supervise(command: Sequence[str], processes: int, drain: bool, children: Children | None) -> int:
    def own(index: int) -> list[str]:
        return [] if children is None else [f"--health-socket={children.place_of(index)}"]

    return await Supervisor(command, processes, until_idle=drain, own=own).run()


def _options(queues: tuple[str, ...], drain: bool, options: Mapping[str, object]) -> list[str]:
    """What was given to this process, for each of those that it starts."""
    given = [f"--queue={queue}" for queue in queues]
    given += [f"{name}={value}" for name, value in options.items() if value is not None]
    return [*given, "--drain"] if drain else given
