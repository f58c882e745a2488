"""What the processes wrote to their logs."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from holdfast.torture.checker.case import Case
from holdfast.torture.checker.violation import Violation

FOLDER = "logs"
PASSWORD = re.compile(r"\b[a-z][a-z0-9+.-]*://[^\s/@:'\"]*:(?!\*+@)[^\s/@'\"]+@")
TRACEBACK = "Traceback (most recent call last):"
UNHANDLED = re.compile(
    r"was never retrieved|was never awaited|Exception ignored in|Exception in thread|Fatal Python error"
    r"|Unclosed|unhandled exception"
)
FOREIGN = re.compile(r"ConnectionError\('unexpected connection_lost\(\) call'\)")
"""What asyncpg leaves behind when a connection is cut while it is opened, whatever its caller does."""
OWN = re.compile(r"^(?:[\w.]+\.)?Torture\w*(?::|$)")
"""What the campaign's own handlers raise on purpose."""
RAISED = re.compile(r"^[A-Za-z_][\w.]*(?:: |$)")


def logs_are_clean(case: Case) -> Iterator[Violation]:
    """I15: no log shows a secret or a password, and no exception went unhandled."""
    folder = None if case.out is None else case.out / FOLDER
    if folder is None or not folder.is_dir():
        return
    for path in sorted(folder.iterdir()):
        yield from _read_log(path, case.dump.canary)


def _read_log(path: Path, canary: str) -> Iterator[Violation]:
    traceback = 0
    with path.open(encoding="utf-8", errors="replace") as lines:
        for number, text in enumerate(lines, start=1):
            line = text.rstrip("\n")
            place = f"{FOLDER}/{path.name}:{number}"
            if canary and canary in line:
                yield Violation(f"a secret stands in a log, at {place}")
            if PASSWORD.search(line):
                yield Violation(f"an address with its password stands in a log, at {place}")
            if UNHANDLED.search(line) and not FOREIGN.search(line):
                yield Violation(f"an exception went unhandled, at {place}", (line[:300],))
            if TRACEBACK in line:
                traceback = number
            raised = _raised(line) if traceback else None
            if raised is not None:
                if not OWN.match(raised):
                    said = f"a traceback stands in a log, at {FOLDER}/{path.name}:{traceback}"
                    yield Violation(said, (raised[:300],))
                traceback = 0


def _raised(line: str) -> str | None:
    """The line of a traceback that names the exception; in a structured log it is one of many in a string."""
    return next((part for part in reversed(line.split("\\n")) if RAISED.match(part)), None)
