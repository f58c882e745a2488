"""The rows of each table: what they say, and how they are made to fit."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from rich.text import Text

from holdfast.cli.output import STATE_STYLES, cell
from holdfast.cli.recurrence import describe
from holdfast.cli.top.picture import Part, Picture
from holdfast.cli.top.words import number, rate, since, span, until
from holdfast.engine.leader import LEADER
from holdfast.model.job import Job
from holdfast.model.lifecycle import LEASED, WAITING
from holdfast.model.overview import QueueInfo, WorkerInfo
from holdfast.model.plan import ScheduleInfo
from holdfast.model.pulse import Rates

GAP = 2
_MARKS = {"paused": "yellow", "gone": "dim", "stuck": "bold red", "not claiming": "yellow", "full": "yellow"}


@dataclass(frozen=True, slots=True)
class Column:
    """A column. When there is no room, those with the highest `drop` go first; 0 stays.

    Then what is left is cut short, to `least` characters at most; one that is `whole` or that short.
    """

    title: str
    drop: int = 0
    right: bool = False
    least: int = 6
    whole: bool = False


@dataclass(frozen=True, slots=True)
class Table:
    """Columns, and rows by the key of what they are about; `nothing` is said when there are none."""

    part: Part
    columns: Sequence[Column]
    rows: Sequence[tuple[str, Sequence[Text]]]
    nothing: str


def _plain(value: object) -> Text:
    return cell(value, _MARKS.get(str(value), ""))


def _number(value: int, style: str = "") -> Text:
    return Text(number(value), style=style if value else "dim")


_QUEUES = (
    Column("queue", least=10),
    Column("is", drop=1),
    Column("queued", right=True),
    Column("oldest", drop=2, right=True),
    Column("running", right=True),
    Column("parked", drop=6, right=True),
    Column("scheduled", drop=5, right=True),
    Column("ok/s", drop=4, right=True),
    Column("bad/s", drop=7, right=True),
    Column("late p99", drop=8, right=True),
    Column("failed", drop=3, right=True),
    Column("paused", drop=9, right=True),
    Column("completed", drop=10, right=True),
)


def queues(picture: Picture) -> Table:
    def row(queue: QueueInfo) -> Sequence[Text]:
        counts, rates = queue.counts, picture.pace.by_queue.get(queue.name, Rates())
        return (
            _plain(queue.name),
            Text("paused", "yellow") if queue.paused else Text("open", "dim"),
            _number(counts.queued, "bold"),
            Text(span(queue.oldest)),
            _number(counts.in_progress, "blue"),
            _number(counts.parked),
            _number(counts.scheduled),
            Text(rate(rates.succeeded), "green" if rates.succeeded else "dim"),
            Text(rate(rates.failed + rates.retried), "red" if rates.failed + rates.retried else "dim"),
            Text(span(rates.lateness_p99)),
            _number(counts.failed, "red"),
            Text(since(queue.paused_since, picture.at)),
            _number(counts.completed),
        )

    rows = [(queue.name, row(queue)) for queue in sorted(picture.queues, key=_is_idle)]
    return Table(Part.QUEUES, _QUEUES, rows, "No queues yet.")


def _is_idle(queue: QueueInfo) -> tuple[bool, str]:
    return not (queue.counts.queued or queue.counts.in_progress or queue.paused), queue.name


_WORKERS = (
    Column("worker", least=14),
    Column("is"),
    Column("busy", right=True),
    Column("ok/s", drop=3, right=True),
    Column("longest", drop=2, right=True),
    Column("holds", drop=1, least=12),
    Column("queues", drop=4),
    Column("up", drop=5, right=True),
    Column("seen", drop=6, right=True),
    Column("version", drop=7),
)


def workers(picture: Picture) -> Table:
    def row(worker: WorkerInfo) -> Sequence[Text]:
        report, pace = worker.report, picture.pace.by_worker.get(worker.id, Rates())
        held = [f"{job.task}" for job in picture.held_by(worker.id)]
        return (
            _plain(worker.id),
            _plain(standing(worker)),
            Text(f"?/{worker.concurrency}" if report is None else f"{report.busy}/{report.slots}"),
            Text(rate(pace.succeeded), "green" if pace.succeeded else "dim"),
            Text(span(None if report is None else report.oldest_run)),
            _plain(_counted(held) or None),
            _plain(", ".join(worker.queues)),
            Text(since(worker.started, picture.at)),
            Text(since(worker.seen, picture.at)),
            _plain(worker.version or None),
        )

    found = sorted(picture.workers, key=lambda each: (not each.live, each.id))
    return Table(Part.WORKERS, _WORKERS, [(each.id, row(each)) for each in found], "No workers.")


def standing(worker: WorkerInfo) -> str:
    """A worker in a word or two."""
    if not worker.live:
        return "gone"
    if worker.report is None:
        return "live"
    if worker.report.stuck:
        return "stuck" if worker.report.stuck == worker.report.slots else f"{worker.report.stuck} stuck"
    if not worker.report.claiming:
        return "not claiming"
    return "full" if worker.report.is_full else "live"


def _counted(names: Sequence[str]) -> str:
    """`send ×3, scan`."""
    counts = {name: names.count(name) for name in dict.fromkeys(names)}
    return ", ".join(name if count == 1 else f"{name} ×{count}" for name, count in counts.items())


_JOBS = (
    Column("id", least=18, whole=True),
    Column("task", least=12),
    Column("state"),
    Column("when", drop=1, right=True),
    Column("run", drop=3, right=True),
    Column("queue", drop=2),
    Column("worker", drop=5, least=12),
    Column("about", drop=4, least=14),
)


def jobs(picture: Picture) -> Table:
    return _of_jobs(Part.JOBS, picture.jobs, picture.at, "No such jobs.")


def running(picture: Picture) -> Table:
    found = sorted(picture.running, key=lambda job: job.started or job.due)
    return _of_jobs(Part.RUNNING, found, picture.at, "Nothing runs.")


def _of_jobs(part: Part, found: Sequence[Job[Any]], now: datetime, nothing: str) -> Table:
    def row(job: Job[Any]) -> Sequence[Text]:
        return (
            cell(job.id),
            _plain(job.task),
            cell(job.state, STATE_STYLES.get(job.state, "")),
            Text(_when(job, now)),
            Text(str(job.run)),
            _plain(job.queue),
            _plain(job.worker),
            _plain(_about(job)),
        )

    return Table(part, _JOBS, [(job.id, row(job)) for job in found], nothing)


def _when(job: Job[Any], now: datetime) -> str:
    """How long it runs, since when it is done, or in how long it is due."""
    if job.state in LEASED:
        return since(job.started, now)
    if job.state in WAITING:
        return until(job.due, now) if job.due > now else f"waits {since(job.due, now)}"
    return f"{since(job.finished, now)} ago"


def _about(job: Job[Any]) -> str | None:
    if job.cancel_asked and job.state in LEASED:
        return "asked to stop"
    if job.progress is not None and job.state in LEASED:
        return f"{job.progress:.0%} {job.progress_note or ''}".strip()
    return f"held by {job.parked}" if job.parked and job.state in WAITING else job.reason


_DEAD = (
    Column("id", least=18, whole=True),
    Column("task", least=12),
    Column("reason", least=20),
    Column("since", drop=1, right=True),
    Column("runs", drop=3, right=True),
    Column("queue", drop=2),
    Column("error", drop=4, least=20),
)


def dead(picture: Picture) -> Table:
    def row(job: Job[Any]) -> Sequence[Text]:
        lines = (job.error or "").strip().splitlines()
        return (
            cell(job.id),
            _plain(job.task),
            _plain(job.reason),
            Text(since(job.finished, picture.at)),
            Text(str(job.run)),
            _plain(job.queue),
            _plain(lines[-1] if lines else None),
        )

    rows = [(job.id, row(job)) for job in picture.dead]
    return Table(Part.DEAD, _DEAD, rows, "The dead-letter queue is empty.")


_SCHEDULES = (
    Column("schedule", least=10),
    Column("is"),
    Column("next", right=True),
    Column("when", drop=1, least=10),
    Column("fires", drop=2, least=8),
    Column("queue", drop=4),
    Column("last", drop=3, right=True),
    Column("missed", drop=5, right=True),
    Column("skipped", drop=6, right=True),
    Column("partition", drop=7),
)


def schedules(picture: Picture) -> Table:
    def row(info: ScheduleInfo) -> Sequence[Text]:
        return (
            _plain(info.name),
            _plain(_standing(info)),
            Text(until(info.next_due, picture.at)),
            _plain(describe(info.recurrence)),
            _plain(info.task or f"event in {info.topic}"),
            _plain(info.queue),
            Text("-" if info.last_due is None else f"{since(info.last_due, picture.at)} ago"),
            _number(info.missed, "yellow"),
            _number(info.skipped, "yellow"),
            _plain(info.partition),
        )

    def soonest(info: ScheduleInfo) -> tuple[bool, float, str]:
        return (
            info.paused or info.next_due is None,
            info.next_due.timestamp() if info.next_due else 0,
            info.name,
        )

    rows = [(each.name, row(each)) for each in sorted(picture.schedules, key=soonest)]
    return Table(Part.SCHEDULES, _SCHEDULES, rows, "No schedules.")


def _standing(info: ScheduleInfo) -> str:
    if info.paused:
        return "paused"
    return "running" if info.running else "ended" if info.next_due is None else "active"


_LOCKS = (
    Column("lock", least=12),
    Column("owner", least=12),
    Column("left", right=True),
    Column("waiting", right=True),
    Column("token", drop=1, right=True),
    Column("partition", drop=2),
)


def locks(picture: Picture) -> Table:
    rows = [
        (
            f"{each.partition or ''}/{each.name}",
            (
                cell(each.name, "dim" if each.internal else ""),
                Text.assemble(cell(each.owner), " (leader)" if each.name == LEADER else ""),
                Text(span(each.left)),
                _number(each.waiters, "yellow"),
                cell(each.token),
                _plain(each.partition),
            ),
        )
        for each in picture.locks
    ]
    return Table(Part.LOCKS, _LOCKS, rows, "No lock is held.")


TABLES: dict[Part, Callable[[Picture], Table]] = {
    Part.QUEUES: queues,
    Part.WORKERS: workers,
    Part.JOBS: jobs,
    Part.RUNNING: running,
    Part.DEAD: dead,
    Part.SCHEDULES: schedules,
    Part.LOCKS: locks,
}
