"""What is asked of each model: as it is, it must hold; a weaker guard must be refuted."""

from __future__ import annotations

from typing import NamedTuple


class Case(NamedTuple):
    """One search. `switches` set constants of the model; `eventually` asks for what must happen at last."""

    model: str
    says: str
    switches: tuple[str, ...] = ()
    must_hold: bool = True
    eventually: bool = False


def _weaker(model: str, says: str, *switches: str) -> Case:
    return Case(model, says, switches, must_hold=False)


def _live(model: str, says: str, *switches: str) -> Case:
    return Case(model, says, switches, eventually=True)


CASES = (
    Case("lease", "one crash, one early expiry, one lost answer: one completion, under the current token"),
    Case("lease", "two early expiries, one lost answer", ("EXPIRIES=2", "CRASHES=0")),
    Case("lease", "two early expiries, one crash", ("EXPIRIES=2", "LOSSES=0")),
    Case("lease", "two lost answers", ("EXPIRIES=0", "CRASHES=0", "LOSSES=2")),
    _live("lease", "the job is done at last"),
    _weaker("lease", "a report needs the job alone", "GUARD=0"),
    _weaker("lease", "a report needs a leased job", "GUARD=1"),
    _weaker("lease", "a report needs the worker that holds it", "GUARD=2"),
    _weaker("lease", "a heartbeat brings an ended lease back", "RENEW=1"),
    Case("firing", "each due time fires once, under the current term"),
    _live("firing", "every due time fires at last"),
    _weaker("firing", "look, then insert", "GUARD=0"),
    _weaker("firing", "the term alone", "GUARD=1"),
    _weaker("firing", "the due time alone: a leader that was followed writes", "GUARD=2"),
    Case("events", "committed events take effect once, in order for each aggregate"),
    _live("events", "every committed event is told at last", "EXPIRIES=1"),
    _weaker("events", "a cursor over numbers that were drawn at the append", "CURSOR=0"),
    _weaker("events", "the counter of positions is read, then written", "HEAD=0"),
    _weaker("events", "the offset is overwritten", "OFFSET=0"),
    Case("lock", "no holder writes after the one that came after it"),
    _live("lock", "all who want it have it at last"),
    _weaker("lock", "a resource that does not look at tokens", "FENCE=0"),
    _weaker("lock", "a renewal brings an ended lease back", "RENEW=1"),
    _weaker("lock", "tokens begin anew when a lock was free", "TOKENS=0"),
    Case("failover", "no token is given twice, though a replica forgot the last writes"),
    _weaker("failover", "a token is the last one plus one", "CLOCKED=0"),
    _weaker("failover", "claims that outrun the clock", "PACE=0"),
    Case("keys", "one job for a key, and all are told of it"),
    _weaker("keys", "look, then insert", "INSERT=0"),
)
