"""The report as one HTML page: no script, no network, everything escaped."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from pathlib import Path

from holdfast.torture.checker.case import Case
from holdfast.torture.checker.judging import Ruling
from holdfast.torture.checker.takeovers import find_takeovers
from holdfast.torture.checker.violation import Exhibit
from holdfast.torture.report.document import Document
from holdfast.torture.report.drawing import draw_spread, draw_timeline, length
from holdfast.torture.report.timeline import Timeline, draw_up

POLICY = "default-src 'none'; style-src 'unsafe-inline'"
WORDS = {
    "passed": "No promise was seen broken",
    "violated": "Promises were broken",
    "vacuous": "Too little happened",
}
LEGEND = (
    ('<path class="death" d="M5 4l8 10m0 -10l-8 10"/>', "killed or ended"),
    ('<rect class="freeze" x="2" y="4" width="14" height="10"/>', "frozen"),
    ('<rect class="network" x="2" y="4" width="14" height="10"/>', "network cut, slow, or reply lost"),
    ('<rect class="world" x="2" y="4" width="14" height="10"/>', "server, disk or clock"),
    ('<path class="term" d="M9 4l5 9h-10z"/>', "became leader"),
    ('<g class="takeover"><path d="M2 4L14 14"/><circle cx="14" cy="14" r="3"/></g>', "take-over"),
    ('<path class="work" d="M2 15V9h5V5h5v6h4v4z"/>', "attempts begun"),
)  # fmt: skip


def as_page(document: Document, case: Case) -> str:
    timeline = draw_up(case)
    title = f"Torture of {document.store.kind}: {document.word}"
    figures, invariants = _figures(document), _invariants(document)
    body = [
        *_head(document),
        *(invariants if document.word == "violated" else figures),
        *_timeline(timeline),
        *_spread(case),
        *(figures if document.word == "violated" else invariants),
        *_floors(document),
    ]
    style = (Path(__file__).parent / "page.css").read_text(encoding="utf-8")
    return "\n".join(
        [
            '<!doctype html><html lang="en"><head><meta charset="utf-8">',
            f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f"<title>{escape(title)}</title><style>{style}</style></head><body><main>",
            *body,
            "</main></body></html>\n",
        ]
    )


def _head(document: Document) -> Iterator[str]:
    facts = [
        f"{document.store.kind}" + (f", {document.store.durability}" if document.store.durability else ""),
        f"seed {document.seed}" if document.seed is not None else "",
        f"commit {document.commit}" if document.commit else "",
        f"lease {length(document.limits.lease)}",
        f"sweep {length(document.limits.sweep)}",
    ]
    yield f'<header class="verdict {document.word}">'
    yield f"<h1><b>{WORDS[document.word]}</b></h1><p>{escape(document.sentence)}</p>"
    yield f'<p class="facts">{escape(" · ".join(filter(None, facts)))}</p></header>'


def _figures(document: Document) -> Iterator[str]:
    figures = document.figures
    told: list[tuple[str, str]] = [
        ("jobs", f"{figures.jobs:,}"),
        ("attempts", f"{figures.attempts:,}"),
        ("attempts again", f"{figures.again:,}"),
        ("take-overs", f"{figures.takeovers:,}"),
        ("stale writes refused", f"{figures.stale_writes:,}"),
        ("unknown outcomes", f"{figures.unknown_outcomes:,}"),
        ("leader changes", f"{figures.leader_changes:,}"),
        *((f"fault: {name}", f"{count:,}") for name, count in figures.faults.items()),
        ("replies lost", f"{figures.lost_replies:,}"),
        ("lock grants", f"{figures.grants:,}"),
        ("firings", f"{figures.firings:,}"),
        ("events, deliveries", f"{figures.events:,}, {figures.deliveries:,}"),
        ("lasted", length(round(figures.seconds * 1_000_000))),
        ("settled after", "never" if document.settled_after is None else length(document.settled_after)),
        ("95 % bound per job", f"{figures.bound:.1e}"),
    ]
    yield "<h2>Figures</h2><dl>"
    yield from (f"<div><dt>{escape(name)}</dt><dd>{escape(value)}</dd></div>" for name, value in told)
    yield "</dl>"


def _timeline(timeline: Timeline) -> Iterator[str]:
    yield "<h2>Faults and take-overs</h2>"
    yield f'<div class="wide">{draw_timeline(timeline)}</div><p class="legend">'
    yield from (f'<span><svg viewBox="0 0 18 18">{drawn}</svg>{said}</span>' for drawn, said in LEGEND)
    yield "</p>"
    if len(timeline.takeovers) < timeline.all_takeovers:
        shown = f"{len(timeline.takeovers)} of {timeline.all_takeovers:,} take-overs are drawn."
        yield f'<p class="facts">{shown}</p>'


def _spread(case: Case) -> Iterator[str]:
    times = sorted(takeover.lasted for takeover in find_takeovers(case))
    if not times:
        return
    last = len(times) - 1
    middle, most = times[last // 2], times[round(last * 0.99)]
    told = f"p50 {length(middle)}, p99 {length(most)}, longest {length(times[-1])}"
    yield "<h2>From the end of a holder to the next start of its job</h2>"
    yield f"<p>{told}, of {len(times):,} whose holder was killed or frozen.</p>"
    yield f'<div class="wide small">{draw_spread(times)}</div>'


def _invariants(document: Document) -> Iterator[str]:
    yield '<h2>Invariants</h2><div class="wide"><table><thead><tr><th>name</th><th>what must hold</th>'
    yield '<th class="number">violations</th></tr></thead><tbody>'
    for ruling in document.rulings:
        mark = "broken" if ruling.violations else "ok"
        yield f"<tr><td>{ruling.name}</td><td>{escape(ruling.title)}{_findings(ruling)}</td>"
        yield f'<td class="number {mark}">{ruling.violations:,}</td></tr>'
    yield "</tbody></table></div>"


def _findings(ruling: Ruling) -> str:
    if not ruling.findings:
        return ""
    more = ruling.violations - len(ruling.findings)
    said = f"the first {len(ruling.findings)}" if more else f"all {len(ruling.findings)}"
    items = "".join(
        f"<li>{escape(finding.sentence)}{''.join(map(_exhibit, finding.evidence))}</li>"
        for finding in ruling.findings
    )
    return f"<details open><summary>{said}</summary><ol>{items}</ol></details>"


def _exhibit(exhibit: Exhibit) -> str:
    return f"<code>{escape(str(exhibit))}</code>"


def _floors(document: Document) -> Iterator[str]:
    yield "<h2>What must have happened for this to count</h2>"
    yield '<div class="wide"><table><thead><tr><th>what</th><th class="number">at least</th>'
    yield '<th class="number">happened</th></tr></thead><tbody>'
    for floor in document.floors:
        mark = "ok" if floor.is_reached else "broken"
        yield f'<tr><td>{escape(floor.name)}</td><td class="number">{floor.least:,}</td>'
        yield f'<td class="number {mark}">{floor.reached:,}</td></tr>'
    yield "</tbody></table></div>"
