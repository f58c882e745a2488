"""What an operator can do with the row that is selected: the question first, then the deed."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from holdfast.app import Holdfast
from holdfast.cli.top.picture import Part, Picture
from holdfast.engine.client import CancelAnswer
from holdfast.model.job import Job
from holdfast.model.lifecycle import State

REPLAYED = frozenset({State.DLQ, State.FAILED})


@dataclass(frozen=True, slots=True)
class Deed:
    """What is asked before, and what is done after a yes; it gives the sentence that tells of it.

    `grave` is what cannot be undone.
    """

    question: str
    do: Callable[[Holdfast], Awaitable[str]]
    grave: bool = False


KEYS: dict[Part, dict[str, str]] = {
    Part.QUEUES: {"p": "pause/resume", "enter": "its jobs"},
    Part.WORKERS: {"enter": "its jobs"},
    Part.RUNNING: {"enter": "job", "c": "cancel"},
    Part.JOBS: {"enter": "job", "c": "cancel", "r": "replay", "f": "state", "<>": "page"},
    Part.DEAD: {"enter": "job", "r": "replay", "x": "discard", "R X": "all of its task"},
    Part.SCHEDULES: {"enter": "last job", "r": "run now", "p": "pause/resume"},
    Part.LOCKS: {},
}
"""What each table offers, as the line of keys says it."""


def offered(key: str, part: Part, row: str, picture: Picture) -> Deed | None:
    """What a key does to a row of that table; None if that is nothing."""
    match part, key:
        case Part.QUEUES, "p":
            return steer_queue(row, any(each.name == row and each.paused for each in picture.queues))
        case ((Part.RUNNING | Part.JOBS), "c"):
            return cancel(row)
        case ((Part.JOBS | Part.DEAD), "r"):
            return replay(row)
        case Part.DEAD, "x":
            return discard(row)
        case Part.DEAD, "R" | "X":
            job = next((each for each in picture.dead if each.id == row), None)
            return None if job is None else all_alike(job, discards=key == "X")
        case Part.SCHEDULES, "r":
            return run_schedule(row)
        case Part.SCHEDULES, "p":
            return steer_schedule(row, any(each.name == row and each.paused for each in picture.schedules))
        case _:
            return None


def of_job(key: str, job: Job[Any]) -> Deed | None:
    """What a key does to the job on its page."""
    if key == "c" and not job.is_finished:
        return cancel(job.id)
    if key == "r" and job.state in REPLAYED:
        return replay(job.id)
    return discard(job.id) if key == "x" and job.state is State.DLQ else None


def steer_queue(name: str, is_paused: bool) -> Deed:
    async def do(app: Holdfast) -> str:
        await (app.queues.resume(name) if is_paused else app.queues.pause(name))
        return f"Queue {name} is {'open' if is_paused else 'paused'}."

    if is_paused:
        return Deed(f"Resume queue {name}?", do)
    return Deed(f"Pause queue {name}? What runs goes on; nothing new is started.", do)


def cancel(job_id: str) -> Deed:
    async def do(app: Holdfast) -> str:
        match await app.cancel(job_id):
            case CancelAnswer.CANCELLED:
                return f"Job {job_id} is cancelled."
            case CancelAnswer.ASKED:
                return f"The worker of job {job_id} was asked to stop it."
            case CancelAnswer.FINISHED:
                return f"Job {job_id} had finished before."

    return Deed(f"Cancel job {job_id}?", do, grave=True)


def replay(job_id: str) -> Deed:
    async def do(app: Holdfast) -> str:
        job = await app.replay(job_id)
        return f"Job {job.id} goes back to work."

    return Deed(f"Replay job {job_id}, with all its attempts before it?", do)


def discard(job_id: str) -> Deed:
    async def do(app: Holdfast) -> str:
        done = await app.dlq.discard([job_id])
        return f"Job {job_id} is deleted." if done else f"Job {job_id} is no longer a dead letter."

    return Deed(f"Delete job {job_id} for good?", do, grave=True)


def all_alike(job: Job[Any], *, discards: bool) -> Deed:
    """Replays or discards all dead letters of the task and queue of one."""
    whose = f"of task {job.task} in queue {job.queue}"

    async def do(app: Holdfast) -> str:
        act = app.dlq.discard if discards else app.dlq.replay
        done = await act(task=job.task, queue=job.queue)
        return f"{done} jobs {whose} {'are deleted' if discards else 'go back to work'}."

    if discards:
        return Deed(f"Delete ALL dead letters {whose} for good?", do, grave=True)
    return Deed(f"Replay ALL dead letters {whose}?", do)


def run_schedule(name: str) -> Deed:
    async def do(app: Holdfast) -> str:
        return f"Schedule {name} has fired {await app.schedules.run(name)}."

    return Deed(f"Fire schedule {name} once more, now?", do)


def steer_schedule(name: str, is_paused: bool) -> Deed:
    async def do(app: Holdfast) -> str:
        info = await (app.schedules.resume(name) if is_paused else app.schedules.pause(name))
        return f"Schedule {info.name} is {'active' if is_paused else 'paused'}."

    return Deed(f"{'Resume' if is_paused else 'Pause'} schedule {name}?", do)
