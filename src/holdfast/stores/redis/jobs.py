"""The job operations: each one script."""

import re
from collections.abc import Sequence
from typing import Any, Final

import msgspec

from holdfast.model.errors import KeyConflict
from holdfast.model.lifecycle import EDITABLE, edit_source
from holdfast.model.records import (
    Added,
    AttemptRecord,
    Edit,
    Extension,
    Held,
    JobRecord,
    NewJob,
    Query,
    QueueCount,
    Tick,
    Ticked,
    Want,
)
from holdfast.stores.bell import Bell
from holdfast.stores.plain import may_wake
from holdfast.stores.redis.adding import answers, has_flow, is_lone, lone, packed
from holdfast.stores.redis.database import Database
from holdfast.stores.redis.finding import find
from holdfast.stores.redis.listener import RedisWakeups
from holdfast.stores.redis.moving import Batch
from holdfast.stores.redis.records import CODES, STATES, attempts, clean, job, made, number, text

PRUNED: Final = 1_000
"""How many finished jobs one call looks at. Those that were deleted before are among them."""

_HELD = {"h": Held.HELD, "c": Held.CANCEL_ASKED, "l": Held.LOST}
_FOR_MORE = b"f"
"""What a script answers that has done nothing, because it does not know enough of what holds jobs back."""

_FIRST = {"add": 4, "tick": 11}
"""Where the arguments begin to which others refer, as a script counts them."""

_encode = msgspec.msgpack.encode
_as_text = msgspec.json.encode


