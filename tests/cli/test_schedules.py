"""Commands that look at schedules and steer them, on a SQLite file that each command opens anew."""

import json
import sqlite3
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from holdfast.cli.main import cli
from holdfast.cli.recurrence import describe
from holdfast.model.recurrence import every
from tests.cli.conftest import Run

LATER = datetime(2096, 3, 1, 9, tzinfo=UTC)
NIGHTLY = ("nightly", "add", '{"a": 1}', "--cron", "0 3 * * *", "--tz", "Europe/Berlin")


@pytest.fixture(autouse=True)
def configured(folder: Path) -> None:
    (folder / "holdfast.toml").write_text('store = "sqlite:///jobs.db"\n')


def invoke(*arguments: str) -> Result:
    result = CliRunner().invoke(cli, arguments)
    assert "\x1b" not in result.output
    return result


def done(*arguments: str) -> str:
    result = invoke(*arguments)
    assert result.exit_code == 0, result.output
    return result.stdout


def asked(*arguments: str) -> Any:
    """The JSON document that a command prints."""
    return json.loads(done(*arguments, "--json"))


def add(*arguments: str) -> Any:
    return asked("schedules", "add", "shop:app", *arguments)["schedule"]


def listed() -> dict[str, Any]:
    return {each["name"]: each for each in asked("schedules", "list")["schedules"]}


def test_schedules_of_all_kinds_are_added_and_listed() -> None:
    assert add("often", "add", "[1]", "--every", "1h30m", "--anchor", "end")["version"] == 1
    add(*NIGHTLY, "--misfire", "all", "--overlap", "queue", "--jitter", "5m", "--queue", "slow")
    add("once", "explode", '{"message": "x"}', "--at", LATER.isoformat())
    add("from", "add", "[1]", "--every", "90", "--start", "2096-03-01T09:00:00+01:00", "--misfire", "skip")
    found = listed()
    assert list(found) == ["from", "nightly", "often", "once"]
    assert found["often"]["recurrence"] == {
        "kind": "every",
        "seconds": 5400,
        "anchor": "end",
        "start": None,
    }
    nightly = found["nightly"]
    assert nightly["recurrence"] == {"kind": "cron", "expression": "0 3 * * *", "tz": "Europe/Berlin"}
    assert [nightly[name] for name in ("task", "queue", "misfire", "overlap", "jitter", "paused", "job")] == [
        "add",
        "slow",
        "all",
        "queue",
        300,
        False,
        None,
    ]
    assert found["once"]["recurrence"] == {"kind": "at", "at": "2096-03-01T09:00:00Z"}
    assert (found["from"]["next_due"], found["from"]["last_due"]) == ("2096-03-01T08:00:00Z", None)


def test_the_table_says_what_each_schedule_is() -> None:
    assert done("schedules", "list", "--store", "memory://") == "No schedules.\n"
    add("often", "add", "[1]", "--every", "90m", "--anchor", "start")
    add("once", "add", "[1]", "--at", LATER.isoformat())
    add(*NIGHTLY)
    done("schedules", "pause", "nightly")
    header, nightly, often, once = done("schedules", "list").splitlines()
    assert header.split() == [
        *("name", "is", "task", "queue", "when", "next", "last", "missed", "skipped", "version"),
    ]
    assert nightly.split()[:2] == ["nightly", "paused"]
    assert "0 3 * * * (Europe/Berlin)" in nightly
    assert "every 1h30m from its start" in often
    assert once.count("2096-03-01 09:00:00Z") == 2


def test_an_added_schedule_is_told_in_a_sentence() -> None:
    sentence = done("schedules", "add", "shop:app", "once", "add", "[1]", "--at", LATER.isoformat())
    assert sentence == "Schedule once: at 2096-03-01 09:00:00Z; next at 2096-03-01 09:00:00Z.\n"


