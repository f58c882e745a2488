"""`holdfast health`: asks a worker whether it is well, for probes that run a program."""

from __future__ import annotations

import http.client
import json
import time
from pathlib import Path

import click
import msgspec

from holdfast.cli.errors import DONE, FAILED
from holdfast.model.health import Health
from holdfast.telemetry.endpoint import LIVE, READY


@click.command()
@click.option("--port", type=int, metavar="N", help="Ask a worker that was started with --health-port N.")
@click.option("--host", default="127.0.0.1", metavar="ADDRESS", help="Where it listens.")
@click.option("--file", type=click.Path(path_type=Path), help="Read the --health-file of a worker.")
@click.option("--live", is_flag=True, help="Only whether it need not be restarted, not whether it claims.")
@click.option("--max-age", type=float, default=10.0, metavar="S", help="An older file says nothing.")
def health(port: int | None, host: str, file: Path | None, live: bool, max_age: float) -> int:
    """Ask a worker whether it is well. The exit code is 0 if it is, else 1; it prints the reason."""
    if (port is None) == (file is None):
        raise click.UsageError("give --port or --file")
    if file is not None:
        is_well, reasons = _read(file, live, max_age)
    else:
        assert port is not None
        is_well, reasons = _asked(host, port, live)
    click.echo("ok" if is_well else "; ".join(reasons))
    return DONE if is_well else FAILED


def _read(file: Path, live: bool, max_age: float) -> tuple[bool, list[str]]:
    try:
        age = time.time() - file.stat().st_mtime
        told = msgspec.json.decode(file.read_bytes(), type=Health)
    except OSError as error:
        return False, [f"{file}: {error.strerror}"]
    except msgspec.MsgspecError:
        return False, [f"{file}: this is no health file"]
    if age > max_age:
        return False, [f"{file} was last written {age:.0f} s ago"]
    return told.live if live else told.ready, list(told.reasons)


def _asked(host: str, port: int, live: bool) -> tuple[bool, list[str]]:
    connection = http.client.HTTPConnection(host, port, timeout=5)
    try:
        connection.request("GET", LIVE if live else READY)
        answer = connection.getresponse()
        told = json.loads(answer.read())
        return answer.status == http.client.OK, [str(each) for each in told["reasons"]]
    except (OSError, http.client.HTTPException, ValueError, KeyError, TypeError) as error:
        return False, [f"no answer from {host}:{port}: {error}"]
    finally:
        connection.close()
