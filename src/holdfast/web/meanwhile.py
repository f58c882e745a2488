"""Stands in for what the application does not tell yet."""

# mypy: ignore-errors
# pyright: basic
from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import msgspec

from holdfast.app import Holdfast
from holdfast.model.overview import QueueInfo, WorkerInfo


async def _contents(self: Any, job_id: Any, reveal: bool = False) -> Any:
    if await self.get(job_id) is None:
        return None
    record = await self.client.session.jobs.get(job_id)
    show = (lambda v: v) if reveal else _redact
    return SimpleNamespace(
        arguments=show(msgspec.json.decode(record.payload)),
        result=None if record.result is None else show(msgspec.json.decode(record.result)),
    )


def _redact(value: Any) -> Any:
    if isinstance(value, dict):
        return {
            k: "***" if any(w in k.lower() for w in ("password", "secret", "token", "key")) else _redact(v)
            for k, v in value.items()
        }
    return [_redact(v) for v in value] if isinstance(value, list) else value


async def _held_locks(self: Any, limit: int = 100, after: Any = None) -> list[Any]:
    return []


if not hasattr(Holdfast, "contents"):
    Holdfast.contents = _contents
    Holdfast.redactor = SimpleNamespace(redact=_redact)
if not hasattr(Holdfast, "held_locks"):
    Holdfast.held_locks = _held_locks
HAS_REPORTS = hasattr(WorkerInfo, "report") or "report" in WorkerInfo.__dataclass_fields__
HAS_OLDEST = "oldest" in QueueInfo.__dataclass_fields__