def test_an_existing_schedule_is_changed_only_when_that_is_said() -> None:
    add("often", "add", "[1]", "--every", "10m")
    again = ("schedules", "add", "shop:app", "often", "add", "[2]", "--every", "20m")
    refused = invoke(*again)
    assert refused.exit_code == 1
    assert refused.stderr == "holdfast: there is a schedule often already; --replace changes it\n"
    done(*again, "--replace")
    assert (listed()["often"]["version"], listed()["often"]["recurrence"]["seconds"]) == (2, 1200)
    stale = invoke(*again, "--version", "1")
    assert (stale.exit_code, stale.stderr) == (1, "holdfast: schedule often has version 2, not 1\n")
    done(*again[:-1], "30m", "--version", "2")
    assert listed()["often"]["version"] == 3


def test_a_schedule_is_paused_resumed_and_removed() -> None:
    add(*NIGHTLY)
    assert done("schedules", "pause", "nightly") == "Schedule nightly is paused.\n"
    assert listed()["nightly"]["paused"]
    assert done("schedules", "resume", "nightly").startswith("Schedule nightly is active; next at 20")
    assert not listed()["nightly"]["paused"]
    assert done("schedules", "remove", "nightly") == "Schedule nightly is removed.\n"
    assert listed() == {}


@pytest.mark.parametrize("command", ["remove", "pause", "resume", "run", "next"])
def test_a_schedule_that_is_not_there_is_exit_code_1(command: str) -> None:
    done("migrate")
    result = invoke("schedules", command, "nothing")
    assert result.exit_code == 1
    assert result.stderr == "holdfast: there is no schedule nothing; 'holdfast schedules list' shows all\n"


def test_a_schedule_is_run_once_more_and_refuses_to_overlap() -> None:
    add(*NIGHTLY)
    job_id = done("schedules", "run", "nightly").strip()
    assert asked("jobs", "show", job_id)["job"]["task"] == "add"
    assert listed()["nightly"]["running"]
    refused = invoke("schedules", "run", "nightly")
    assert refused.exit_code == 1
    assert refused.stderr == f"holdfast: schedule nightly: its job {job_id} is still under way\n"
    done("jobs", "cancel", job_id)
    assert asked("schedules", "run", "nightly")["job"] != job_id


def test_coming_firings_are_shown_in_the_zone_of_the_schedule_and_in_utc() -> None:
    add(*NIGHTLY)
    told = asked("schedules", "next", "nightly", "--count", "400")
    assert (told["schedule"], told["paused"], len(told["next"])) == ("nightly", False, 400)
    for each in told["next"]:
        local, utc = datetime.fromisoformat(each["local"]), datetime.fromisoformat(each["utc"])
        assert local == utc
        assert (local.hour, utc.hour) in ((3, 2), (3, 1))
    assert {each["local"][-6:] for each in told["next"]} == {"+01:00", "+02:00"}
    header, *rows = done("schedules", "next", "nightly").splitlines()
    assert header.split() == ["local", "UTC"]
    assert len(rows) == 10
    assert rows[0].split()[1][:9] == "03:00:00+"


def test_coming_firings_of_an_interval_are_in_the_zone_of_the_machine(holdfast: Run) -> None:
    add("from", "add", "[1]", "--every", "90", "--start", LATER.isoformat())
    shown = holdfast("schedules", "next", "from", "--count", "2", TZ="Asia/Tokyo")
    assert [" ".join(line.split()) for line in shown.stdout.splitlines()[1:]] == [
        "2096-03-01 18:00:00+09:00 2096-03-01 09:00:00Z",
        "2096-03-01 18:01:30+09:00 2096-03-01 09:01:30Z",
    ]


def test_a_schedule_without_coming_firings_says_why() -> None:
    add("after", "add", "[1]", "--every", "10m", "--anchor", "end")
    done("schedules", "run", "after")
    assert done("schedules", "next", "after") == "Schedule after: the next time follows its run.\n"
    add(*NIGHTLY)
    done("schedules", "pause", "nightly")
    assert done("schedules", "next", "nightly", "--count", "1").splitlines()[-1] == (
        "It is paused: these are its due times if it were resumed now."
    )


