"""Limits at run time: set, read, removed; tasks and keys paused."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from msgspec.structs import replace

from holdfast.model.errors import ConfigurationError
from holdfast.model.flow import LimitRecord, Scope, gate
from holdfast.model.limits import Limit, LimitInfo, check_weight
from holdfast.model.names import check_name
from holdfast.model.task import Registry
from holdfast.model.timing import Seconds
from holdfast.store import FlowStore, Session

Target = tuple[Scope, str]


class Limits:
    """The limits of a namespace. One that is set here goes before the one that is written in code.

    Each call is about one thing: a `queue`, a `task`, or a `key`; with `each_key=True`, about every key of
    the task's jobs by itself.
    """

    def __init__(self, session: Callable[[], Session], registry: Registry | None = None) -> None:
        self._session = session
        self._registry = Registry() if registry is None else registry

    def declare(self, limit: Limit, *, queue: str | None = None, key: str | None = None) -> None:
        """Writes a limit on a queue or a key in code, as `@app.task(limit=...)` does for a task.

        It is stored when a worker starts, unless another was set by hand.
        """
        self._registry.declare(limit.record(*_target(queue, None, key, each_key=False), declared=True))

    async def set(
        self,
        *,
        queue: str | None = None,
        task: str | None = None,
        key: str | None = None,
        each_key: bool = False,
        concurrency: int | None = None,
        rate: int | None = None,
        per: Seconds = 1.0,
        burst: int = 1,
        weight: float | None = None,
    ) -> None:
        """Sets a limit in the place of the one that stands; the pause and the weight stay if not given.

        A `weight` is a queue's share of workers with `Weighted()`, or a fair key's share of its queue.
        """
        target = _target(queue, task, key, each_key)
        if weight is not None and target[0] not in (Scope.QUEUE, Scope.KEY):
            raise ConfigurationError("only queues and keys have weights", setting="weight")
        if concurrency is None and rate is None and weight is None:
            raise ConfigurationError("give concurrency, rate or weight", setting="limit")
        known = await self._known(target)
        if concurrency is None and rate is None:
            limit = replace(known, declared=False)
        else:
            said = Limit(concurrency=concurrency, rate=rate, per=per, burst=burst).record(*target)
            limit = replace(said, paused=known.paused, weight=known.weight)
        if weight is not None:
            limit = replace(limit, weight=check_weight(weight))
        await self._session().flow.put([limit])

    async def remove(
        self,
        *,
        queue: str | None = None,
        task: str | None = None,
        key: str | None = None,
        each_key: bool = False,
    ) -> None:
        """Removes a limit, if there is one. What is written in code is set again when a worker starts."""
        await self._session().flow.remove(*_target(queue, task, key, each_key))

    async def pause(self, *, task: str | None = None, key: str | None = None) -> None:
        """Lets no job of a task, or of a key, begin. Those that are running go on.

        For queues there is `app.queues.pause`.
        """
        await self._set_paused(_target(None, task, key, each_key=False), paused=True)

    async def resume(self, *, task: str | None = None, key: str | None = None) -> None:
        await self._set_paused(_target(None, task, key, each_key=False), paused=False)

    async def list(self) -> list[LimitInfo]:
        """All limits, by what they apply to, with the jobs that run and wait under each."""
        flow = self._session().flow
        records = await flow.limits()
        counted = [record for record in records if record.scope is not Scope.EACH_KEY]
        usages = await flow.usage([gate(record.scope, record.name) for record in counted]) if counted else []
        found = {(record.scope, record.name): usage for record, usage in zip(counted, usages, strict=True)}
        infos: list[LimitInfo] = []
        for record in records:
            usage = found.get((record.scope, record.name))
            running, parked = (None, None) if usage is None else (usage.running, usage.parked)
            infos.append(LimitInfo.of(record, running, parked))
        return infos

    async def _set_paused(self, target: Target, *, paused: bool) -> None:
        limit = replace(await self._known(target), paused=paused)
        if not limit.holds_back and limit.weight == 1.0:
            await self._session().flow.remove(*target)
        else:
            await self._session().flow.put([limit])

    async def _known(self, target: Target) -> LimitRecord:
        """The limit that stands. One that says nothing yet leaves to the code what it says."""
        for limit in await self._session().flow.limits():
            if (limit.scope, limit.name) == target:
                return limit
        return LimitRecord(scope=target[0], name=target[1], declared=True)


async def declare(flow: FlowStore, limits: Sequence[LimitRecord]) -> None:
    """Stores limits that are written in code, where they are news. What is paused stays so."""
    if not limits:
        return
    known = {(limit.scope, limit.name): limit for limit in await flow.limits()}
    wanted = [_as_paused(limit, known.get((limit.scope, limit.name))) for limit in limits]
    news = [limit for limit in wanted if known.get((limit.scope, limit.name)) != limit]
    if news:
        await flow.put(news)


def _as_paused(limit: LimitRecord, known: LimitRecord | None) -> LimitRecord:
    if known is None:
        return limit
    return replace(limit, paused=known.paused, paused_since=known.paused_since)


def _target(queue: str | None, task: str | None, key: str | None, each_key: bool) -> Target:
    given = [
        (scope, check_name(name, scope.value))
        for scope, name in ((Scope.QUEUE, queue), (Scope.TASK, task), (Scope.KEY, key))
        if name is not None
    ]
    if len(given) != 1:
        raise ConfigurationError("give one of queue, task and key", setting="limit")
    scope, name = given[0]
    if not each_key:
        return scope, name
    if scope is not Scope.TASK:
        raise ConfigurationError("each_key needs a task", setting="limit")
    return Scope.EACH_KEY, name
