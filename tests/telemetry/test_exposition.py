"""Metrics as text: what Prometheus' own reader makes of them, and what the page says about them."""

import re

import pytest
from prometheus_client.parser import text_string_to_metric_families

from holdfast.model.report import BOUNDS, OTHER
from holdfast.telemetry.catalogue import CATALOGUE
from holdfast.telemetry.exposition import render
from holdfast.telemetry.instruments import MOST_SERIES, Definition, Family, Histogram, Numbers
from tests.docs.page import ROOT

ROW = re.compile(
    r"^\| `(?P<name>holdfast_\w+)` \| (?P<kind>\w+) \| (?P<labels>[^|]*) \| (?P<help>[^|]+) \|$", re.MULTILINE
)
HOSTILE = [
    "plain",
    'a "quote"',
    "back\\slash",
    "two\nlines",
    "\\n",
    "}",
    "a,b=c",
    "ends with \\",
    "ünï",
    "\r\t",
    "",
]


def parsed(*families: Family) -> list[tuple[str, dict[str, str], float]]:
    found = text_string_to_metric_families(render(families))
    return [(sample.name, sample.labels, sample.value) for family in found for sample in family.samples]


@pytest.mark.parametrize("text", HOSTILE)
def test_any_label_and_any_help_is_read_back_as_it_was(text: str) -> None:
    counter = Numbers(Definition("jobs_total", "counter", f"<{text}>", ("task", "queue")))
    counter.add((text, "q"), 2)
    (family,) = text_string_to_metric_families(render([counter.family()]))
    (sample,) = family.samples
    assert (sample.name, sample.labels, sample.value) == ("jobs_total", {"task": text, "queue": "q"}, 2)
    assert family.documentation == f"<{text}>"
    assert family.type == "counter"


def test_a_histogram_counts_upwards_from_bound_to_bound() -> None:
    histogram = Histogram(Definition("wait_seconds", "histogram", "Wait.", ("queue",)))
    for seconds in (0.001, 0.0011, 59.5, 3600, 3601.5):
        histogram.observe(seconds, ("q",))
    found = {(name, labels.get("le")): value for name, labels, value in parsed(histogram.family())}
    assert found["wait_seconds_bucket", "0.001"] == 1, "a bound is part of its bucket"
    assert found["wait_seconds_bucket", "0.005"] == 2
    assert found["wait_seconds_bucket", "30.0"] == 2
    assert found["wait_seconds_bucket", "60.0"] == 3
    assert found["wait_seconds_bucket", "3600.0"] == 4
    assert found["wait_seconds_bucket", "+Inf"] == found["wait_seconds_count", None] == 5
    assert found["wait_seconds_sum", None] == pytest.approx(7261.0021)
    assert len(found) == len(BOUNDS) + 3


def test_numbers_are_read_back_exactly() -> None:
    gauge = Numbers(Definition("size", "gauge", "Size.", ("of",)))
    values = {"a": 0, "b": 12_345_678_901_234_567, "c": 0.1 + 0.2, "d": -1.5, "e": 1e300, "f": float("inf")}
    for name, value in values.items():
        gauge.set(value, (name,))
    assert {labels["of"]: value for _, labels, value in parsed(gauge.family())} == values


def test_too_many_series_are_counted_together() -> None:
    counter = Numbers(Definition("jobs_total", "counter", "Jobs.", ("queue", "task")))
    histogram = Histogram(Definition("run_seconds", "histogram", "Run.", ("queue",)))
    gauge = Numbers(Definition("depth", "gauge", "Depth.", ("queue",)))
    for number in range(MOST_SERIES + 20):
        counter.add((f"q{number}", "t"))
        counter.add((f"q{number}", "t"))
        histogram.observe(1.0, (f"q{number}",))
        gauge.set(1, (f"q{number}",))
    points = counter.family().points
    assert len(points) == MOST_SERIES + 1
    assert points["q0", "t"] == 2
    assert points[OTHER, OTHER] == 40
    (rest,) = [
        value
        for name, labels, value in parsed(histogram.family())
        if (name, labels) == ("run_seconds_count", {"queue": OTHER})
    ]
    assert rest == 20
    assert len(gauge.family().points) == MOST_SERIES


def test_a_counter_without_labels_is_seen_before_it_counts() -> None:
    assert parsed(Numbers(Definition("losses_total", "counter", "Losses.")).family()) == [
        ("losses_total", {}, 0)
    ]


def test_what_is_replaced_is_forgotten() -> None:
    gauge = Numbers(Definition("depth", "gauge", "Depth.", ("queue",)))
    gauge.set(3, ("old",))
    gauge.replace([(("new",), 1)])
    assert gauge.family().points == {("new",): 1}


def test_names_follow_the_conventions() -> None:
    for each in CATALOGUE:
        assert re.fullmatch(r"holdfast_[a-z_]+", each.name)
        assert each.name.endswith("_total") == (each.kind == "counter"), each.name
        assert each.kind != "histogram" or each.name.endswith("_seconds"), each.name
        assert "le" not in each.labels
    assert len({each.name for each in CATALOGUE}) == len(CATALOGUE)


def test_the_page_lists_every_metric_as_it_is() -> None:
    page = (ROOT / "docs/metrics.md").read_text(encoding="utf-8")
    told = [
        (row["name"], row["kind"], tuple(re.findall(r"`(\w+)`", row["labels"])), row["help"].strip())
        for row in ROW.finditer(page)
    ]
    assert sorted(told) == sorted((each.name, each.kind, each.labels, each.help) for each in CATALOGUE)
