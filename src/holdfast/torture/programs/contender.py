"""A lock contender: `python -m holdfast.torture.programs.contender` takes locks and writes what they protect.

What they protect is outside of the store and knows nothing but tokens: it refuses one that is older than the
newest it has seen. A contender that has lost its lock writes once more, as a frozen one would.
"""

from __future__ import annotations

import asyncio
import os
import random
from contextlib import suppress
from typing import Final

from holdfast.engine.lock_grant import Grant
from holdfast.model.errors import LockLost, LockTimeout, OutcomeUnknown, StoreError
from holdfast.torture.history import Call, Done, Failed, Fenced, Freed, Granted, Lost, Unknown
from holdfast.torture.programs.calling import opened
from holdfast.torture.programs.mix import LEASE
from holdfast.torture.programs.witness import RESOURCE, recorder, seed, who
from holdfast.torture.programs.workload import app
from holdfast.torture.resource import write_fenced

LOCKS: Final = ("north", "east", "south", "west")
AT_ONCE: Final = 2
WRITES: Final = range(1, 6)
PAUSE: Final = 0.3


async def contend(number: int) -> None:
    """Takes one lock after another, until the process ends."""
    draw = random.Random(f"{seed()} {who()} {number}")
    while True:
        with suppress(StoreError, TimeoutError):
            await _hold(draw.choice(LOCKS), draw)
        await asyncio.sleep(draw.uniform(0, 2 * PAUSE))


async def _hold(lock: str, draw: random.Random) -> None:
    op = recorder().call(Call(verb="lock", lock=lock))
    held: Grant | None = None
    try:
        async with app.lock(lock, ttl=LEASE, wait=2 * LEASE) as held:
            recorder().write(Done(op=op, token=held.token))
            recorder().write(Granted(lock=lock, token=held.token, op=op))
            for _ in range(draw.choice(WRITES)):
                await _write(lock, held.token)
                await asyncio.sleep(draw.uniform(0, 0.2))
    except LockLost as error:
        if held is None:  # it was granted, and lost before it could be entered
            recorder().write(Unknown(op=op, error=type(error).__name__))
            return
        recorder().write(Lost(lock=lock, token=held.token))
        await _write(lock, held.token)
    except LockTimeout as error:
        recorder().write(Failed(op=op, error=type(error).__name__))
    except StoreError as error:
        if held is None:
            ended = Unknown if isinstance(error, OutcomeUnknown) else Failed
            recorder().write(ended(op=op, error=type(error).__name__))
        raise
    else:
        recorder().write(Freed(lock=lock, token=held.token, held=not held.lost))


async def _write(lock: str, token: int) -> None:
    answer = await write_fenced(int(os.environ[RESOURCE]), lock, token)
    recorder().write(Fenced(lock=lock, token=token, accepted=answer.accepted, order=answer.order))


async def main() -> None:
    async with asyncio.TaskGroup() as group:
        for number in range(AT_ONCE):
            group.create_task(contend(number))


if __name__ == "__main__":
    asyncio.run(opened(main))
