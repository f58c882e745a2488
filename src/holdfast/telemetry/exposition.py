"""Metrics as text that Prometheus reads: the exposition format 0.0.4."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import accumulate

from holdfast.model.report import BOUNDS
from holdfast.telemetry.instruments import Distribution, Family, Labels

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
"""What an HTTP answer with this text says that it is."""


def render(families: Iterable[Family]) -> str:
    return "".join(f"{line}\n" for family in families for line in _lines(family))


def _lines(family: Family) -> Iterator[str]:
    definition = family.definition
    name = definition.name
    yield f"# HELP {name} {_escape(definition.help)}"
    yield f"# TYPE {name} {definition.kind}"
    for values, point in sorted(family.points.items()):
        pairs = _pairs(definition.labels, values)
        if isinstance(point, Distribution):
            yield from _histogram(name, pairs, point)
        else:
            yield f"{name}{_braced(pairs)} {_number(point)}"


def _histogram(name: str, pairs: list[str], point: Distribution) -> Iterator[str]:
    for bound, below in zip((*map(repr, BOUNDS), "+Inf"), accumulate(point.counts), strict=True):
        yield f"{name}_bucket{_braced([*pairs, _pair('le', bound)])} {below}"
    yield f"{name}_sum{_braced(pairs)} {_number(point.sum)}"
    yield f"{name}_count{_braced(pairs)} {point.count}"


def _pairs(names: Labels, values: Labels) -> list[str]:
    return [
        _pair(name, _escape(value).replace('"', '\\"')) for name, value in zip(names, values, strict=True)
    ]


def _pair(name: str, escaped: str) -> str:
    return f'{name}="{escaped}"'


def _braced(pairs: list[str]) -> str:
    return "{" + ",".join(pairs) + "}" if pairs else ""


def _escape(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n")


def _number(value: float) -> str:
    return str(int(value)) if float(value).is_integer() else repr(value)
