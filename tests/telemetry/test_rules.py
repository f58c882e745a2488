"""Prometheus itself reads the files of `deploy`, and its alerts fire when they should."""

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.servers.promtool import find_promtool

PROMETHEUS = Path(__file__).parents[2] / "deploy" / "prometheus"
ALERTS = Path(__file__).with_name("alerts.yml")

pytestmark = pytest.mark.timeout(240)  # it may have to be fetched first


def promtool(*arguments: str | Path) -> str:
    ended = subprocess.run(
        [find_promtool(), *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stdout
    return ended.stdout


def test_prometheus_reads_the_rules_and_what_to_scrape() -> None:
    assert "SUCCESS" in promtool("check", "rules", PROMETHEUS / "holdfast.rules.yml")
    promtool("check", "config", "--syntax-only", PROMETHEUS / "scrape.yml")


def test_alerts_fire_when_they_should(tmp_path: Path) -> None:
    for file in (PROMETHEUS / "holdfast.rules.yml", ALERTS):
        shutil.copy(file, tmp_path)
    assert "SUCCESS" in promtool("test", "rules", tmp_path / ALERTS.name)


def test_an_alert_that_is_wrong_is_seen(tmp_path: Path) -> None:
    rules = (PROMETHEUS / "holdfast.rules.yml").read_text(encoding="utf-8")
    wrong = rules.replace("sum by (job) (holdfast_workers) == 0", "sum by (job) (holdfast_workers) == 1")
    (tmp_path / "holdfast.rules.yml").write_text(wrong, encoding="utf-8")
    shutil.copy(ALERTS, tmp_path)
    with pytest.raises(AssertionError, match="HoldfastNoWorkers"):
        promtool("test", "rules", tmp_path / ALERTS.name)
