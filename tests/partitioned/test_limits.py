"""Limits that are changed by several operators at once are the same in all partitions afterwards."""

import asyncio
import random

import pytest

from holdfast.engine.limits import Limits
from holdfast.model.flow import LimitRecord, same
from tests.partitioned.support import NAMES, Switch, made_of


class Slow(Switch):
    """A store whose calls take shorter or longer."""

    def __init__(self, chance: random.Random) -> None:
        super().__init__()
        self._chance = chance

    async def pass_through(self) -> None:
        for _ in range(self._chance.randrange(10)):
            await asyncio.sleep(0)


# In each of these, whoever came last elsewhere was not the last at home.
@pytest.mark.parametrize("seed", [23, 54, 98, 191, 343, 375, 477, 510])
async def test_a_limit_that_several_change_at_once_is_the_same_in_all_partitions(seed: int) -> None:
    chance = random.Random(seed)
    store = made_of({name: Slow(chance) for name in NAMES})

    async def change() -> None:
        session = await store.connect("n")
        limits = Limits(lambda: session)
        for _ in range(3):
            way = chance.randrange(5)
            if way == 0:
                await limits.remove(key="ann")
            elif way == 1:
                await limits.pause(key="ann")
            else:
                await limits.set(key="ann", concurrency=chance.randrange(1, 100))
        await session.close()

    await asyncio.gather(*(change() for _ in range(3)))
    parts = [await store.parts[name].connect("n") for name in NAMES]
    found: list[list[LimitRecord]] = [await part.flow.limits() for part in parts]
    assert {len(each) for each in found} in ({0}, {1})
    assert all(same(one, other) for one, other in zip(found[0] * 2, found[1] + found[2], strict=True))
    for part in parts:
        await part.close()
    await store.close()
