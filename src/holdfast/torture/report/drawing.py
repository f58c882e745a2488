"""The timeline and the take-over times as SVG, with classes for the page's own colours."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape

from holdfast.torture.report.timeline import BUCKETS, Lane, Span, Timeline, lane_of

WIDTH = 1200
LEFT = 132
RIGHT = 12
LANE = 34
TOP = 8
FOOT = 26
TICKS = 8
BARS = 40
BAR_HEIGHT = 120


class Canvas:
    """Where a moment and a lane are on the paper."""

    def __init__(self, timeline: Timeline) -> None:
        self._timeline = timeline
        self._scale = (WIDTH - LEFT - RIGHT) / timeline.length
        self._rows = {lane.name: number for number, lane in enumerate(timeline.lanes)}
        self.height = TOP + LANE * len(timeline.lanes) + FOOT
        self.floor = self.height - FOOT

    def x(self, at: int) -> float:
        return round(LEFT + (at - self._timeline.begun) * self._scale, 1)

    def y(self, lane: str) -> int | None:
        row = self._rows.get(lane)
        return None if row is None else TOP + row * LANE


def draw_timeline(timeline: Timeline) -> str:
    canvas = Canvas(timeline)
    label = f"Faults and take-overs of {len(timeline.lanes)} processes over {length(timeline.length)}"
    parts = [
        f'<svg viewBox="0 0 {WIDTH} {canvas.height}" role="img" aria-label="{escape(label)}">',
        *_axis(timeline, canvas),
        *(part for lane in timeline.lanes for part in _lane(lane, canvas, timeline)),
        *_takeovers(timeline, canvas),
        "</svg>",
    ]
    return "\n".join(parts)


def _axis(timeline: Timeline, canvas: Canvas) -> Iterator[str]:
    for number in range(TICKS + 1):
        at = timeline.begun + timeline.length * number // TICKS
        x = canvas.x(at)
        anchor = "end" if number == TICKS else "middle"
        yield f'<line class="grid" x1="{x}" x2="{x}" y1="{TOP}" y2="{canvas.floor}"/>'
        text = _clock(at - timeline.begun)
        yield f'<text class="axis" x="{x}" y="{canvas.height - 8}" text-anchor="{anchor}">{text}</text>'
    if timeline.calm is not None:
        x = canvas.x(timeline.calm)
        box = f'x="{x}" y="{TOP}" width="{max(0, WIDTH - RIGHT - x)}" height="{canvas.floor - TOP}"'
        yield f'<rect class="calm" {box}>'
        yield "<title>calm: no more faults</title></rect>"


def _lane(lane: Lane, canvas: Canvas, timeline: Timeline) -> Iterator[str]:
    y = canvas.y(lane.name) or TOP
    middle = y + LANE / 2
    yield f'<text class="lane" x="{LEFT - 10}" y="{middle + 4}" text-anchor="end">{escape(lane.name)}</text>'
    yield f'<line class="rail" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y + LANE - 4}" y2="{y + LANE - 4}"/>'
    yield from _activity(lane, y, timeline)
    for span in sorted(lane.spans, key=lambda span: span.begun == span.ended):
        yield _fault(span, canvas, y, timeline)
    for at in lane.terms:
        x = canvas.x(at)
        yield f'<path class="term" d="M{x} {y + 3}l4 6h-8z"><title>leader from here</title></path>'


def _activity(lane: Lane, y: int, timeline: Timeline) -> Iterator[str]:
    """How many attempts began, as a skyline; all lanes have the same scale."""
    most = max((count for each in timeline.lanes for count in each.starts), default=0)
    if not any(lane.starts):
        return
    width = (WIDTH - LEFT - RIGHT) / BUCKETS
    bottom, points = y + LANE - 4, [f"M{LEFT} {y + LANE - 4}"]
    for number, count in enumerate(lane.starts):
        points.append(f"L{LEFT + number * width:.1f} {bottom - count / most * (LANE - 10):.1f}h{width:.1f}")
    yield f'<path class="work" d="{"".join(points)}V{bottom}z"/>'


def _fault(span: Span, canvas: Canvas, y: int, timeline: Timeline) -> str:
    x, end = canvas.x(span.begun), canvas.x(span.ended)
    said = f"{span.name} at {_clock(span.begun - timeline.begun)}"
    if span.ended > span.begun:
        said += f" for {length(span.ended - span.begun)}"
    if span.count:
        said += f", {span.count} times"
    title = f"<title>{escape(said)}</title>"
    if span.sort == "death":
        return f'<path class="death" d="M{x - 3} {y + 6}l6 8m0 -8l-6 8">{title}</path>'
    width = max(2.0, round(end - x, 1))
    box = f'x="{x}" y="{y + 4}" width="{width}" height="{LANE - 12}"'
    return f'<rect class="{span.sort}" {box} rx="1">{title}</rect>'


def _takeovers(timeline: Timeline, canvas: Canvas) -> Iterator[str]:
    for each in timeline.takeovers:
        above, below = canvas.y(lane_of(each.before)), canvas.y(lane_of(each.after))
        if above is None or below is None:
            continue
        x1, x2 = canvas.x(each.died), canvas.x(each.begun)
        y1, y2 = above + LANE / 2, below + LANE / 2
        said = f"job {each.job} went from {each.before} to {each.after} in {length(each.lasted)}"
        yield f'<g class="takeover"><title>{escape(said)}</title>'
        yield f'<line x1="{x1}" y1="{y1}" x2="{x2}" y2="{y2}"/><circle cx="{x2}" cy="{y2}" r="2"/></g>'


def draw_spread(times: list[int]) -> str:
    """How many take-overs lasted how long."""
    longest = max(times)
    counts = [0] * BARS
    for time in times:
        counts[min(BARS - 1, time * BARS // (longest + 1))] += 1
    most, width = max(counts), 560 / BARS
    parts = [f'<svg viewBox="0 0 580 {BAR_HEIGHT + 24}" role="img" aria-label="Take-over times">']
    for number, count in enumerate(counts):
        height = count / most * BAR_HEIGHT
        x, y = 10 + number * width, BAR_HEIGHT - height
        said = f"{count} up to {length((number + 1) * longest // BARS)}"
        box = f'x="{x:.1f}" y="{y:.1f}" width="{width - 2:.1f}" height="{height:.1f}"'
        parts.append(f'<rect class="bar" {box}><title>{said}</title></rect>')
    for number in range(5):
        x, anchor = 10 + number * 140, "start" if number == 0 else "end" if number == 4 else "middle"
        text = length(longest * number // 4)
        parts.append(f'<text class="axis" x="{x}" y="{BAR_HEIGHT + 18}" text-anchor="{anchor}">{text}</text>')
    return "\n".join([*parts, "</svg>"])


def _clock(microseconds: int) -> str:
    """A moment of the campaign, as a stop-watch shows it."""
    minutes, seconds = divmod(microseconds // 1_000_000, 60)
    return f"{minutes // 60}:{minutes % 60:02}:{seconds:02}" if minutes >= 60 else f"{minutes}:{seconds:02}"


def length(microseconds: int) -> str:
    seconds = microseconds / 1_000_000
    if seconds >= 120:
        return f"{seconds / 60:.0f} min" if seconds < 7_200 else f"{seconds / 3600:.1f} h"
    return f"{seconds:.0f} s" if seconds >= 20 or seconds == 0 else f"{seconds:.2g} s"
