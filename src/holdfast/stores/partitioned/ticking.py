"""A tick over several partitions. Workers need none: they tick in each partition by itself."""

from collections.abc import Sequence

from msgspec.structs import replace

from holdfast.model.records import Move, Tick, Ticked, Verdict, Want
from holdfast.stores.partitioned.branch import Branch
from holdfast.stores.partitioned.crowd import Crowd


async def tick_all(crowd: Crowd, asked: Tick) -> Ticked:
    """Applies each move where its job is, then claims: queue by queue, in one partition after the other.

    It is one commit for each of them, not one for all.
    """
    verdicts = await _move(crowd, asked)
    told = Ticked(
        verdicts=verdicts, claimed=[], cancel_asked=[], paused=frozenset(), next_due=None, registered=True
    )
    want = asked.want
    if want is None:
        for branch in crowd.branches.values():
            _merge(told, await branch.jobs.tick(replace(asked, moves=[])))
        return told
    if asked.repeat:
        for branch in crowd.branches.values():
            answer = await branch.jobs.tick(replace(asked, moves=[], want=replace(want, limit=0, stands=0)))
            _merge(told, answer)
        if told.claimed:
            return told
    await _claim(crowd, asked, want, told)
    return told


async def _claim(crowd: Crowd, asked: Tick, want: Want, told: Ticked) -> None:
    for queue in want.queues or ("",):
        for branch in _first(crowd, queue):
            queues = (queue,) if queue else ()
            left = replace(want, queues=queues, limit=want.limit - len(told.claimed), stands=0)
            _merge(told, await branch.jobs.tick(replace(asked, moves=[], want=left, repeat=False)))


def _first(crowd: Crowd, queue: str) -> Sequence[Branch]:
    """All branches, that of the queue first."""
    own = crowd.branches[crowd.layout.of_queue(queue)]
    return [own, *(branch for branch in crowd.branches.values() if branch is not own)]


async def _move(crowd: Crowd, asked: Tick) -> list[Verdict]:
    located = await crowd.locate([move.job for move in asked.moves]) if asked.moves else {}
    by_branch: dict[str, list[tuple[int, Move]]] = {}
    for place, move in enumerate(asked.moves):
        by_branch.setdefault(located.get(move.job, crowd.layout.home), []).append((place, move))
    verdicts: dict[int, Verdict] = {}
    for name, moves in by_branch.items():
        only = replace(asked, moves=[move for _, move in moves], want=None)
        answer = await crowd.branches[name].jobs.tick(only)
        verdicts.update(zip((place for place, _ in moves), answer.verdicts, strict=True))
    return [verdicts[place] for place in range(len(asked.moves))]


def _merge(told: Ticked, answer: Ticked) -> None:
    known = {(record.id, record.token) for record in told.claimed}
    told.claimed += [record for record in answer.claimed if (record.id, record.token) not in known]
    told.cancel_asked = sorted({*told.cancel_asked, *answer.cancel_asked})
    told.paused |= answer.paused
    told.paused_tasks |= answer.paused_tasks
    told.registered = told.registered and answer.registered
    dues = [due for due in (told.next_due, answer.next_due) if due is not None]
    told.next_due = min(dues, default=None)
