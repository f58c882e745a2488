"""What stands above the tables: the way to the store, and the whole in numbers."""

from __future__ import annotations

from dataclasses import replace

from rich.text import Text

from holdfast.cli.output import cell
from holdfast.cli.top.picture import Part, Picture
from holdfast.cli.top.words import number, rate, span, sparkline, until
from holdfast.model.lifecycle import State
from holdfast.store.circuit import CircuitState
from holdfast.telemetry.logs import printable

BETWEEN = "   "
SPARK = 24


def head(picture: Picture) -> Text:
    """Which store, how it answers, and when that was."""
    parts = [
        Text("holdfast", "bold"),
        cell(picture.store),
        Text.assemble("namespace ", cell(picture.namespace)),
        _answering(picture),
        *_circuits(picture),
    ]
    return Text("  ").join(parts)


def _answering(picture: Picture) -> Text:
    way = picture.way
    if way.fault is not None:
        return Text(f"store away for {span(way.away)}", "bold red")
    if way.answered is None:
        return Text("asking the store …", "dim")
    return Text(f"answers in {span(way.answered)}", "green" if way.answered < 0.25 else "yellow")


def _circuits(picture: Picture) -> list[Text]:
    shown: list[Text] = []
    for name, report in picture.way.circuits.items():
        if report.state is not CircuitState.CLOSED:
            where = f" of {printable(name)}" if name else ""
            again = report.next_probe_seconds
            tried = "" if again is None else f", next try in {span(max(0.0, again))}"
            shown.append(Text(f"circuit{where} {report.state}{tried}", "bold yellow"))
    return shown or [Text("circuit closed", "dim")] * bool(picture.way.circuits)


def troubles(picture: Picture) -> list[Text]:
    """What somebody should know before all else; mostly nothing."""
    way = picture.way
    found: list[Text] = []
    if way.fault is not None:
        shown = f"; what is shown was told {span(way.away)} ago" if picture.told else ""
        found.append(Text.assemble(cell(way.fault, "red"), Text(shown, "red")))
    found += [
        Text.assemble(Text("partition ", "red"), cell(name, "red"), Text(" is left out: "), cell(why))
        for name, why in way.missing.items()
    ]
    return found


def totals(picture: Picture, spark: bool = True) -> list[Text]:
    """The whole in a few lines, each of them a label and what it is about."""
    if not picture.told:
        return [Text("Nothing is known yet.", "dim")]
    picture = picture if spark else replace(picture, points=())
    return [_rates(picture), _lateness(picture), _jobs(picture), _crew(picture), _leading(picture)]


def _labelled(label: str, *facts: Text) -> Text:
    return Text.assemble(Text(f"{label:<9}", "bold"), Text(BETWEEN).join(facts))


def _rates(picture: Picture) -> Text:
    if not picture.pace.known:
        wait = "workers have not reported twice yet" if picture.live else "no live worker"
        return _labelled("rates", Text(f"- ({wait})", "dim"))
    total, spark = picture.pace.total, _spark(picture, "succeeded")
    return _labelled(
        "rates",
        Text.assemble(
            (rate(total.succeeded), "bold green"), " ok/s", (f" {spark}" if spark else "", "green")
        ),
        Text.assemble((f"{rate(total.failed)}", "bold red" if total.failed else ""), " failed/s"),
        Text.assemble((f"{rate(total.retried)}", "yellow" if total.retried else ""), " retried/s"),
    )


def _spark(picture: Picture, name: str) -> str:
    return sparkline([getattr(point, name) or 0.0 for point in picture.points], SPARK)


def _lateness(picture: Picture) -> Text:
    lately = picture.lately
    facts = [
        Text(f"p50 {span(lately.lateness_p50)}"),
        Text(f"p99 {span(lately.lateness_p99)}"),
        Text.assemble("oldest wait ", (span(picture.oldest), "bold")),
    ]
    if picture.points:
        facts.append(Text.assemble("queued ", (_spark(picture, "queued"), "cyan")))
    return _labelled("lateness", *facts)


def _jobs(picture: Picture) -> Text:
    counts = picture.counts
    dead = counts.by_state.get(State.DLQ, 0)
    queued = Text.assemble((number(counts.queued), "bold"), " queued")
    if counts.parked:
        queued.append(f" ({number(counts.parked)} parked)")
    return _labelled(
        "jobs" if counts.exact else "jobs ≈",
        queued,
        Text(f"{number(counts.in_progress)} running"),
        Text(f"{number(counts.scheduled)} scheduled"),
        Text(f"{number(dead)} dead", "bold red" if dead else ""),
        Text(f"{number(counts.completed)} completed", "dim"),
    )


def _crew(picture: Picture) -> Text:
    live = picture.live
    reports = [worker.report for worker in live if worker.report is not None]
    slots, busy = sum(each.slots for each in reports), sum(each.busy for each in reports)
    facts = [Text(f"{len(live)} live", "" if live else "bold yellow"), Text(f"{busy}/{slots} slots busy")]
    stuck = sum(each.stuck for each in reports)
    if stuck:
        facts.append(Text(f"{stuck} stuck", "bold red"))
    gone = len(picture.workers) - len(live)
    if gone:
        facts.append(Text(f"{gone} gone", "dim"))
    if Part.SCHEDULES in picture.told:
        facts.append(_schedules(picture))
    return _labelled("workers", *facts)


def _leading(picture: Picture) -> Text:
    return _labelled("leader", _leader(picture))


def _leader(picture: Picture) -> Text:
    leading = {name: each for name, each in picture.leaders.items() if each is not None}
    if len(picture.leaders) > 1:
        return Text(f"{len(leading)} of {len(picture.leaders)} partitions led")
    if not leading:
        return Text("nobody leads", "yellow")
    (leader,) = leading.values()
    return Text.assemble(cell(leader.worker), Text(f"{BETWEEN}term {leader.term}"))


def _schedules(picture: Picture) -> Text:
    coming = [each for each in picture.schedules if each.next_due is not None and not each.paused]
    if not coming:
        return Text("no schedule is due", "dim")
    first = min(coming, key=lambda each: (each.next_due or picture.at, each.name))
    return Text.assemble("next schedule ", cell(first.name), f" {until(first.next_due, picture.at)}")
