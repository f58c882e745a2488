"""Everybody who works on a store or looks at it, one after the other: what goes wrong for them is told."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from functools import partial

import httpx
from click.testing import CliRunner

from holdfast import Event, every
from holdfast.cli.main import cli
from holdfast.engine.janitor import Janitor
from holdfast.model.errors import HoldfastError
from holdfast.model.lifecycle import State
from holdfast.web import Role
from holdfast.web.table import TABLE
from tests.hostile.shop import TOPIC, Shop
from tests.web.serving import bearer, make_web

PATIENCE = 20.0
MOST_JOBS = 200
COMMANDS = (("jobs", "list"), ("queues", "list"), ("workers",), ("stats",), ("events", "groups"), ("doctor",))

Call = Callable[[], Awaitable[object]]


def complaints(shop: Shop) -> list[str]:
    """What did not go on as it should; the order is that of the visits."""
    return [*asyncio.run(_visits(shop)), *_commands(shop)]


async def _visits(shop: Shop) -> list[str]:
    found = [each async for each in _works(shop)]
    async with shop.app:
        found += [each async for each in _reads(shop)]
        found += [each async for each in _pages(shop)]
    return found


async def _works(shop: Shop) -> AsyncIterator[str]:
    """Fresh work for a worker, which is scheduler, consumer and janitor as well."""
    app, work = shop.app, shop.tasks["work"]
    try:
        async with app:
            job = await work.enqueue(1)
            await app.schedules.put("fresh", every(3600), work.call(2))
            [event] = await app.emit(Event(topic=TOPIC, type="good", data={"n": 3}, aggregate="fresh"))
            async with app.worker(["work"]):
                fired = await app.schedules.run("fresh")
                wanted = {
                    "job": partial(_is_done, shop, job.id),
                    "firing": partial(_is_done, shop, fired),
                    "event": partial(_is_heard, shop, event),
                }
                for name, is_done in wanted.items():
                    if not await _comes_true(is_done):
                        yield f"worker: the fresh {name} was not dealt with"
    except Exception as error:  # noqa: BLE001  that is what is looked for
        yield f"worker: {_told(error)}"


async def _comes_true(is_done: Callable[[], Awaitable[bool]]) -> bool:
    try:
        async with asyncio.timeout(PATIENCE):
            while not await is_done():  # noqa: ASYNC110  a worker does it, in its own time
                await asyncio.sleep(0.02)
    except TimeoutError:
        return False
    return True


async def _is_done(shop: Shop, job_id: str) -> bool:
    job = await shop.app.get(job_id)
    return job is not None and job.state == "success"


async def _is_heard(shop: Shop, event: str) -> bool:
    return event in shop.heard


async def _reads(shop: Shop) -> AsyncIterator[str]:
    app = shop.app
    janitor = Janitor(app.client.session, "janitor", app.settings, app.notices)
    calls: dict[str, Call] = {
        "reclaim": janitor.reclaim,
        "expire": janitor.expire,
        "prune": janitor.prune,
        "prune_events": janitor.prune_events,
        "stats": app.stats,
        "queues": app.queues.list,
        "limits": app.limits.list,
        "workers": app.workers,
        "leader": app.leader,
        "locks": app.held_locks,
        "schedules": app.schedules.list,
        "groups": app.events.groups,
        "newest": app.events.newest,
        "events": app.events.list,
        "halted": app.sequences.halted,
        "batches": app.batches.opened,
        **{f"find {state}": partial(app.find, state=state) for state in State},
    }
    for job in await _found(shop):
        for one in (app.get, app.history, app.contents, app.explain):
            calls[f"{one.__name__} {job}"] = partial(one, job)
    for name, call in calls.items():
        try:
            async with asyncio.timeout(PATIENCE):
                await call()
        except HoldfastError as error:
            if not name.startswith("explain"):
                yield f"{name}: {_told(error)}"
        except Exception as error:  # noqa: BLE001
            yield f"{name}: {_told(error)}"


async def _found(shop: Shop) -> list[str]:
    return [job.id for job in await shop.app.find(limit=MOST_JOBS)]


async def _pages(shop: Shop) -> AsyncIterator[str]:
    web = make_web(shop.app)
    transport = httpx.ASGITransport(app=web, raise_app_exceptions=False)
    async with (
        web.lifespan(),
        httpx.AsyncClient(
            transport=transport, base_url="http://127.0.0.1", headers=bearer(Role.ADMIN)
        ) as client,
    ):
        for path in _paths(await _found(shop)):
            answer = await client.get(path)
            if answer.status_code >= 500:
                yield f"web {path}: {answer.status_code} {answer.text[:200]}"


def _paths(ids: list[str]) -> Iterator[str]:
    for route in TABLE.routes:
        if route.method == "GET" and not route.streams:
            if "{" not in route.path:
                yield route.path
            elif route.path == "/api/v1/jobs/{id}":
                yield from (route.path.replace("{id}", each) for each in ids)


def _commands(shop: Shop) -> Iterator[str]:
    for command in COMMANDS:
        result = CliRunner().invoke(cli, [*command, "--store", shop.app.settings.store])
        if result.exit_code != 0:
            yield f"cli {' '.join(command)}: {result.output[-300:]}"


def _told(error: BaseException) -> str:
    if isinstance(error, BaseExceptionGroup):
        return "; ".join(map(_told, error.exceptions))
    return f"{type(error).__name__}: {str(error)[:200]}"
