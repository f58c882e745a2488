"""What a command raises to end with one line and an exit code."""

from __future__ import annotations

import click

DONE, FAILED, WRONG_USE, INTERRUPTED = 0, 1, 2, 130


class Failure(click.ClickException):
    """The command was understood, and could not be done."""

    exit_code = FAILED


class WrongUse(click.ClickException):
    """What was given on the command line does not fit."""

    exit_code = WRONG_USE


class Left(SystemExit):
    """A signal ended the command before there was work to cut short."""


class Cut(Exception):
    """A signal ended the command before its work was done."""

    def __init__(self, number: int) -> None:
        super().__init__(f"ended by signal {number}")
        self.code = 128 + number
