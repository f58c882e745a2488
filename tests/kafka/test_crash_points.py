"""A relay that is killed between any two of its calls loses nothing and puts nothing out of order."""

import asyncio
import signal
import sys
from itertools import count
from pathlib import Path

import pytest

from holdfast import Event, Holdfast
from holdfast.model.events import EventRecord
from tests.kafka.cluster import Cluster
from tests.kafka.relaying import relay
from tests.kafka.support import events_in

pytestmark = [pytest.mark.process, pytest.mark.timeout(180)]

FEWEST = 10
"""Lock, progress, reading and relaying alone are so many points."""


def namespace(point: int) -> str:
    return f"point-{point}"


async def emit(url: str, point: int) -> list[str]:
    async with Holdfast(url, namespace=namespace(point)) as app:
        return await app.emit(
            *(Event(topic="orders", type="placed", data=n, aggregate=f"{point}-{n % 2}") for n in range(4))
        )


async def is_killed(url: str, point: int, cluster: Cluster) -> bool:
    arguments = ("-m", "tests.kafka.relaying", url, namespace(point), cluster.servers, str(point))
    process = await asyncio.create_subprocess_exec(sys.executable, *arguments)
    code = await process.wait()
    assert code in (0, -signal.SIGKILL)
    return code != 0


def firsts(told: list[EventRecord]) -> dict[str | None, list[str]]:
    """The ids of each aggregate, by their first appearance."""
    found: dict[str | None, list[str]] = {}
    for event in told:
        line = found.setdefault(event.aggregate, [])
        if event.id not in line:
            line.append(event.id)
    return found


async def test_a_relay_killed_at_any_point_loses_nothing(tmp_path: Path, cluster: Cluster) -> None:
    url = f"sqlite:///{tmp_path}/jobs.db"
    emitted: dict[int, list[str]] = {}
    for point in count(1):
        emitted[point] = await emit(url, point)
        if not await is_killed(url, point, cluster):
            break
    assert len(emitted) > FEWEST
    await asyncio.gather(*(relay(url, namespace(point), cluster.servers, 0) for point in emitted))
    told = firsts(await asyncio.to_thread(events_in, cluster))
    for point, ids in emitted.items():
        assert told.pop(f"{point}-0") == ids[0::2]
        assert told.pop(f"{point}-1") == ids[1::2]
        async with Holdfast(url, namespace=namespace(point)) as app:
            [group] = await app.events.groups()
            assert (group.offset, group.behind, group.waiting) == (4, 0, [])
            assert [event.id for event in await app.events.list()] == ids
    assert told == {}
