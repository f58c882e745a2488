"""Limits at run time: set, read, removed; tasks and keys paused."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from msgspec.structs import replace

from holdfast.model.errors import ConfigurationError, StateConflict
from holdfast.model.flow import LimitRecord, Scope, gate
from holdfast.model.limits import Limit, LimitInfo, check_weight
from holdfast.model.names import check_name
from holdfast.model.task import Registry
from holdfast.model.timing import Seconds
from holdfast.store import FlowStore, Session

Target = tuple[Scope, str]

_TRIES = 100


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
        said = None
        if concurrency is not None or rate is not None:
            said = Limit(concurrency=concurrency, rate=rate, per=per, burst=burst).record(*target)
        share = None if weight is None else check_weight(weight)

        def change(known: LimitRecord) -> LimitRecord:
            limit = replace(known, declared=False) if said is None else said
            return replace(limit, paused=known.paused, weight=known.weight if share is None else share)

        await _change(self._session().flow, target, change)

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
        await _change(self._session().flow, target, lambda known: replace(known, paused=paused))


async def declare(flow: FlowStore, limits: Sequence[LimitRecord]) -> None:
    """Stores limits that are written in code, where they are news. What is paused stays so."""
    if not limits:
        return
    known = {(limit.scope, limit.name): limit for limit in await flow.limits()}
    for limit in limits:
        if _as_declared(limit, stands := known.get((limit.scope, limit.name))) != stands:
            await _change(flow, (limit.scope, limit.name), partial(_as_declared, limit))


def _as_declared(limit: LimitRecord, known: LimitRecord | None) -> LimitRecord:
    """What stands if the code says this. One that was set goes before it."""
    if known is None:
        return limit
    return replace(limit, paused=known.paused, paused_since=known.paused_since) if known.declared else known


async def _change(flow: FlowStore, target: Target, change: Callable[[LimitRecord], LimitRecord]) -> None:
    """Changes the limit that stands, by what it is at that moment: others may be changing it, too.

    Where there is none, it is one that says nothing yet and leaves to the code what it says. One that says
    nothing is not kept.
    """
    for _ in range(_TRIES):
        stands = next((each for each in await flow.limits() if (each.scope, each.name) == target), None)
        limit = change(stands or LimitRecord(scope=target[0], name=target[1], declared=True))
        wanted = limit if limit.holds_back or limit.weight != 1.0 else None
        # Also when it stands already: of several partitions, some may not have it yet.
        if wanted is stands is None or await flow.swap(stands, wanted):
            return
    raise StateConflict(f"the limit on {target[0]} {target[1]!r} is being changed all the time; try again")


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