def test_one_that_cannot_be_read_is_named_and_the_others_are_listed(holdfast: Run, folder: Path) -> None:
    add(*NIGHTLY)
    add("often", "add", "[1]", "--every", "10m")
    with closing(sqlite3.connect(folder / "jobs.db", isolation_level=None)) as file:
        changed = file.execute(
            "UPDATE holdfast_schedule SET definition = "
            "CAST(replace(CAST(definition AS TEXT), 'Europe/Berlin', 'Mars/Olympus') AS BLOB)"
        )
        assert changed.rowcount == 2
    shown = holdfast("schedules", "list")
    assert shown.returncode == 0
    assert [line.split()[0] for line in shown.stdout.splitlines()] == ["name", "often"]
    assert "a schedule cannot be read; it is not listed" in shown.stderr
    assert "schedule=nightly" in shown.stderr
    asked_for = invoke("schedules", "next", "nightly")
    assert asked_for.exit_code == 1
    assert asked_for.stderr.startswith(
        "holdfast: schedule nightly: cannot be read (cron.tz: 'Mars/Olympus' is"
    )


ADD = ("schedules", "add", "shop:app", "s", "add", "[1]")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (ADD, "say when by one of --every, --cron and --at."),
        ((*ADD, "--every", "5", "--cron", "* * * * *"), "say when by one of --every, --cron and --at."),
        ((*ADD, "--every", "5", "--tz", "UTC"), "--tz goes with --cron only."),
        ((*ADD, "--cron", "@daily", "--anchor", "end"), "--anchor goes with --every only."),
        (
            (*ADD, "--every", "5 apples"),
            "Invalid value for '--every': '5 apples' is not a duration; write for instance 90, 10m or 1h30m.",
        ),
        ((*ADD, "--every", "0.5s"), "every: an interval is from 1 second to 100 years long"),
        ((*ADD, "--every", "5", "--anchor", "end", "--start", "2096-03-01T09:00Z"), "every.start: only"),
        ((*ADD, "--at", "tomorrow"), "Invalid value for '--at': 'tomorrow' is not a time; write"),
        (
            (*ADD, "--at", "2026-03-01T09:00"),
            "Invalid value for '--at': '2026-03-01T09:00' has no time zone;",
        ),
        ((*ADD, "--cron", "0 3 * *"), "cron"),
        ((*ADD, "--cron", "0 3 * * *", "--tz", "Mars/Olympus"), "cron.tz: 'Mars/Olympus' is not a known"),
        ((*ADD, "--every", "5", "--jitter", "2d"), "schedule.jitter: jitter is from 0 seconds to one day"),
        (
            (*ADD, "--every", "5", "--overlap", "maybe"),
            "Invalid value for '--overlap': 'maybe' is not one of",
        ),
        (("schedules", "add", "shop:app", "a b", "add", "[1]", "--every", "5"), "schedule: 'a b' is not a"),
        (
            ("schedules", "add", "shop:app", "s", "ad", "[1]", "--every", "5"),
            "the application has no task 'ad'",
        ),
        (("schedules", "add", "shop:app", "s", "add", '["x"]', "--every", "5"), "arguments.a: "),
        ((*ADD, "--every", "5", "--store", "memory://"), "a schedule in memory:// would be gone when this"),
        (("schedules", "next", "s", "--count", "0"), "Invalid value for '--count': 0 is not in the range"),
        (
            ("scheduler", "shop:app", "--store", "memory://"),
            "what is fired in this process's memory:// is run",
        ),
        (("scheduler", "shop:app", "--lease", "0"), "leader_lease_seconds: 0"),
    ],
)
def test_wrong_use_is_one_line_and_exit_code_2(arguments: tuple[str, ...], message: str) -> None:
    result = invoke(*arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith(f"holdfast: {message}")
    assert result.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("interval", "words"),
    [
        (timedelta(seconds=1.5), "every 1.5s"),
        (timedelta(minutes=10), "every 10m"),
        (timedelta(days=9, hours=1, seconds=30), "every 1w2d1h30s"),
        (timedelta(seconds=100), "every 1m40s"),
    ],
)
def test_an_interval_is_shown_in_its_largest_units(interval: timedelta, words: str) -> None:
    assert describe(every(interval)) == words
