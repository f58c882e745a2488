"""The flows of new jobs."""

from collections.abc import Sequence
from typing import NamedTuple

from msgspec.structs import replace

from holdfast.model.flow import NO_FLOW, Flow, as_flow
from holdfast.model.records import NewJob
from holdfast.stores.sqlite.linking import Links
from holdfast.stores.sqlite.ranking import Place, ranks
from holdfast.stores.sqlite.transaction import Transaction


class Stored(NamedTuple):
    """A flow as it is stored; `turn` is the place of its job in its sequence."""

    flow: Flow
    turn: int | None

    def columns(self, due: object) -> tuple[object, ...]:
        """In the order of `add_flow_jobs`."""
        flow = self.flow
        return (
            due if flow.rank is None else flow.rank,
            flow.limit_key,
            flow.fair_key,
            flow.sequence,
            self.turn,
            1 if flow.halts else None,
            1 if flow.after_any else None,
            flow.expires,
            flow.parked,
            flow.unmet or None,
        )


def new_flows(tx: Transaction, jobs: Sequence[NewJob], floors: dict[Place, int]) -> list[Stored]:
    """The flows of jobs that are about to be stored, with their links, ranks and turns."""
    tx.begin_flow()
    links = Links(tx, jobs)
    rank_of = ranks(tx, jobs, floors)
    turn = _turn_before(tx, sum(job.flow is not None and job.flow.sequence is not None for job in jobs))
    stored: list[Stored] = []
    for job in jobs:
        parked, unmet = links.add(job)
        flow = NO_FLOW if job.flow is None else as_flow(job.flow, tx.now) or NO_FLOW
        flow = replace(flow, rank=rank_of.get(job.id), parked=parked, unmet=unmet)
        if flow.sequence is not None:
            turn += 1
        stored.append(Stored(flow, None if flow.sequence is None else turn))
    links.write()
    return stored


def _turn_before(tx: Transaction, count: int) -> int:
    """The last turn that was given before so many are taken now."""
    if not count:
        return 0
    [last] = tx.run("flow_turns", count=count).fetchall()[0]
    return int(last) - count
