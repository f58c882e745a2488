"""An operator: `python -m holdfast.torture.programs.operator` cancels, replays, edits and deletes jobs.

At random, and now and then by the command line, as people do.
"""

from __future__ import annotations

import asyncio
import os
import random
import sys
from asyncio.subprocess import DEVNULL, PIPE
from collections.abc import Awaitable, Callable
from typing import Any, Final

import msgspec

from holdfast.engine.client import CancelAnswer
from holdfast.model.errors import HoldfastError, StoreError
from holdfast.model.job import Job
from holdfast.torture.history import Call, Done, Unknown, Verb
from holdfast.torture.programs.calling import opened, told
from holdfast.torture.programs.witness import recorder, seed, who
from holdfast.torture.programs.workload import app, fired

PAUSE: Final = 0.25
SEEN: Final = 30
COMMAND_EVERY: Final = 40
"""Of so many acts one is a command: each costs the start of an interpreter."""

ACTS: Final = {
    "cancel": (6, ("scheduled", "running", "retry")),
    "replay": (4, ("dlq",)),
    "edit": (6, ("scheduled", "retry", "dlq")),
    "delete": (1, ("success", "cancelled")),
}
"""How often, and to jobs in which states."""


async def operate() -> None:
    draw = random.Random(f"{seed()} {who()}")
    weights = [weight for weight, _ in ACTS.values()]
    number = 0
    while True:
        await asyncio.sleep(draw.uniform(0, 2 * PAUSE))
        [act] = draw.choices(list(ACTS), weights)
        try:
            job = await _some_job(act, draw)
            if job is None:
                continue
            number += 1
            if number % COMMAND_EVERY == 0 and act in {"cancel", "replay"}:
                await _command(act, job)
            else:
                await _DO[act](job)
        except StoreError:
            await asyncio.sleep(PAUSE)
        except HoldfastError:
            continue  # somebody else was faster; history has it


async def _some_job(act: str, draw: random.Random) -> Job[Any] | None:
    found = await app.find(state=draw.choice(ACTS[act][1]), limit=SEEN)
    # That a due time was fired must still be seen at the end.
    kept = [job for job in found if act != "delete" or job.task != fired.name]
    return draw.choice(kept) if kept else None


async def _cancel(job: Job[Any]) -> None:
    def answer(said: CancelAnswer, op: int) -> Done:
        return Done(op=op, job=job.id, verdict=said.value)

    await told(Call(verb="cancel", job=job.id, task=job.task), lambda: app.cancel(job.id), answer)


async def _replay(job: Job[Any]) -> None:
    call = Call(verb="replay", job=job.id, task=job.task)
    await told(call, lambda: app.replay(job.id), _changed)


async def _edit(job: Job[Any]) -> None:
    call = Call(verb="edit", job=job.id, task=job.task)
    await told(call, lambda: app.edit(job.id, version=job.version, priority=job.priority % 5 + 1), _changed)


async def _delete(job: Job[Any]) -> None:
    call = Call(verb="delete", job=job.id, task=job.task)
    await told(call, lambda: app.delete(job.id), lambda done, op: Done(op=op, job=job.id, verdict=str(done)))


def _changed(job: Job[Any], op: int) -> Done:
    return Done(op=op, job=job.id, version=job.version)


_DO: Final[dict[str, Callable[[Job[Any]], Awaitable[None]]]] = {
    "cancel": _cancel,
    "replay": _replay,
    "edit": _edit,
    "delete": _delete,
}


async def _command(act: str, job: Job[Any]) -> None:
    does: Verb = "cancel" if act == "cancel" else "replay"
    op = recorder().call(Call(verb="cli", does=does, job=job.id, task=job.task))
    command = [sys.executable, "-m", "holdfast", "jobs", does, "--json", job.id]
    # Without the library that fakes clocks: `sleeping` is not at hand there.
    environ = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}
    process = await asyncio.create_subprocess_exec(*command, stdin=DEVNULL, stdout=PIPE, env=environ)
    printed, _ = await process.communicate()
    if process.returncode == 0:
        recorder().write(Done(op=op, job=job.id, verdict=_verdict(does, printed)))
    else:
        # One line on standard error says why; it may have been done all the same.
        recorder().write(Unknown(op=op, error=f"exit {process.returncode}"))


def _verdict(does: str, printed: bytes) -> str:
    return msgspec.json.decode(printed)["cancelled"][0]["answer"] if does == "cancel" else "replayed"


if __name__ == "__main__":
    asyncio.run(opened(operate))
