"""What people write: settings, URLs, schedules, arguments on a command line."""

from __future__ import annotations

import tempfile
from itertools import islice
from pathlib import Path
from urllib.parse import unquote

import click
import msgspec

from fuzz.target import Targets, refusals, text_of
from holdfast import Event, Holdfast
from holdfast.cli.enqueue import parse_arguments
from holdfast.cli.recurrence import describe, duration, point_in_time
from holdfast.config import load
from holdfast.model import partition
from holdfast.model.cron import Cron, cron
from holdfast.model.cron_fields import parse_cron
from holdfast.model.encryption import parse_keys
from holdfast.model.masking import mask, mask_url
from holdfast.model.names import check_id, check_name, known_id
from holdfast.model.recurrence import upcoming
from holdfast.model.redaction import Redactor, redact_names, redact_text
from holdfast.stores import open_store
from holdfast.telemetry.logs import printable
from holdfast.web.access import parse_tokens

targets = Targets()
NOW = 1_800_000_000_000_000
MOST_DUE = 5


@targets.add("*/5 0-6 L 2 fri#2", "0 0 30 2 *", "@daily", "59 59 23 31 12 7", "0 0 29 2 mon")
def cron_expressions(data: bytes) -> None:
    text = text_of(data)
    with refusals():
        recurrence = cron(text, tz="Europe/Berlin")
        dues = list(islice(upcoming(recurrence, recurrence.next_after(NOW), 0), MOST_DUE))
        assert dues == sorted(set(dues)), dues
        assert dues, "an expression that never happens is refused"
        stored = msgspec.json.encode(recurrence)
        assert msgspec.json.decode(stored, type=Cron) == recurrence
        assert parse_cron(recurrence.expression) == parse_cron(text)
        describe(recurrence)


@targets.add("Europe/Berlin", "UTC", "../../etc/passwd", "Europe", "\0")
def time_zones(data: bytes) -> None:
    with refusals():
        cron("0 3 * * *", tz=text_of(data)).next_after(NOW)


@targets.add("90", "1h30m", "0.5s", "999999999999w", "2026-03-01T09:00:00Z", "2026-03-01T09:00:00+25:00")
def times(data: bytes) -> None:
    for parser in (duration, point_in_time):
        with refusals(click.ClickException):
            parser(text_of(data))


@targets.add(
    "memory://",
    "sqlite:///jobs.db?synchronous=full",
    "postgresql://user:secret@[::1]:5432/db?schema=holdfast&pool=4&sslmode=require",
    "redis+sentinel://:secret@one:1,two:2/service/0?prefix=x&timeout=3",
    "redis+cluster://host/0",
    "redis+unix:///run/redis.sock",
    "mssql+pytds://user:secret@host:1433/db?encrypt=on",
    "partition://?a=memory%3A%2F%2F&b=sqlite%3A%2F%2F%2Fb.db&home=a&queue.mail*=b&draining=b",
)
def store_urls(data: bytes) -> None:
    url = text_of(data)
    with refusals():
        open_store(url)
    mask_url(url)
    with refusals():
        found = partition.parse(url)
        assert partition.parse(partition.as_url(found)) == found
        partition.store_urls(url)


@targets.add("see postgresql://user:secret@host/db?password=secret", "a=1&token=secret", "%3A%2F%2Fa%3Ab%40c")
def masking(data: bytes) -> None:
    text = text_of(data)
    masked = mask(text)
    assert mask(masked) == masked, masked
    redact_text(text)
    assert printable(text).isprintable()
    Redactor(redact_names(text)).redact({text: text, "password": text})


@targets.add(
    'store = "memory://"\nlease_seconds = 10',
    '[partitions]\na = "memory://"\n[partitions.queues]\n"mail*" = "a"',
    "lease_seconds = " + "9" * 20,
    "a = " + "[" * 30 + "]" * 30,
)
def settings_files(data: bytes) -> None:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "holdfast.toml")
        file.write_bytes(data)
        with refusals():
            load(file=file, environ={})
        project = Path(folder, "pyproject.toml")
        project.write_bytes(b"[tool.holdfast]\n" + data)
        with refusals():
            load(file=project, environ={})


@targets.add("LEASE_SECONDS=10\0STORE=memory://", "LEASE_SECOND=1", "CONCURRENCY=1e99", "ENCRYPTION_KEYS=x")
def environments(data: bytes) -> None:
    pairs = (each.partition("=") for each in text_of(data).split("\0"))
    with refusals():
        load(environ={f"HOLDFAST_{name.upper()}": value for name, _, value in pairs if name != "CONFIG"})


@targets.add("hfk1_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8 plain # old", "plain", "hfk1_é")
def encryption_keys(data: bytes) -> None:
    with refusals():
        found = parse_keys(text_of(data))
        assert parse_keys(" ".join(key.to_text() for key in found.keys)).ids == found.ids


@targets.add("ada admin sha256:" + "0" * 64, "# a comment\nada read x")
def tokens(data: bytes) -> None:
    with refusals():
        parse_tokens(text_of(data), "tokens")


@targets.add('{"a": 1}', "[1, 2]", "[" * 100, '{"a": 1, "a": 2}', "1" * 50)
def command_line_arguments(data: bytes) -> None:
    with refusals(click.ClickException):
        args, kwargs = parse_arguments(text_of(data))
        APP.tasks["take"].call(*args, **kwargs)


@targets.add("mail", "a/b", "01a1ed8b-f043-71c4-bc59-814100ae4244", "{01a1ed8bf04371c4bc59814100ae4244}")
def names_and_cursors(data: bytes) -> None:
    text = text_of(data)
    with refusals():
        check_name(text, "queue")
        assert unquote(text) == text
    with refusals():
        found = check_id(text)
        assert check_id(found) == found == known_id(text)


@targets.add('{"n": 1}', "[1.5]", '"\\u0000"', "18446744073709551616")
def event_data(data: bytes) -> None:
    try:
        value = msgspec.json.decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        value = text_of(data)
    with refusals():
        stored = Event(topic="t", type="e", data=value, aggregate=text_of(data)[:9] or None).stored("id")
        assert msgspec.json.decode(stored.data) == value


APP = Holdfast("memory://")


@APP.task
async def take(a: int | str | list[float], b: dict[str, int] | None = None) -> None: ...
