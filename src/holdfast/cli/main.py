"""The `holdfast` command: its sub-commands, and what each kind of error becomes."""

from __future__ import annotations

import io
import os
import sys
import traceback
from collections.abc import Sequence
from typing import Any, NoReturn

import click

from holdfast import __version__
from holdfast.cli.azure import azure
from holdfast.cli.batches import batches
from holdfast.cli.bench import bench
from holdfast.cli.demo.command import demo
from holdfast.cli.dlq import dlq
from holdfast.cli.doctor import doctor
from holdfast.cli.enqueue import enqueue
from holdfast.cli.errors import DONE, FAILED, INTERRUPTED, WRONG_USE, Cut
from holdfast.cli.events import events
from holdfast.cli.health import health
from holdfast.cli.jobs import jobs, why
from holdfast.cli.keys import keys
from holdfast.cli.leader import leader
from holdfast.cli.limits import limits
from holdfast.cli.locks import locks
from holdfast.cli.migrate import migrate
from holdfast.cli.partitions import partitions
from holdfast.cli.queues import queues, stats, workers
from holdfast.cli.scheduler import scheduler
from holdfast.cli.schedules import schedules
from holdfast.cli.sequences import sequences
from holdfast.cli.top.command import top
from holdfast.cli.torture import torture
from holdfast.cli.web import token, web
from holdfast.cli.worker import worker
from holdfast.model.errors import (
    ConfigurationError,
    HoldfastError,
    InvalidEvent,
    InvalidJob,
    SchemaMismatch,
    UnknownTask,
)
from holdfast.model.masking import mask
from holdfast.telemetry.logs import printable

PROGRAM = "holdfast"
_WRONG_USE_ERRORS = (ConfigurationError, InvalidEvent, InvalidJob, SchemaMismatch, UnknownTask)


class Commands(click.Group):
    """A group whose every error is one line on standard error and an exit code."""

    def main(self, *args: Any, **extra: Any) -> NoReturn:
        extra["standalone_mode"] = False
        sys.exit(_answer(lambda: super(Commands, self).main(*args, **extra)))


def _answer(command: Any) -> int:
    try:
        code = command()
        sys.stdout.flush()
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.ctx.get_help())
        return DONE
    except click.UsageError as error:
        path = error.ctx.command_path if error.ctx else PROGRAM
        return _fail(f"{error.format_message()} Try '{path} --help'.", WRONG_USE)
    except click.ClickException as error:
        return _fail(error.format_message(), error.exit_code)
    except click.Abort:
        return INTERRUPTED
    except Cut as error:
        return error.code
    except HoldfastError as error:
        return _fail(str(error), WRONG_USE if isinstance(error, _WRONG_USE_ERRORS) else FAILED)
    except BrokenPipeError:
        # The reader has gone (`| head`). What is still to be written goes nowhere, and nobody complains.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILED
    except Exception:  # noqa: BLE001  a defect of ours: show all of it, but no password
        click.echo(mask(traceback.format_exc()), err=True)
        return _fail("this is a defect in Holdfast; the lines above say where", FAILED)
    return code if isinstance(code, int) else DONE


def _fail(message: str, code: int) -> int:
    click.echo(f"{PROGRAM}: {printable(mask(' '.join(message.split())))}", err=True)
    return code


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name=PROGRAM)
def cli() -> None:
    """Background jobs that survive crashes, on the database you already have."""


for command in (
    azure,
    batches,
    bench,
    demo,
    dlq,
    doctor,
    enqueue,
    events,
    health,
    jobs,
    keys,
    leader,
    limits,
    locks,
    migrate,
    partitions,
    queues,
    scheduler,
    schedules,
    sequences,
    stats,
    top,
    token,
    torture,
    web,
    why,
    worker,
    workers,
):
    cli.add_command(command)


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """The console script."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # A terminal that cannot show a character gets its escape, not an error.
            stream.reconfigure(errors="backslashreplace")
    cli.main(args=arguments, prog_name=PROGRAM)
