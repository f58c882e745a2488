"""What Holdfast finds in a store that has lost power, its server, or its server's last writes."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from holdfast.model.lifecycle import FINISHED, RETRIED, Ending, State
from holdfast.model.records import JobRecord, Move, Query, Tick, Verdict, Want, WorkerRecord
from holdfast.model.timing import SECOND
from holdfast.store import Session
from tests.durability.acknowledged import Acknowledged
from tests.durability.program import work

HEIR = "heir"
LEASE = 600 * SECOND
MANY = 1_000_000
_PAGE = 1_000


@dataclass
class Aftermath:
    """What does not stand as it was acknowledged. `left` is how many jobs there are."""

    left: int = 0
    lost: list[str] = field(default_factory=list[str])
    undone: list[str] = field(default_factory=list[str])
    low_tokens: list[str] = field(default_factory=list[str])
    stuck: list[str] = field(default_factory=list[str])
    miscounted: list[str] = field(default_factory=list[str])
    damage: str = ""

    @property
    def missing(self) -> list[str]:
        """Jobs of which an acknowledgement did not last."""
        return [*self.lost, *self.undone]

    @property
    def is_consistent(self) -> bool:
        """Whether what is there can be worked with."""
        return not (self.low_tokens or self.stuck or self.miscounted or self.damage)


class Claims(NamedTuple):
    """What could be claimed, and what could not."""

    claimed: list[JobRecord]
    stuck: list[str]


async def examine(
    session: Session, known: Acknowledged, let_leases_end: Callable[[], None] = lambda: None
) -> Aftermath:
    """Compares the store with what was acknowledged, then takes over all that is not finished."""
    found = Aftermath()
    kept = {job.id: job for job in await every_job(session)}
    found.left = len(kept)
    found.lost = [job for job in {**known.stored, **known.done} if job not in kept]
    found.undone = [job for job in known.done if job in kept and kept[job].state is not State.SUCCESS]
    found.miscounted = await miscounted(session, kept.values())
    live = [job for job in kept.values() if job.state not in FINISHED]
    taken = await take_over(session, live, let_leases_end)
    found.stuck = taken.stuck
    found.low_tokens = [job.id for job in taken.claimed if job.token <= known.token]
    return found


async def every_job(session: Session) -> list[JobRecord]:
    """All jobs of the namespace, page by page."""
    jobs: list[JobRecord] = []
    while True:
        page = await session.jobs.find(Query(limit=_PAGE, cursor=jobs[-1].id if jobs else None))
        jobs += page
        if len(page) < _PAGE:
            return jobs


async def miscounted(session: Session, jobs: Iterable[JobRecord]) -> list[str]:
    """States whose number, as the store counts them, is not how many there are."""
    counted = dict.fromkeys(State, 0)
    for each in await session.jobs.count():
        counted[each.state] += each.count
    for job in jobs:
        counted[job.state] -= 1
    return [f"{state} by {count:+}" for state, count in counted.items() if count]


async def take_over(
    session: Session, live: Sequence[JobRecord], let_leases_end: Callable[[], None]
) -> Claims:
    """Claims every live job: those that wait at once, those that were leased when their lease has ended."""
    await session.fleet.register(
        WorkerRecord(id=HEIR, host="h", pid=1, queues=("default",), tasks=(work.name,), concurrency=1), LEASE
    )
    want = Want(queues=("default",), tasks=frozenset({work.name}), limit=MANY, lease=LEASE)
    claimed = (await session.jobs.tick(Tick(worker=HEIR, seq=1, moves=[], want=want))).claimed
    let_leases_end()
    expired = await session.jobs.expired(MANY)
    moves = [
        Move(job=job.id, token=job.token, path=RETRIED, outcome=Ending.LOST, if_expired=True, delay=0)
        for job in expired
    ]
    answer = await session.jobs.tick(Tick(worker=HEIR, seq=2, moves=moves, want=want))
    claimed += answer.claimed
    refused = [
        move.job
        for move, verdict in zip(moves, answer.verdicts, strict=True)
        if verdict is not Verdict.ACCEPTED
    ]
    return Claims(claimed, [*refused, *({job.id for job in live} - {job.id for job in claimed})])
