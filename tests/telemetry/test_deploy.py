"""The dashboard and the alerts that we ship ask for metrics and labels that there are."""

import json
import re
from collections.abc import Iterator
from typing import Any

import promql_parser
import pytest
import yaml

from holdfast.telemetry.catalogue import CATALOGUE
from tests.docs.page import ROOT

OWN = {"job", "instance", "process", "le"}
"""Labels that Prometheus, a supervisor or a histogram adds."""

GRAFANA = {"$__rate_interval": "5m", "$__range": "1h"}
SERIES = {
    f"{each.name}{suffix}": {*each.labels, *OWN}
    for each in CATALOGUE
    for suffix in (("_bucket", "_sum", "_count") if each.kind == "histogram" else ("",))
}
DASHBOARD = json.loads((ROOT / "deploy/grafana/holdfast.json").read_text(encoding="utf-8"))
RULES = yaml.safe_load((ROOT / "deploy/prometheus/holdfast.rules.yml").read_text(encoding="utf-8"))
ALERTS = [rule for group in RULES["groups"] for rule in group["rules"]]
PANELS = [panel for panel in DASHBOARD["panels"] if panel["type"] != "row"]


def asked() -> Iterator[tuple[str, str]]:
    for panel in PANELS:
        for target in panel["targets"]:
            yield f"{panel['title']} {target['refId']}", target["expr"]
    for rule in ALERTS:
        yield rule["alert"], rule["expr"]


def nodes(expression: Any) -> Iterator[Any]:
    """The expression and all that is in it."""
    yield expression
    for name in ("expr", "lhs", "rhs", "vector_selector", "param"):
        inner = getattr(expression, name, None)
        if inner is not None:
            yield from nodes(inner)
    for inner in getattr(expression, "args", None) or ():
        yield from nodes(inner)


def parsed(text: str) -> list[Any]:
    for name, meaning in GRAFANA.items():
        text = text.replace(name, meaning)
    return list(nodes(promql_parser.parse(text)))


def problems(text: str) -> list[str]:
    """Which metrics and labels of an expression there are not."""
    found = parsed(text)
    selectors = [node for node in found if isinstance(node, promql_parser.VectorSelector)]
    unknown = [str(each.name) for each in selectors if each.name not in SERIES]
    known = {label for each in selectors for label in SERIES.get(str(each.name), ())}
    unknown += [
        f"{each.name}{{{matcher.name}}}"
        for each in selectors
        for matcher in each.matchers.matchers
        if matcher.name not in SERIES.get(str(each.name), ())
    ]
    for node in found:
        modifier = getattr(node, "modifier", None)
        labels = getattr(modifier, "labels", None)
        unknown += [f"by {label}" for label in labels or () if label not in known]
    return unknown + ([] if selectors else ["no metric"])


@pytest.mark.parametrize(("where", "expression"), list(asked()), ids=[where for where, _ in asked()])
def test_every_expression_asks_for_what_there_is(where: str, expression: str) -> None:
    assert problems(expression) == []


@pytest.mark.parametrize(
    ("expression", "found"),
    [
        ("rate(holdfast_nothing_total[5m])", ["holdfast_nothing_total"]),
        ('sum(holdfast_workers{queue="a"})', ["holdfast_workers{queue}"]),
        ("sum by (task) (rate(holdfast_leases_acquired_total[5m]))", ["by task"]),
        ("holdfast_job_run_seconds", ["holdfast_job_run_seconds"]),
        ("a and max(holdfast_workers) > 1", ["a"]),
        ("1 + 1", ["no metric"]),
    ],
)
def test_what_there_is_not_would_be_found(expression: str, found: list[str]) -> None:
    assert problems(expression) == found


def test_labels_in_legends_and_texts_are_those_of_their_expression() -> None:
    for panel in PANELS:
        for target in panel["targets"]:
            for label in re.findall(r"{{\s*(\w+)\s*}}", target["legendFormat"]):
                assert re.search(rf"by \([^)]*\b{label}\b", target["expr"]), (panel["title"], label)
    for rule in ALERTS:
        texts = " ".join(rule["annotations"].values())
        for label in re.findall(r"\$labels\.(\w+)", texts):
            assert re.search(rf"by \([^)]*\b{label}\b", rule["expr"]), (rule["alert"], label)


def test_most_of_the_catalogue_is_shown() -> None:
    text = json.dumps(DASHBOARD)
    left_out = {each.name for each in CATALOGUE if each.name not in text}
    assert left_out <= {
        "holdfast_retries_total",
        "holdfast_queue_age_seconds",
        "holdfast_leader_terms_lost_total",
        "holdfast_events_relayed_total",
        "holdfast_event_handling_seconds",
        "holdfast_store_circuit_opened_total",
        "holdfast_store_circuit_closed_total",
        "holdfast_store_probes_total",
    }


def test_the_dashboard_is_one_that_grafana_takes() -> None:
    assert DASHBOARD["uid"] == "holdfast"
    assert "id" not in DASHBOARD, "Grafana numbers dashboards itself"
    ids = [panel["id"] for panel in DASHBOARD["panels"]]
    assert len(ids) == len(set(ids))
    variables = {each["name"] for each in DASHBOARD["templating"]["list"]}
    used = set(re.findall(r"\$(?!__)\{?(\w+)", json.dumps(DASHBOARD["panels"])))
    assert used <= variables == {"datasource", "job", "instance", "queue"}
    taken: set[tuple[int, int]] = set()
    for panel in DASHBOARD["panels"]:
        place = panel["gridPos"]
        assert place["x"] + place["w"] <= 24
        columns = range(place["x"], place["x"] + place["w"])
        cells = {(x, y) for x in columns for y in range(place["y"], place["y"] + place["h"])}
        assert not cells & taken, f"{panel['title']} overlaps another"
        taken |= cells
    for panel in PANELS:
        assert panel["type"] in {"timeseries", "stat", "heatmap"}
        assert panel["title"]
        assert panel["description"]
        assert panel["datasource"]["uid"] == "${datasource}"


def test_alerts_are_such_as_prometheus_takes() -> None:
    names = [rule["alert"] for rule in ALERTS]
    assert len(names) == len(set(names))
    for rule in ALERTS:
        assert set(rule) <= {"alert", "expr", "for", "labels", "annotations"}
        assert rule["alert"].startswith("Holdfast")
        assert rule["labels"]["severity"] in {"info", "warning", "critical"}
        assert set(rule["annotations"]) == {"summary", "description"}
        assert re.fullmatch(r"\d+[smh]", rule.get("for", "1m"))


def test_the_scrape_config_names_the_port_that_the_page_uses() -> None:
    text = (ROOT / "deploy/prometheus/scrape.yml").read_text(encoding="utf-8")
    [job] = yaml.safe_load(text)["scrape_configs"]
    assert all(target.endswith(":9464") for target in job["static_configs"][0]["targets"])
