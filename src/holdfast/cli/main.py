"""The `holdfast` command: its sub-commands, and what each kind of error becomes."""

from __future__ import annotations

import io
import os
import sys
import traceback
from collections.abc import Sequence
from importlib import import_module
from typing import Any, Final, NoReturn

import click

from holdfast import __version__
from holdfast.cli.errors import DONE, FAILED, INTERRUPTED, WRONG_USE, Cut
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

_MODULES: Final = {
    "azure": "azure",
    "batches": "batches",
    "bench": "bench",
    "demo": "demo.command",
    "dlq": "dlq",
    "doctor": "doctor",
    "enqueue": "enqueue",
    "events": "events",
    "health": "health",
    "jobs": "jobs",
    "keys": "keys",
    "leader": "leader",
    "limits": "limits",
    "locks": "locks",
    "migrate": "migrate",
    "partitions": "partitions",
    "queues": "queues",
    "scheduler": "scheduler",
    "schedules": "schedules",
    "sequences": "sequences",
    "stats": "queues",
    "token": "web",  # nosec B105
    "top": "top.command",
    "torture": "torture",
    "web": "web",
    "why": "jobs",
    "worker": "worker",
    "workers": "queues",
}
"""Where each sub-command is. A process loads the one that it is: all of them take as long as the rest."""


class Commands(click.Group):
    """A group whose every error is one line on standard error and an exit code."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(_MODULES)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _MODULES:
            return None
        command: click.Command = getattr(import_module(f"holdfast.cli.{_MODULES[cmd_name]}"), cmd_name)
        return command

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


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """The console script."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # A terminal that cannot show a character gets its escape, not an error.
            stream.reconfigure(errors="backslashreplace")
    cli.main(args=arguments, prog_name=PROGRAM)
