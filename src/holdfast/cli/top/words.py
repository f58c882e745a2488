"""Numbers, times and rates in few characters."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

_BARS = "▁▂▃▄▅▆▇█"
_LARGE = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e4, "k"))


def number(value: float) -> str:
    """A count: 9,999, and then 12.3k."""
    for size, letter in _LARGE:
        if abs(value) >= size:
            unit = size if letter != "k" else 1e3
            return f"{value / unit:.3g}{letter}" if value / unit < 999.5 else f"{value / unit:.0f}{letter}"
    return f"{value:,.0f}"


def rate(value: float) -> str:
    """Something per second: 0.04, 3.1, 250, 12.3k."""
    if value == 0:
        return "0"
    if value < 0.1:
        return f"{value:.2f}"
    return f"{value:.1f}" if value < 99.95 else number(value)


def span(seconds: float | None) -> str:
    """A time in two units at most: 4 ms, 1.2 s, 3m04s, 2h10m, 5d03h."""
    if seconds is None:
        return "-"
    if seconds < 0:
        return "-" + span(-seconds)
    if seconds < 0.9995:
        return f"{seconds * 1000:.{1 if seconds < 0.00995 else 0}f} ms" if seconds else "0 s"
    if seconds < 59.95:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes}m{rest:02}s"
    hours, minutes = divmod(minutes, 60)
    if hours < 24:
        return f"{hours}h{minutes:02}m"
    return f"{hours // 24}d{hours % 24:02}h"


def since(moment: datetime | None, now: datetime) -> str:
    """How long ago it was; what lies in the future by a clock that differs is now."""
    return "-" if moment is None else span(max(0.0, (now - moment).total_seconds()))


def until(moment: datetime | None, now: datetime) -> str:
    """In how long it is."""
    if moment is None:
        return "-"
    left = (moment - now).total_seconds()
    return f"in {span(left)}" if left > 0 else "now"


def sparkline(values: Sequence[float], width: int) -> str:
    """Values as bars, the highest of them full; several share a bar if there are more than fit."""
    if not values or width < 1:
        return ""
    each = -(-len(values) // width)
    start = len(values) % each
    groups = [values[:start]] if start else []
    groups += [values[place : place + each] for place in range(start, len(values), each)]
    highs = [max(group) for group in groups][-width:]
    top = max(highs)
    if top <= 0:
        return _BARS[0] * len(highs)
    return "".join(_BARS[min(7, int(high / top * 7.999))] if high > 0 else _BARS[0] for high in highs)
