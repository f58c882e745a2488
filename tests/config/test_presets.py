"""Presets: settings under one name, in the place of the defaults."""

from collections.abc import Callable
from pathlib import Path

import pytest

from holdfast import ConfigurationError, Holdfast, every
from holdfast.engine.keeper import STRIKES
from holdfast.engine.notices import Notices
from holdfast.engine.scheduler import Scheduler
from holdfast.model.scheduling import Term
from holdfast.model.timing import SECOND
from holdfast.stores.memory import MemoryStore


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory without settings."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def in_code(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Holdfast:
    return Holdfast("memory://", preset="jobs")


def in_the_environment(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Holdfast:
    monkeypatch.setenv("HOLDFAST_PRESET", "jobs")
    return Holdfast("memory://")


def in_a_file(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Holdfast:
    (folder / "holdfast.toml").write_text('preset = "jobs"\n', encoding="utf-8")
    return Holdfast("memory://")


@pytest.mark.parametrize("named", [in_code, in_the_environment, in_a_file])
def test_one_line_gives_the_numbers(
    named: Callable[[Path, pytest.MonkeyPatch], Holdfast], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = named(folder, monkeypatch)

    @app.schedule()
    @app.task
    async def work() -> None:
        """Recurs."""

    timing = app.settings.timing
    assert timing.lease == 2 * 60 * SECOND
    assert timing.heartbeat == 30 * SECOND
    assert STRIKES == 3
    assert STRIKES * timing.heartbeat < timing.lease
    assert app.settings.poll_seconds == 60
    assert [plan.schedule.recurrence for plan in app.declared] == [every(minutes=10, anchor="start")]


def test_whatever_is_said_elsewhere_wins_over_the_preset(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "holdfast.toml").write_text("poll_seconds = 30\nlease_seconds = 60\n", encoding="utf-8")
    monkeypatch.setenv("HOLDFAST_INTERVAL_SECONDS", "300")
    settings = Holdfast("memory://", preset="jobs", lease_seconds=20).settings
    assert (settings.poll_seconds, settings.interval_seconds, settings.lease_seconds) == (30, 300, 20)
    assert settings.timing.heartbeat == 5 * SECOND, "it scales with the lease"
    assert settings.retry == "immediate"


def test_a_preset_that_there_is_none_of_is_refused(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigurationError, match=r"^preset: 'job' is not one of jobs$"):
        _ = Holdfast(preset="job").settings
    monkeypatch.setenv("HOLDFAST_PRESET", "Jobs")
    with pytest.raises(ConfigurationError, match=r"^HOLDFAST_PRESET: 'Jobs' is not one of jobs$"):
        _ = Holdfast().settings


def test_what_does_not_fit_the_lease_of_the_preset_is_named_and_not_the_lease(folder: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"^heartbeat_seconds: a lease of 120 s is too short"):
        _ = Holdfast(preset="jobs", heartbeat_seconds=50).settings


def test_without_the_preset_a_schedule_needs_a_recurrence(folder: Path) -> None:
    app = Holdfast("memory://")

    @app.schedule()
    @app.task
    async def work() -> None:
        """Would recur."""

    with pytest.raises(ConfigurationError, match=r"'work' has no recurrence; .* or set interval_seconds$"):
        _ = app.declared
    assert app.configured(interval_seconds=60).declared[0].schedule.recurrence == every(60, anchor="start")


async def test_the_leader_looks_each_minute_also_when_there_is_no_schedule_yet() -> None:
    session = await MemoryStore().connect("default")
    settings = Holdfast(preset="jobs").settings
    scheduler = Scheduler(session.schedules, settings.poll_seconds, Notices())
    assert await scheduler.turn(Term(lock="leader", owner="w", token=1)) == 60
