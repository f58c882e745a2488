"""What a job may wait for beside its due time, as it crosses the seam: limits, order, and other jobs."""

from __future__ import annotations

from enum import StrEnum

import msgspec

STRIDE = 1_000_000
"""By how much the rank of a key's next job is above that of its last, if its weight is 1."""

AFTER = "after"
"""Where jobs are parked that wait for others."""

SEQUENCE = "sequence:"
"""Where jobs are parked that wait for their turn; the name of the sequence follows."""


class Scope(StrEnum):
    """What a limit applies to: a queue, a task, one key, or each key of a task's jobs by itself."""

    QUEUE = "queue"
    TASK = "task"
    KEY = "key"
    EACH_KEY = "each_key"


class LimitRecord(msgspec.Struct, kw_only=True, frozen=True):
    """A limit as stored.

    At most `concurrency` jobs are leased at once. Of `rate` jobs in each `period` the claims are apart by
    period / rate, rounded up to a microsecond; `burst` of them may come at once after so long a pause. While
    it is `paused`, none is claimed; `paused_since` is when that began, which the store says. `weight` is the
    share of a queue among queues, or of a fair key among the keys of its queue. One that is `declared` was
    written in code, and gives way to one that was set.
    """

    scope: Scope
    name: str
    concurrency: int | None = None
    rate: int | None = None
    period: int = 0
    burst: int = 1
    paused: bool = False
    weight: float = 1.0
    declared: bool = False
    paused_since: int | None = None

    @property
    def holds_back(self) -> bool:
        """Whether it can make a job wait at all."""
        return self.paused or self.concurrency is not None or self.rate is not None

    @property
    def interval(self) -> int:
        """How far the claims are apart; 0 without a rate."""
        return -(-self.period // self.rate) if self.rate else 0


class NewFlow(msgspec.Struct, kw_only=True, frozen=True, gc=False):
    """What a new job waits for beside its due time.

    `limit_key` is what limits on keys count. `fair_key` shares its queue with the other keys there. Jobs of
    one `sequence` run one at a time, in the order in which they were added; one with `halts` that ends in dlq
    or failed stops those behind it. `after` are jobs that must be finished before, with success unless
    `after_any`; `before` is a job that waits for this one too, if it is still waiting for others. One that is
    `held` waits until it is released. It `expires` so long after the store's now if it was not started.
    """

    limit_key: str | None = None
    fair_key: str | None = None
    sequence: str | None = None
    halts: bool = False
    after: tuple[str, ...] = ()
    after_any: bool = False
    before: str | None = None
    held: bool = False
    expires: int | None = None


class Flow(msgspec.Struct, kw_only=True, frozen=True, gc=False):
    """The same of a stored job.

    `rank` is its place among jobs of the same queue and priority, instead of the due time, None without a
    fair key. `expires` is an instant. `parked` is where it was held back when it was last looked at: `after`,
    or a scope and a name, such as `key:tenant-7` or `sequence:account-3`; None when it was not, or is not
    waiting. `unmet` counts the jobs before it that are finished, or gone, without success.
    """

    limit_key: str | None = None
    fair_key: str | None = None
    rank: int | None = None
    sequence: str | None = None
    halts: bool = False
    after_any: bool = False
    expires: int | None = None
    parked: str | None = None
    unmet: int = 0


class Usage(msgspec.Struct, kw_only=True, frozen=True):
    """How many jobs of a gate are leased, and how many parked there."""

    running: int
    parked: int


class Awaited(msgspec.Struct, kw_only=True, frozen=True):
    """The jobs that a job waits for, or has waited for.

    `pending` of them are still waited for; `unmet` are finished, or gone, without success.
    """

    total: int
    pending: int
    unmet: int
    held: bool


NO_FLOW = Flow()


def as_flow(flow: NewFlow, now: int) -> Flow | None:
    """As it stands once its job was added, but for its rank and what is unmet; None if that is nothing."""
    return or_none(
        Flow(
            limit_key=flow.limit_key,
            fair_key=flow.fair_key,
            sequence=flow.sequence,
            halts=flow.halts,
            after_any=flow.after_any,
            expires=None if flow.expires is None else now + flow.expires,
        )
    )


def or_none(flow: Flow) -> Flow | None:
    """None for a flow that says nothing, as stores give it."""
    return None if flow == NO_FLOW else flow


def gate(scope: Scope, name: str) -> str:
    """The name of what holds jobs back: one queue, one task or one key."""
    return f"{scope}:{name}"
