"""Stores that traces go through."""

from pathlib import Path

import pytest


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "postgres":
        found: str = request.getfixturevalue("postgres_database")
        return found
    return "memory://" if request.param == "memory" else f"sqlite:///{tmp_path}/jobs.db"
