"""What a child process logs: told to its worker, and written there like the worker's own lines."""

from __future__ import annotations

import logging
import math
import os
from collections.abc import Callable, Mapping
from typing import TypeAlias, cast

from holdfast.engine.frames import Logged

Plain: TypeAlias = bool | int | float | str | None

LOGGERS = ("", "holdfast")
_LONGEST = 16_384
_STANDARD = frozenset(logging.makeLogRecord({}).__dict__) | {"message", "asctime", "fields"}
_formatter = logging.Formatter()


def levels() -> dict[str, int]:
    """From which level on this process wants to hear of what."""
    return {name: logging.getLogger(name or None).level for name in LOGGERS}


def heed(wanted: Mapping[str, int]) -> None:
    """Logs from the levels that the worker has."""
    for name, level in wanted.items():
        logger = logging.getLogger(name or None)
        if logger.level != level:
            logger.setLevel(level)


class Echo(logging.Handler):
    """Tells the worker of each record."""

    def __init__(self, say: Callable[[Logged], None]) -> None:
        super().__init__()
        self._say = say
        self._process = os.getpid()

    def emit(self, record: logging.LogRecord) -> None:
        if os.getpid() != self._process:
            # A fork of the handler: the pipe is not its own.
            if logging.lastResort is not None:
                logging.lastResort.handle(record)
            return
        try:
            self._say(_told(record))
        except Exception:  # noqa: BLE001  what handlers of logs do with their errors
            self.handleError(record)


def write(told: Logged, pid: int) -> None:
    """Logs in this process what a child told."""
    logger = logging.getLogger(told.name)
    if logger.isEnabledFor(told.level):
        facts: dict[str, object] = {
            **told.extra,
            "name": told.name,
            "msg": told.message,
            "args": None,
            "levelno": told.level,
            "levelname": logging.getLevelName(told.level),
            "created": told.created,
            "process": pid,
            "exc_text": told.error,
            "fields": told.fields,
        }
        logger.handle(logging.makeLogRecord(facts))


def _told(record: logging.LogRecord) -> Logged:
    given: object = record.__dict__.get("fields")
    fields: Mapping[str, object] = cast("Mapping[str, object]", given) if isinstance(given, Mapping) else {}
    return Logged(
        name=record.name,
        level=record.levelno,
        message=_text(record.getMessage()),
        created=record.created,
        fields=_plain(fields),
        extra=_plain({name: value for name, value in record.__dict__.items() if name not in _STANDARD}),
        error=_text(_formatter.formatException(record.exc_info)) if record.exc_info else None,
    )


def _plain(facts: Mapping[str, object]) -> dict[str, Plain]:
    return {_text(str(name)): _value(value) for name, value in facts.items()}


def _value(value: object) -> Plain:
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int) and -(2**63) <= value < 2**63:
        return int(value)
    if isinstance(value, float) and math.isfinite(value):
        return float(value)
    return _text(str(value))


def _text(text: str) -> str:
    """The text as the pipe can carry it: Unicode, and not endless."""
    return text[:_LONGEST].encode(errors="backslashreplace").decode()
