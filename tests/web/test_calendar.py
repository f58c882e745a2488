"""Instants beyond the calendar: refused when they are given, and harmless where they are stored."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from holdfast.stores import open_store
from tests.web.serving import make_web, serving
from tests.web.shop import make_shop


async def migrate(url: str) -> None:
    store = open_store(url)
    assert store.migrations is not None
    await store.migrations.apply()
    await store.close()


@pytest.mark.parametrize("stored", [2**63 - 1, -(2**62)])
async def test_stored_instants_beyond_the_calendar_break_no_list(tmp_path: Path, stored: int) -> None:
    await migrate(url := f"sqlite:///{tmp_path}/jobs.db")
    beyond = "9999-12-31T23:59:59-14:00"
    with serving(make_web(make_shop(url))) as server:
        body = {"task": "add", "arguments": {"a": 1}}
        job_id = server.admin.post("/api/v1/jobs", json={**body, "delay": 60}).json()["job"]["id"]
        refused = server.admin.post("/api/v1/jobs", json={**body, "at": beyond})
        assert (refused.status_code, refused.json()["error"]["field"]) == (400, "at")
        with closing(sqlite3.connect(tmp_path / "jobs.db")) as database, database:
            database.execute(
                "UPDATE holdfast_job SET due = ?, created = ?, started = ?", (stored, stored, stored)
            )
        for path in ("jobs", f"jobs/{job_id}", "overview", "queues", "stats", "dlq/groups"):
            assert server.admin.get(f"/api/v1/{path}").status_code == 200, path
        shown = server.admin.get("/api/v1/jobs").json()["jobs"][0]
    assert shown["due"][:4] == shown["started"][:4] == ("9999" if stored > 0 else "0001")
