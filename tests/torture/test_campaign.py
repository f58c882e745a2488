"""Short campaigns from end to end, on each store: nothing that is promised may break."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from holdfast.torture import dump
from holdfast.torture.history import Calm, Fault, read
from tests.servers.binaries import find_binaries
from tests.servers.redis_binaries import find_redis
from tests.servers.run import Run

pytestmark = [pytest.mark.campaign, pytest.mark.process, pytest.mark.timeout(420)]

PASSED, VACUOUS = 0, 3
"""On a slow machine little happens in so short a time; that alone is no fault."""


def nowhere(run: Run) -> Path | None:
    return None


@pytest.mark.parametrize(
    ("store", "programs"),
    [
        ("sqlite:", nowhere),
        ("postgresql:", find_binaries),
        ("redis:", lambda run: find_redis(run).parent),
    ],
    ids=["sqlite", "postgresql", "redis"],
)
def test_a_short_campaign_breaks_no_promise(
    tmp_path: Path, servers: Run, store: str, programs: Callable[[Run], Path | None]
) -> None:
    out = tmp_path / "out"
    folder = programs(servers)
    path = os.pathsep.join([*([str(folder)] if folder else []), os.environ["PATH"]])
    options = ["--store", store, "--jobs", "3000", "--seconds", "20", "--workers", "3", "--seed", "11"]
    command = [sys.executable, "-m", "holdfast", "torture", *options, "--out", str(out)]
    ended = subprocess.run(
        command, env={**os.environ, "PATH": path}, capture_output=True, text=True, check=False
    )
    told = ended.stdout + ended.stderr + evidence(out)
    assert ended.returncode in {PASSED, VACUOUS}, told
    assert (out / "report.html").exists(), told
    found = dump.read(out)
    assert sum(job.state == "success" for job in found.jobs) > 50, told
    records = read(out)
    assert {fault.name for fault in records if isinstance(fault, Fault)} >= {"kill", "freeze", "lost reply"}
    assert any(isinstance(record, Calm) for record in records)
    assert set(found.left_out).isdisjoint({"kill", "freeze", "terminate"})


def evidence(out: Path) -> str:
    """What proves each violation: the folder of a test may be gone before anybody looks into it."""
    report = out / "report.json"
    if not report.exists():
        return ""
    rulings = json.loads(report.read_text(encoding="utf-8"))["rulings"]
    found = [json.dumps(finding, indent=1) for ruling in rulings for finding in ruling["findings"]]
    logs = [
        f"{path.name}:\n{text[-2000:]}"
        for path in sorted((out / "logs").iterdir())
        if "Traceback" in (text := path.read_text(encoding="utf-8", errors="replace"))
    ]
    return "\n".join([*found[:10], *logs[:5]])
