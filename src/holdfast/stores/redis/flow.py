"""What holds jobs back beside their due time: limits, sequences, other jobs."""

from collections.abc import Sequence
from struct import Struct
from typing import Final

import msgspec
from msgspec.structs import replace

from holdfast.model.flow import Awaited, LimitRecord, Scope, Usage, gate, target
from holdfast.model.lifecycle import State
from holdfast.stores.bell import Bell
from holdfast.stores.redis.database import Database
from holdfast.stores.redis.records import EXACT, state_of, text

LAYOUT: Final = 2
"""The form in which a namespace is stored from its first limit on. One that has a newer one is left alone."""

_LIMIT = Struct(">qqqBd")
"""Concurrency or -1, interval or 0, burst, bits, weight; then the limit itself."""

_IS_PAUSED, _IS_DECLARED = 1, 2
_FURTHEST = 2**52

_encode = msgspec.msgpack.encode
_decode = msgspec.msgpack.Decoder(LimitRecord).decode


class RedisFlow:
    """Limits, sequences and links of one namespace."""

    def __init__(self, database: Database, bell: Bell) -> None:
        self._database = database
        self._bell = bell

    async def put(self, limits: Sequence[LimitRecord]) -> None:
        if not limits:
            return
        told: list[object] = []
        for limit in limits:
            told += (gate(limit.scope, limit.name), int(limit.holds_back), _value(limit))
        wake = self._bell.strike()
        await self._database.run("flow_put", wake or b"", LAYOUT, *told)
        self._bell.struck(wake)

    async def swap(self, known: LimitRecord | None, limit: LimitRecord | None) -> bool:
        told = (b"", b"") if limit is None else (int(limit.holds_back), _value(limit))
        before = b"" if known is None else _value(known)
        wake = self._bell.strike()
        is_put: int = await self._database.run(
            "flow_swap", wake or b"", LAYOUT, gate(*target(known, limit)), before, *told
        )
        self._bell.struck(wake)
        return is_put == 1

    async def remove(self, scope: Scope, name: str) -> None:
        wake = self._bell.strike()
        await self._database.run("flow_remove", wake or b"", gate(scope, name))
        self._bell.struck(wake)

    async def limits(self) -> list[LimitRecord]:
        told, paused = await self._database.run("flow_limits", writes=False)
        since = {
            text(field): int(when)
            for field, when in zip(paused[::2], paused[1::2], strict=True)
            if when.isdigit()
        }
        limits = [limit for values in told for limit in map(_read, values) if limit is not None]
        found = [replace(each, paused_since=since.get(gate(each.scope, each.name))) for each in limits]
        return sorted(found, key=lambda limit: (limit.scope, limit.name))

    async def usage(self, gates: Sequence[str]) -> list[Usage]:
        if not gates:
            return []
        told = await self._database.run("flow_usage", *gates, writes=False)
        return [
            Usage(running=running, parked=parked)
            for running, parked in zip(told[::2], told[1::2], strict=True)
        ]

    async def awaited(self, job_id: str) -> Awaited | None:
        told = await self._database.run("flow_awaited", job_id, writes=False)
        if told is None:
            return None
        total, pending, unmet, held = told
        return Awaited(total=total, pending=pending, unmet=unmet, held=held == 1)

    async def before(self, job_id: str, after: str | None, limit: int) -> list[tuple[str, State | None]]:
        told: list[bytes] = await self._database.run(
            "flow_before", job_id, after or b"", max(0, limit), writes=False
        )
        return [(text(link[:-2]), _end(link[-1:])) for link in told]

    async def release(self, job_id: str) -> bool:
        wake = self._bell.strike()
        known: int = await self._database.run("flow_release", wake or b"", job_id)
        self._bell.struck(wake)
        return known == 1

    async def held(self, after: str | None, limit: int) -> list[str]:
        told: list[bytes] = await self._database.run("flow_held", writes=False)
        found = sorted(map(text, told))
        return [job_id for job_id in found if after is None or job_id > after][: max(0, limit)]

    async def proceed(self, sequence: str) -> None:
        wake = self._bell.strike()
        await self._database.run("flow_proceed", wake or b"", sequence)
        self._bell.struck(wake)

    async def halted(self) -> dict[str, str]:
        told: list[bytes] = await self._database.run("flow_halted", writes=False)
        return {text(name): text(job) for name, job in zip(told[::2], told[1::2], strict=True)}

    async def overdue(self, limit: int) -> list[str]:
        told: list[bytes] = await self._database.run("flow_overdue", max(0, limit), writes=False)
        return list(map(text, told))


def _value(limit: LimitRecord) -> bytes:
    """What scripts read of a limit, in numbers that they can compute with, and all of it."""
    interval = min(limit.interval, _FURTHEST)
    concurrency = -1 if limit.concurrency is None else min(limit.concurrency, EXACT - 1)
    burst = min(limit.burst, _FURTHEST // interval) if interval else 1
    bits = limit.paused * _IS_PAUSED + limit.declared * _IS_DECLARED
    return _LIMIT.pack(concurrency, interval, max(1, burst), bits, limit.weight) + _encode(
        replace(limit, paused_since=None)
    )


def _end(code: bytes) -> State | None:
    return state_of(int(code)) if code.isdigit() else None


def _read(value: bytes) -> LimitRecord | None:
    """The limit; None for what somebody has put in its place, which scripts take for none either."""
    try:
        return _decode(value[_LIMIT.size :])
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None
