"""One picture as plain text or as JSON, for scripts and logs."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from msgspec.structs import asdict as fields

from holdfast.cli.jobs import job_document
from holdfast.cli.output import console, say, show_json, show_table, when
from holdfast.cli.recurrence import document
from holdfast.cli.top import lines
from holdfast.cli.top.picture import Part, Picture
from holdfast.cli.top.tables import TABLES
from holdfast.cli.top.watcher import Watcher
from holdfast.model.plan import ScheduleInfo
from holdfast.model.pulse import Rates

SECTIONS = (Part.QUEUES, Part.WORKERS, Part.RUNNING, Part.DEAD, Part.SCHEDULES, Part.LOCKS)


async def observe(watcher: Watcher, over: float) -> Picture:
    """The picture after looking for so long, at once if that is 0. The application must be open."""
    watcher.wanted = frozenset(SECTIONS)
    picture = await watcher.look()
    loop = asyncio.get_running_loop()
    end = loop.time() + over
    while (left := end - loop.time()) > 0:
        await asyncio.sleep(min(1.0, left))
        picture = await watcher.look()
    return picture


def show(picture: Picture) -> None:
    """The whole as text, without anything that steers a terminal."""
    out = console()
    out.print(lines.head(picture), soft_wrap=True)
    say(f"at {when(picture.at)}")
    for line in (*lines.troubles(picture), *lines.totals(picture, spark=False)):
        out.print(line, soft_wrap=True)
    for part in SECTIONS:
        table = TABLES[part](picture)
        say("")
        say(part.value.upper(), "bold")
        titles = [column.title for column in table.columns]
        show_table(titles, (cells for _, cells in table.rows), nothing=table.nothing)


def show_document(picture: Picture) -> None:
    show_json(
        {
            "at": picture.at,
            "store": picture.store,
            "namespace": picture.namespace,
            "answered_seconds": picture.way.answered,
            "missing_partitions": picture.way.missing,
            "circuits": {name: asdict(report) for name, report in picture.way.circuits.items()},
            "leaders": picture.leaders,
            "counts": asdict(picture.counts),
            "oldest": picture.oldest,
            "rates": _rates(picture.pace.total) if picture.pace.known else None,
            "queues": [
                {**asdict(queue), "rates": _rates_of(picture, queue.name)} for queue in picture.queues
            ],
            "workers": picture.workers,
            "running": [job_document(job) for job in picture.running],
            "dead_letters": [job_document(job) for job in picture.dead],
            "schedules": [_schedule(each) for each in picture.schedules],
            "locks": picture.locks,
        }
    )


def _rates_of(picture: Picture, queue: str) -> Mapping[str, Any] | None:
    return _rates(picture.pace.by_queue.get(queue, Rates())) if picture.pace.known else None


def _rates(rates: Rates) -> dict[str, float | None]:
    return {
        "claimed": rates.claimed,
        "succeeded": rates.succeeded,
        "retried": rates.retried,
        "failed": rates.failed,
        "lateness_p50": rates.lateness_p50,
        "lateness_p99": rates.lateness_p99,
    }


def _schedule(info: ScheduleInfo) -> dict[str, object]:
    return {**fields(info), "recurrence": document(info.recurrence)}
