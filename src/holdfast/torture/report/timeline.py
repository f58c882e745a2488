"""What happened when and to whom, as lanes: one a process, however often it was started again."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field

from holdfast.torture.checker.case import Case, kind_of
from holdfast.torture.checker.takeovers import Takeover, find_takeovers
from holdfast.torture.history import Fault

BUCKETS = 240
ARROWS = 120
STORE = "store"

SORTS = {
    "kill": "death",
    "terminate": "death",
    "ended unasked": "death",
    "freeze": "freeze",
    "freeze leader": "freeze",
    "black hole": "network",
    "one way": "network",
    "reset": "network",
    "delay": "network",
    "lost reply": "network",
    "cut backends": "network",
}
"""How a fault is drawn; any other is one of the world around: the server, its disk, a clock."""


@dataclass(frozen=True, slots=True)
class Span:
    """A fault in its time; what happened once begins and ends together."""

    name: str
    sort: str
    begun: int
    ended: int
    count: int


@dataclass(slots=True)
class Lane:
    """One process, or the store: how many attempts it began in each part of the time, and its faults."""

    name: str
    starts: list[int] = field(default_factory=lambda: [0] * BUCKETS)
    spans: list[Span] = field(default_factory=list[Span])
    terms: list[int] = field(default_factory=list[int])


@dataclass(slots=True)
class Timeline:
    """All lanes, and a fair choice of the take-overs between them."""

    begun: int
    ended: int
    calm: int | None
    lanes: list[Lane]
    takeovers: list[Takeover]
    all_takeovers: int

    @property
    def length(self) -> int:
        return max(1, self.ended - self.begun)


def draw_up(case: Case) -> Timeline:
    lanes: dict[str, Lane] = {}

    def lane(who: str) -> Lane:
        name = lane_of(who)
        return lanes.setdefault(name, Lane(name))

    length = max(1, case.ended - case.begun)
    for starts in case.starts.values():
        for start in starts:
            place = (start.at - case.begun) * BUCKETS // length
            lane(start.who).starts[min(place, BUCKETS - 1)] += 1
    for led in case.led:
        lane(led.who).terms.append(led.at)
    for span, target in _spans(case):
        lane(target).spans.append(span)
    taken = find_takeovers(case)
    step = max(1, len(taken) // ARROWS)
    ordered = sorted(lanes.values(), key=lambda lane: (lane.name != STORE, lane.name))
    calm = None if case.calm is None else case.calm.at
    return Timeline(case.begun, case.ended, calm, ordered, taken[::step][:ARROWS], len(taken))


def lane_of(who: str) -> str:
    """The process behind its incarnations: worker-2-5 is the fifth of worker-2."""
    parts = who.rsplit("-", 2)
    return "-".join(parts[:2]) if len(parts) == 3 and parts[1].isdigit() and parts[2].isdigit() else who


def _spans(case: Case) -> list[tuple[Span, str]]:
    """Begins with their ends; one that never ended lasts until the calm."""
    open_ones: defaultdict[tuple[str, str], list[Fault]] = defaultdict(list)
    spans: list[tuple[Span, str]] = []
    for fault in case.faults:
        key = (fault.name, fault.target)
        if fault.phase == "begin":
            open_ones[key].append(fault)
        elif fault.phase == "once":
            spans.append((_span(fault, fault.at, fault.at, fault.count), fault.target))
        elif open_ones[key]:
            begun = open_ones[key].pop(0)
            spans.append((_span(begun, begun.at, fault.at, fault.count), fault.target))
    until = case.ended if case.calm is None else case.calm.at
    for left in open_ones.values():
        spans += [(_span(each, each.at, max(until, each.at), 0), each.target) for each in left]
    return spans


def _span(fault: Fault, begun: int, ended: int, count: int) -> Span:
    return Span(kind_of(fault), SORTS.get(kind_of(fault), "world"), begun, ended, count)
