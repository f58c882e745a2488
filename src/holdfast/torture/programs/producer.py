"""A producer: `python -m holdfast.torture.programs.producer INDEX` enqueues and emits until it is enough.

Killed, it goes on where it was: it draws its numbers in blocks, and writes down which block it has begun.
Of a few keys all producers enqueue at about the same time.
"""

from __future__ import annotations

import asyncio
import random
import sys
from collections.abc import Coroutine, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, Final

from holdfast.engine.ids import new_id
from holdfast.model.errors import Conflict, StoreError
from holdfast.model.events import Event
from holdfast.model.job import Job
from holdfast.torture.history import Call, Done
from holdfast.torture.programs import rolling
from holdfast.torture.programs.calling import insisted, opened, told
from holdfast.torture.programs.mix import SHARED, Mix, Wanted
from holdfast.torture.programs.witness import jobs, out, recorder, seed
from holdfast.torture.programs.workload import TOPIC, app, short

BLOCK: Final = 100
SHARED_OF_BLOCK: Final = 3
MANY_OF_BLOCK: Final = 40
"""How many jobs of a block go in one call."""
MOST_WAITING: Final = 400
MOST_BEHIND: Final = 5_000
"""So many jobs that wait, or events that a group has before it, and producers rest."""
TRIES: Final = 40
ENOUGH: Final = "enough"
"""The file that says so, in the folder of the campaign."""


class Producer:
    """One producer from its first block to its last."""

    def __init__(self, index: int) -> None:
        self._series = f"p{index}"
        self._mix = Mix(seed(), jobs())
        self._begun = out() / f"{self._series}.blocks"
        self._draw = random.Random(f"{seed()} {self._series} {recorder().who}")

    async def run(self) -> None:
        while not (out() / ENOUGH).exists():
            if await _is_full():
                await asyncio.sleep(0.2)
                continue
            await self._produce(_next_block(self._begun))

    async def _produce(self, block: int) -> None:
        numbers = range(block * BLOCK, (block + 1) * BLOCK)
        wanted = [self._mix.job(self._series, number) for number in numbers]
        many, single = wanted[:MANY_OF_BLOCK], wanted[MANY_OF_BLOCK:]
        shared = range(block * SHARED_OF_BLOCK, (block + 1) * SHARED_OF_BLOCK)
        single += [self._mix.job(SHARED, number) for number in shared]
        calls: list[Coroutine[Any, Any, object]] = [_enqueue(each, self._tries()) for each in single]
        calls += [_enqueue_many(many), self._emit(block), rolling.emit(block), _conflict(self._series, block)]
        await asyncio.gather(*calls)

    def _tries(self) -> int:
        """A few callers give up when they do not know: then there is one job or none."""
        return 1 if self._draw.random() < 0.05 else TRIES

    async def _emit(self, block: int) -> None:
        event = Event(topic=TOPIC, type="made", data=block, aggregate=f"order-{block % 50}", id=new_id())
        call = Call(verb="emit", event=event.id, aggregate=event.aggregate)
        await insisted(call, lambda: app.emit(event), lambda _, op: Done(op=op), tries=TRIES)


async def _enqueue(wanted: Wanted, tries: int) -> None:
    """By key, or by an id of our own, so that a repeat is the same job."""
    job_id = None if wanted.key is not None else new_id()
    task = app.tasks[wanted.task].using(key=wanted.key, id=job_id)
    await insisted(
        Call(verb="enqueue", task=wanted.task, job=job_id, key=wanted.key),
        lambda: task.enqueue(*wanted.args),
        lambda made, op: Done(op=op, job=made.id),
        tries=tries,
    )


async def _enqueue_many(wanted: Sequence[Wanted]) -> None:
    ids = [new_id() for _ in wanted]
    pairs = zip(wanted, ids, strict=True)
    calls = [app.tasks[each.task].using(id=job_id).call(*each.args) for each, job_id in pairs]

    def answer(made: list[Job[Any]], op: int) -> Done:
        return Done(op=op, jobs=tuple(job.id for job in made))

    call = Call(verb="enqueue_many", jobs=tuple(ids))
    await insisted(call, lambda: app.enqueue_many(calls), answer, tries=TRIES)


async def _conflict(series: str, block: int) -> None:
    """Another job under a key that is taken: refused, whoever asks."""
    key = f"conflict-{series}-{block}"
    for number in (0, 1):
        with suppress(Conflict, StoreError):
            await told(
                Call(verb="enqueue", task="short", key=key),
                partial(short.using(key=key).enqueue, number, ""),
                lambda made, op: Done(op=op, job=made.id),
            )


async def _is_full() -> bool:
    try:
        if (await app.stats(exact=False)).queued > MOST_WAITING:
            return True
        return any(group.behind > MOST_BEHIND for group in await app.events.groups())
    except StoreError:
        return True


def _next_block(begun: Path) -> int:
    """The number of a block that was not begun before, by this process or one before it."""
    with begun.open("ab") as file:
        file.write(b".")
        file.flush()
        return file.tell() - 1


if __name__ == "__main__":
    asyncio.run(opened(Producer(int(sys.argv[1])).run))
