"""Events: what committed is told to every group in order, what rolled back is told to none."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator

from holdfast.torture.checker.case import Asked, Case
from holdfast.torture.checker.violation import Violation
from holdfast.torture.dump import Event
from holdfast.torture.history import Consumed


def events_arrive_in_order(case: Case) -> Iterator[Violation]:
    """I11: what was emitted is in the log and reaches every group, in the order of its aggregate."""
    logged = {event.id: event for event in case.dump.events}
    yield from _logged_twice(case.dump.events)
    yield from _log_without_order(case.dump.events)
    yield from _emitted_otherwise(case, logged)
    names = {group.name for group in case.dump.groups} | case.consumed.keys()
    for group in sorted(names):
        told = case.consumed.get(group, [])
        yield from _told_wrongly(group, told, logged)
        yield from _never_told(group, told, logged)


def _logged_twice(events: list[Event]) -> Iterator[Violation]:
    for what, counts in (
        ("event", Counter(event.id for event in events)),
        ("position", Counter(str(event.position) for event in events)),
    ):
        for name, count in counts.items():
            if count > 1:
                yield Violation(f"{what} {name} is {count} times in the log")


def _log_without_order(events: list[Event]) -> Iterator[Violation]:
    last: defaultdict[str, int] = defaultdict(int)
    for event in sorted(events, key=lambda event: event.position):
        if event.version != last[event.aggregate] + 1:
            said = (
                f"event {event.id} at position {event.position} is version {event.version} of"
                f" {event.aggregate}, after version {last[event.aggregate]}"
            )
            yield Violation(said)
        last[event.aggregate] = max(event.version, last[event.aggregate])


def _emitted_otherwise(case: Case, logged: dict[str, Event]) -> Iterator[Violation]:
    rolled_back = {asked.call.event: asked for asked in case.asked("emit_rolled_back")}
    emitted: dict[str | None, Asked] = {}
    for asked in case.asked("emit"):
        before = emitted.get(asked.call.event)
        if before is None or (asked.may_be_done and not before.is_done):
            emitted[asked.call.event] = asked
    for name, asked in emitted.items():
        if asked.is_done and name not in logged:
            yield Violation(f"event {name} was emitted and is lost", asked.evidence)
        elif not asked.may_be_done and name in logged:
            yield Violation(f"event {name} is in the log although its emit was refused", asked.evidence)
    for name in logged:
        if name in emitted:
            continue
        if name in rolled_back:
            yield Violation(f"event {name} was rolled back and is in the log", rolled_back[name].evidence)
        else:
            yield Violation(f"event {name} is in the log, and nobody emitted it")


def _told_wrongly(group: str, told: list[Consumed], logged: dict[str, Event]) -> Iterator[Violation]:
    """The first time that a version is told it is the next of its aggregate; later it may come again."""
    last: dict[str, Consumed] = {}
    for each in told:
        event = logged.get(each.event)
        if event is None or (event.aggregate, event.version) != (each.aggregate, each.version):
            said = f"group {group} was told event {each.event} as version {each.version} of {each.aggregate}"
            yield Violation(f"{said}, which is not what the log has", (each,))
        before = last.get(each.aggregate)
        reached = 0 if before is None else before.version
        if each.version > reached + 1:
            said = (
                f"group {group} was told version {each.version} of {each.aggregate} after version {reached}"
            )
            yield Violation(said, (each,) if before is None else (before, each))
        if each.version > reached:
            last[each.aggregate] = each


def _never_told(group: str, told: list[Consumed], logged: dict[str, Event]) -> Iterator[Violation]:
    heard = {each.event for each in told}
    for event in logged.values():
        if event.id not in heard:
            said = f"event {event.id}, version {event.version} of {event.aggregate}, never reached {group}"
            yield Violation(said)