class RedisJobs:
    """Jobs of one namespace."""

    def __init__(self, database: Database, bell: Bell, wakeups: RedisWakeups) -> None:
        self._database = database
        self._bell = bell
        self._wakeups = wakeups
        self._flows = 0
        """What the last tick found to hold jobs back: nothing, limits, or sequences too."""

    async def add(self, jobs: Sequence[NewJob]) -> list[Added]:
        if not jobs:
            return []
        wake = self._bell.strike()
        told = None
        if is_lone(jobs):
            told = await self._database.run("lone", wake or b"", *lone(jobs[0]))
        if told is None:
            script = "add_flow" if has_flow(jobs) else "add"
            told = await self._database.run(script, wake or b"", *packed(jobs, _FIRST["add"]))
        now, is_untold, *stood = told
        if is_untold:
            self._bell.struck(wake)
        elif wake:
            self._bell.spared()
        return answers(jobs, int(now), stood)

    async def tick(self, tick: Tick) -> Ticked:
        batch = Batch(tick.moves, _FIRST["tick"])
        want = tick.want
        wakes = may_wake(tick.moves)
        flows = max(self._flows, int(batch.has_flow))
        wake = self._bell.strike() if wakes or flows else None
        given = (
            tick.worker,
            tick.seq,
            tick.repeat + 2 * wakes,
            batch.plain,
            batch.others,
            _encode(want) if want else b"",
            self._wakeups.ear if want and want.stands else b"",
            b"" if tick.stood is None else tick.stood,
            *batch.values,
        )
        told = await self._database.run(batch.script(tick.repeat, flows), wake or b"", *given)
        while told == _FOR_MORE:
            flows += 1
            wake = wake or self._bell.strike()
            told = await self._database.run(batch.script(tick.repeat, flows), wake or b"", *given)
        (
            registered,
            next_due,
            refused,
            verdicts,
            asked,
            paused,
            records,
            bodies,
            extras,
            handed,
            handed_ago,
            stands,
            paused_tasks,
            is_untold,
            self._flows,
        ) = told
        if is_untold or (wakes and not flows):
            self._bell.struck(wake)
        elif wake:
            self._bell.spared()
        claimed = list(map(made, records, bodies))
        for place, *beside in extras:
            claimed[place] = made(records[place], bodies[place], *beside)
        if tick.repeat and want and not handed:
            _sort(claimed, want)
        return Ticked(
            verdicts=batch.verdicts(refused, verdicts),
            claimed=claimed,
            cancel_asked=_asked(asked),
            paused=frozenset(queue.decode() for queue in paused),
            next_due=int(next_due) if next_due is not None and _COUNT.fullmatch(next_due) else None,
            registered=registered == 1,
            handed=handed,
            handed_ago=handed_ago,
            stands=stands == 1,
            paused_tasks=frozenset(task.decode() for task in paused_tasks or ()),
        )

    async def extend(self, worker: str, extensions: Sequence[Extension]) -> list[Held]:
        if not extensions:
            return []
        wishes = _encode([_wish(extension) for extension in extensions])
        told: bytes = await self._database.run("extend", worker, wishes)
        return [_HELD[letter] for letter in told.decode()]

    async def expired(self, limit: int) -> list[JobRecord]:
        return [job(told) for told in await self._database.run("expired", limit, writes=False)]

    async def edit(self, job_id: str, version: int, edit: Edit) -> JobRecord | None:
        fits = [edit_source(edit.path)] if edit.path else list(EDITABLE)
        sent = {
            **msgspec.structs.asdict(edit),
            "job": job_id,
            "version": version,
            "from": "".join(str(CODES[state]) for state in fits if state is not None),
            "to": CODES[edit.path[-1]] if edit.path else None,
            "priority": None if edit.priority is None else number(edit.priority),
            "due": None if edit.due is None else number(edit.due),
            "tags": None if edit.tags is None else _as_text(edit.tags).decode(),
            "reason": clean(edit.reason),
        }
        wake = self._bell.strike()
        told = await self._database.run("edit", wake or b"", _encode(sent))
        self._bell.struck(wake)
        if told is None:
            return None
        if isinstance(told, bytes):
            raise KeyConflict(f"key {edit.key or 'of the job'!r} is held by job {told.decode()}")
        return job(told)

    async def delete(self, job_id: str) -> bool:
        wake = self._bell.strike()
        gone: int = await self._database.run("delete", job_id, wake or b"")
        self._bell.struck(wake)
        return gone == 1

    async def get(self, job_id: str) -> JobRecord | None:
        return (await self.states([job_id]))[0]

    async def states(self, job_ids: Sequence[str]) -> list[JobRecord | None]:
        if not job_ids:
            return []
        told = await self._database.run("read", *job_ids, writes=False)
        return [None if found is None else job(found) for found in told]

    async def find(self, query: Query) -> list[JobRecord]:
        return await find(self._database, query)

    async def count(self, most: int | None = None) -> list[QueueCount]:
        has_more, counts = 1, list[bytes]()
        while has_more:
            has_more, counts = await self._database.run("count")
        told = zip(counts[::2], counts[1::2], strict=True)
        numbers = {field: int(number_) for field, number_ in told if _COUNT.fullmatch(number_)}
        return [
            QueueCount(
                queue=text(field[1:]),
                state=STATES[int(field[:1])],
                count=number_,
                due=numbers.get(_DUE[field[:1]] + field[1:], 0) if field[:1] in _DUE else 0,
                parked=numbers.get(_PARKED[field[:1]] + field[1:], 0) if field[:1] in _PARKED else 0,
            )
            for field, number_ in sorted(numbers.items(), key=lambda line: (line[0][1:], line[0]))
            if field[:1] in _CODES
        ]

    async def history(self, job_id: str) -> list[AttemptRecord]:
        record, past = await self._database.run("history", job_id, writes=False)
        return attempts(job_id, record, past)

    async def prune(self, older_than: int, limit: int) -> int:
        removed, has_more = 0, 1
        while has_more and removed < limit:
            wake = self._bell.strike()
            gone, has_more, is_untold = await self._database.run(
                "prune", older_than, limit - removed, PRUNED, wake or b""
            )
            removed += gone
            if is_untold:
                self._bell.struck(wake)
            elif wake:
                self._bell.spared()
        return removed


_COUNT = re.compile(rb"-?[0-9]+")
_CODES = frozenset(str(code).encode() for code in CODES.values())
_DUE = {b"0": b"S", b"5": b"R"}
"""Which count tells the jobs of a waiting state that are ready."""

_PARKED = {b"0": b"P", b"5": b"Q"}
"""Which tells those that are parked."""


def _wish(extension: Extension) -> dict[str, Any]:
    return {
        "job": extension.job,
        "token": extension.token,
        "lease": extension.lease,
        "elapsed": extension.elapsed,
        "progress": extension.progress,
        "note": clean(extension.progress_note),
    }


def _sort(claimed: list[JobRecord], want: Want) -> None:
    """Puts jobs in the order in which they were claimed."""
    turns = {queue: turn for turn, queue in enumerate(want.queues)}
    claimed.sort(key=lambda job: (turns.get(job.queue, len(turns)), job.priority, _rank(job), job.id))


def _rank(job: JobRecord) -> int:
    return job.due if job.flow is None or job.flow.rank is None else job.flow.rank


def _asked(told: list[bytes]) -> list[tuple[str, int]]:
    return sorted((job_id.decode(), int(token)) for job_id, token in zip(told[::2], told[1::2], strict=True))
