"""Structured log lines: one event, one line, as key=value pairs or as JSON.

Parts log through the standard library: the message names the event, and facts ride along as
`extra={"fields": {"job": …}}`. Only the command line calls `configure`: in somebody else's program, logging
is theirs.
"""

from __future__ import annotations

import json
import logging
import re
import sys
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import TextIO, cast

from holdfast.model.masking import mask
from holdfast.model.redaction import Redactor, redact_names
from holdfast.model.secret import HIDDEN, Secret
from holdfast.model.settings import Settings

AUDIT = "holdfast.audit"
"""The logger of what people change."""

_STANDARD = frozenset(logging.makeLogRecord({}).__dict__) | {"message", "asctime", "taskName", "fields"}
_HEAD = ("time", "level", "logger", "event")
_FIRST = ("job", "task", "run", "token", "worker")
_SILENT = frozenset({"args", "kwargs", "payload", "result"})
_KEY = re.compile(r"[^A-Za-z0-9_.-]")
_BARE = re.compile(r"[^\s\"'=\\]+")
_ESCAPES = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r", "\t": "\\t"}


def log(logger: logging.Logger, level: int, event: str, **fields: object) -> None:
    """Logs an event with its facts. Costs one comparison when the level is off."""
    if logger.isEnabledFor(level):
        logger.log(level, "%s", event, extra={"fields": fields}, stacklevel=2)


def printable(text: str) -> str:
    """The text with everything escaped that could end a line, move a cursor, hide or reverse what follows."""
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else _escape(each) for each in text)


def _escape(character: str) -> str:
    code = ord(character)
    return _ESCAPES.get(character) or (f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}")


class _LineFormatter(logging.Formatter):
    """What both formats share: the facts of a record, in a steady order, without secrets."""

    def __init__(self, redactor: Redactor | None = None) -> None:
        super().__init__()
        self._redactor = redactor or Redactor()

    def facts(self, record: logging.LogRecord) -> Iterator[tuple[str, object]]:
        """Time, level, logger and event; then whose event it is; then the rest; then the traceback."""
        time = datetime.fromtimestamp(record.created, UTC)
        yield "time", time.isoformat(timespec="milliseconds").replace("+00:00", "Z")
        yield "level", record.levelname.lower()
        yield "logger", record.name
        yield "event", _message(record)
        fields = _fields(record)
        for name in _FIRST:
            if name in fields:
                value = fields.pop(name)
                # Of an attempt it is a number, and no secret.
                yield name, value if isinstance(value, int) else self._redacted(name, value)
        taken = {*_HEAD, *_FIRST, "traceback"}
        for given, value in fields.items():
            if given not in _SILENT:
                name = _KEY.sub("_", given)
                while name in taken:  # a fact that came with a payload must not pass for one of ours
                    name += "_"
                taken.add(name)
                yield name, self._redacted(given, value)
        if record.exc_info:
            yield "traceback", self.formatException(record.exc_info)
        elif record.exc_text:
            yield "traceback", record.exc_text

    def _redacted(self, name: str, value: object) -> object:
        """The value as it may be shown, by the names that hide arguments and results too."""
        if value is None or isinstance(value, bool):
            return value
        if isinstance(value, Secret) or self._redactor.hides(name):
            return HIDDEN
        if isinstance(value, dict | list | tuple):
            return self._redactor.redact(cast("object", value))
        return value


class LogfmtFormatter(_LineFormatter):
    """`time=… level=info logger=holdfast.worker event="worker started" worker=…`."""

    def format(self, record: logging.LogRecord) -> str:
        return " ".join(f"{name}={_logfmt(value)}" for name, value in self.facts(record) if value is not None)


class JsonFormatter(_LineFormatter):
    """The same facts as one JSON object, in ASCII."""

    def format(self, record: logging.LogRecord) -> str:
        return json.dumps({name: _jsonable(value) for name, value in self.facts(record)}, allow_nan=False)


def configure(settings: Settings, stream: TextIO | None = None) -> None:
    """Sends this process's log to a stream, standard error unless told, in the format of the settings.

    An application that has set up the root logger keeps what it has; then only the level of `holdfast.*` is
    set. The audit is written whatever that level is.
    """
    level = settings.log_level.upper()
    root = logging.getLogger()
    logging.getLogger("holdfast").setLevel(level)
    logging.getLogger(AUDIT).setLevel(logging.INFO)
    if root.handlers:
        return
    handler = logging.StreamHandler(stream or sys.stderr)
    redactor = Redactor(redact_names(settings.redact_names or ""))
    formatter = JsonFormatter if settings.log_format == "json" else LogfmtFormatter
    handler.setFormatter(formatter(redactor))
    root.addHandler(handler)
    root.setLevel(level)


def _message(record: logging.LogRecord) -> str:
    try:
        return record.getMessage()
    except (TypeError, ValueError):
        # A wrong placeholder in somebody's log call must not cost the line.
        return str(record.msg)


def _fields(record: logging.LogRecord) -> dict[str, object]:
    extra = {name: value for name, value in record.__dict__.items() if name not in _STANDARD}
    given = record.__dict__.get("fields")
    return {**extra, **given} if isinstance(given, Mapping) else extra


def _logfmt(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    text = mask(value if isinstance(value, str) else str(value))
    if _BARE.fullmatch(text) and text.isprintable():
        return text
    return '"' + printable(text.replace("\\", "\\\\").replace('"', '\\"')) + '"'


def _jsonable(value: object) -> object:
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, float) and value - value == 0:
        return value
    return mask(value if isinstance(value, str) else str(value))
