"""A program under load: `python -m tests.durability.program produce COUNT`, or `… work`, until SIGTERM.

It writes down what it was told is stored; see `tests.durability.acknowledged`.
"""

import asyncio
import random
import sys
from itertools import count

from holdfast import Context, Fixed, Holdfast, OutcomeUnknown
from holdfast.engine.ids import new_id
from holdfast.engine.notices import Notice
from holdfast.model.errors import StoreUnavailable
from holdfast.model.lifecycle import State
from holdfast.model.records import Verdict
from tests.durability.acknowledged import Notebook

PRODUCERS = 4
LARGEST = 9_000
"""Bytes of an argument, so that some jobs need pages of their own."""

app = Holdfast()


@app.task(retry=Fixed(max_retries=1, wait=0.01))
async def work(ctx: Context, text: str, fails: bool) -> str:
    if fails and ctx.job.failures == 0:
        raise ValueError("as asked")
    return text[::-1]


async def produce(jobs: int) -> None:
    """Adds so many jobs, each until the store has said that it has it."""
    notebook = Notebook()
    numbers = count()

    async def add() -> None:
        while next(numbers) < jobs:
            size = random.choice((10, 300, LARGEST))
            job = work.using(id=new_id()).call("x" * random.randrange(size), random.random() < 0.1)
            while True:
                try:
                    [added] = await app.enqueue_many([job])
                    break
                except (OutcomeUnknown, StoreUnavailable):
                    await asyncio.sleep(0.01)
            notebook.note("stored", added.id)
            await asyncio.sleep(random.uniform(0, 0.01))

    async with app:
        await asyncio.gather(*(add() for _ in range(PRODUCERS)))


async def work_on() -> None:
    notebook = Notebook()

    def hear(notice: Notice) -> None:
        if notice.kind == "claimed":
            record = notice.facts["record"]
            notebook.note("claimed", record.id, record.token)
        elif notice.kind == "settled" and notice.facts["verdict"] is Verdict.ACCEPTED:
            record = notice.facts["record"]
            if record.state is State.SUCCESS:
                notebook.note("done", record.id, record.token)

    app.notices.listen(hear)
    async with app:
        await app.worker(concurrency=8).run()


if __name__ == "__main__":
    asyncio.run(produce(int(sys.argv[2])) if sys.argv[1] == "produce" else work_on())
