"""Commands about the store itself: migrate, doctor, bench."""

import json
import sqlite3
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from holdfast.cli.main import cli

FILE = ("--store", "sqlite:///jobs.db")


def invoke(*arguments: str) -> Result:
    result = CliRunner().invoke(cli, arguments)
    assert "\x1b" not in result.output
    return result


def asked(*arguments: str, code: int = 0) -> Any:
    result = invoke(*arguments, "--json")
    assert result.exit_code == code, result.output
    return json.loads(result.stdout)


def tables(path: Path) -> set[str]:
    connection = sqlite3.connect(path)
    try:
        return {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    finally:
        connection.close()


def test_migrate_makes_the_tables_once(folder: Path) -> None:
    assert asked("migrate", *FILE)["applied"] != []
    made = tables(folder / "jobs.db")
    assert made
    assert asked("migrate", *FILE)["applied"] == []
    assert invoke("migrate", *FILE).stdout == "Nothing to do: the schema is up to date.\n"


def test_the_printed_sql_makes_the_same_tables(folder: Path) -> None:
    printed = invoke("migrate", "--print-sql", *FILE)
    assert printed.exit_code == 0
    assert not (folder / "jobs.db").exists()
    by_hand = sqlite3.connect(folder / "by-hand.db", isolation_level=None)
    by_hand.executescript(printed.stdout)
    by_hand.close()
    invoke("migrate", *FILE)
    assert tables(folder / "by-hand.db") == tables(folder / "jobs.db")
    assert asked("migrate", "--store", "sqlite:///by-hand.db")["applied"] == []


def test_doctor_finds_nothing_wrong_with_a_fresh_start_and_leaves_no_file(folder: Path) -> None:
    found = asked("doctor", *FILE)
    assert found["problems"] == []
    assert found["store"]["schema"].startswith("made at the first use: ")
    assert not (folder / "jobs.db").exists()


def test_doctor_tells_where_each_setting_comes_from(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "holdfast.toml").write_text("concurrency = 3\n")
    monkeypatch.setenv("HOLDFAST_POLL_SECONDS", "2")
    found = asked("doctor", *FILE)
    assert set(found) == {"versions", "settings", "store", "warnings", "problems"}
    assert found["settings"]["concurrency"] == {"value": 3, "source": "holdfast.toml"}
    assert found["settings"]["poll_seconds"] == {"value": 2.0, "source": "HOLDFAST_POLL_SECONDS"}
    assert found["settings"]["store"] == {"value": "sqlite:///jobs.db", "source": "--store"}
    assert found["settings"]["batch"]["source"] == "default"
    assert {"holdfast", "python", "sqlite"} <= set(found["versions"])
    assert found["store"]["engine"] == "sqlite"
    assert "durability" in found["store"]


def test_doctor_reads_an_existing_store(folder: Path) -> None:
    invoke("migrate", *FILE)
    result = invoke("doctor", *FILE)
    assert result.exit_code == 0
    assert result.stdout.endswith("Nothing is wrong.\n")


def test_doctor_fails_on_a_damaged_file(folder: Path) -> None:
    (folder / "jobs.db").write_bytes(b"this is not a database, but long enough to be looked at" * 100)
    found = asked("doctor", *FILE, code=1)
    assert len(found["problems"]) == 1
    assert "problem: " in invoke("doctor", *FILE).stdout


@pytest.mark.usefixtures("folder")
def test_doctor_fails_when_the_store_finds_itself_damaged(monkeypatch: pytest.MonkeyPatch) -> None:
    async def facts(self: object) -> dict[str, str]:
        return {"integrity": "integrity_check: row 3 missing from index", "warning age": "it is old"}

    monkeypatch.setattr("holdfast.stores.memory.MemoryStore.facts", facts)
    found = asked("doctor", "--store", "memory://", code=1)
    assert found["problems"] == ["the store is damaged: integrity_check: row 3 missing from index"]
    assert found["warnings"] == ["it is old"]


def test_doctor_fails_where_tables_are_missing_and_must_be_asked_for(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOLDFAST_AUTO_MIGRATE", "false")
    assert "holdfast migrate" in asked("doctor", *FILE, code=1)["problems"][0]


def test_bench_measures_and_removes_what_it_made(folder: Path) -> None:
    measured = asked("bench", "--jobs", "200", *FILE)
    assert set(measured) == {
        *("store", "jobs", "callers", "enqueue_per_second", "process_per_second"),
        *("latency_ms_p50", "latency_ms_p95"),
    }
    assert measured["jobs"] == 200
    assert all(value > 0 for name, value in measured.items() if name != "store")
    connection = sqlite3.connect(folder / "jobs.db")
    left = [connection.execute(f"SELECT count(*) FROM {name}").fetchone()[0] for name in _job_tables(folder)]
    connection.close()
    assert left
    assert sum(left) == 0


def _job_tables(folder: Path) -> list[str]:
    return [name for name in tables(folder / "jobs.db") if name.endswith(("_job", "_done", "_attempt"))]


def test_bench_without_a_store_leaves_no_file(folder: Path) -> None:
    before = set(folder.iterdir())
    result = invoke("bench", "--jobs", "100")
    assert result.exit_code == 0, result.output
    assert "jobs/s" in result.stdout
    assert set(folder.iterdir()) == before
