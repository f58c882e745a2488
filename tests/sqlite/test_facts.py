"""What an operator is told."""

import asyncio
import sqlite3
import time
from pathlib import Path

import pytest

from holdfast.stores.sqlite import facts as module
from holdfast.stores.sqlite.facts import has_wal_reset_bug
from holdfast.stores.sqlite.schema import CLIENT
from tests.sqlite.support import file_of, new_job, session_at, store_at


async def test_facts_name_file_durability_schema_and_sizes(tmp_path: Path) -> None:
    async with session_at(tmp_path) as session:
        await session.jobs.add([new_job()])
        facts = await store_at(tmp_path).facts()
    assert facts["engine"] == "sqlite"
    assert facts["version"] == sqlite3.sqlite_version
    assert facts["file"] == str(file_of(tmp_path))
    assert facts["durability"].startswith("synchronous=FULL")
    assert facts["journal mode"] == "wal"
    assert facts["schema"] == f"version {CLIENT}"
    assert facts["integrity"] == "integrity_check: ok"
    assert {"file size", "log size"} <= facts.keys()
    assert "warning durability" not in facts


async def test_a_weaker_choice_is_printed(tmp_path: Path) -> None:
    facts = await store_at(tmp_path, "?synchronous=normal").facts()
    assert facts["durability"].startswith("synchronous=NORMAL")
    assert "loses power" in facts["warning durability"]


async def test_a_file_that_is_not_there_is_not_made_by_asking(tmp_path: Path) -> None:
    facts = await store_at(tmp_path).facts()
    assert "not there yet" in facts["schema"]
    assert not file_of(tmp_path).exists()


@pytest.mark.parametrize(
    ("version", "has_it"),
    [
        ((3, 6, 23), False),
        ((3, 7, 0), True),
        ((3, 40, 1), True),
        ((3, 44, 5), True),
        ((3, 44, 6), False),
        ((3, 45, 0), True),
        ((3, 50, 6), True),
        ((3, 50, 7), False),
        ((3, 51, 0), True),
        ((3, 51, 2), True),
        ((3, 51, 3), False),
        ((3, 52, 0), False),
    ],
)
def test_versions_with_the_wal_reset_bug_are_known(version: tuple[int, int, int], has_it: bool) -> None:
    assert has_wal_reset_bug(version) is has_it


async def test_a_network_file_system_is_warned_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_file_system", lambda folder: "nfs4")
    facts = await store_at(tmp_path).facts()
    assert facts["warning file system"].startswith("nfs4 is a network file system")


async def test_a_clock_that_is_off_is_warned_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with session_at(tmp_path):
        assert "warning clock" not in await store_at(tmp_path).facts()
        right = time.time
        monkeypatch.setattr(time, "time", lambda: right() - 3_600)
        facts = await asyncio.to_thread(module.facts, store_at(tmp_path)._address)
    assert facts["warning clock"].startswith("the store's clock is +3600 s off")
