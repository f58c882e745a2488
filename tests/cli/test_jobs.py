"""Commands that look at jobs and steer them, on a SQLite file that each command opens anew."""

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from holdfast import Holdfast, Job, Never
from holdfast.cli.main import cli

HOSTILE = 'first\nsecond \x1b[31mred\x1b[0m [bold]markup[/bold] \u202e "quote"'


@pytest.fixture(autouse=True)
def configured(folder: Path) -> None:
    (folder / "holdfast.toml").write_text('store = "sqlite:///jobs.db"\n')


def make_app() -> Holdfast:
    app = Holdfast()

    @app.task
    def add(a: int, b: int = 2) -> int:
        return a + b

    @app.task(retry=Never(), queue="risky")
    def explode(message: str) -> None:
        raise ValueError(message)

    return app


def enqueue(task: str, *arguments: Any, count: int = 1) -> list[Job[Any]]:
    async def work() -> list[Job[Any]]:
        async with make_app() as app:
            return [await app.tasks[task].enqueue(*arguments) for _ in range(count)]

    return asyncio.run(work())


def drain() -> None:
    async def work() -> None:
        async with make_app() as app:
            await app.worker().run(until_idle=True)

    asyncio.run(work())


def invoke(*arguments: str, input: str | None = None) -> Result:
    result = CliRunner().invoke(cli, arguments, input=input)
    assert "\x1b" not in result.output
    return result


def asked(*arguments: str) -> Any:
    """The JSON document that a command prints."""
    result = invoke(*arguments, "--json")
    assert result.exit_code == 0, result.output
    assert result.stdout.isascii()
    return json.loads(result.stdout)


def test_an_enqueued_job_is_listed_shown_and_run() -> None:
    made = asked("enqueue", "shop:app", "add", "[1]", "--tag", "x", "--key", "k", "--priority", "3")["job"]
    assert (made["task"], made["state"], made["tags"], made["key"], made["priority"]) == (
        "add",
        "scheduled",
        ["x"],
        "k",
        3,
    )
    assert [job["id"] for job in asked("jobs", "list", "--tag", "x")["jobs"]] == [made["id"]]
    assert asked("jobs", "list", "--state", "success") == {"jobs": [], "cursor": None}
    drain()
    shown = asked("jobs", "show", made["id"])
    assert shown["job"]["state"] == "success"
    assert [each["outcome"] for each in shown["attempts"]] == ["success"]
    assert "succeeded" in shown["explanation"]["sentence"]


def test_enqueue_prints_the_id_and_the_same_key_gives_the_same_job() -> None:
    first = invoke("enqueue", "shop:app", "add", '{"a": 1}', "--key", "k")
    again = invoke("enqueue", "shop:app", "add", '{"a": 1}', "--key", "k")
    assert first.exit_code == again.exit_code == 0
    assert first.stdout == again.stdout
    other = invoke("enqueue", "shop:app", "add", '{"a": 2}', "--key", "k")
    assert other.exit_code == 1
    assert other.stderr.startswith("holdfast: key 'k' belongs to job ")


def test_json_has_steady_keys() -> None:
    enqueue("add", 1)
    job = asked("jobs", "list")["jobs"][0]
    assert set(job) == {
        *("id", "task", "queue", "state", "priority", "due", "run", "failures", "lost", "version", "token"),
        *("worker", "key", "tags", "created", "started", "finished", "reason", "error", "progress"),
        *("progress_note", "cancel_asked", "limit_key", "fair_key", "sequence_key", "expires", "parked"),
    }
    assert job["due"].endswith("Z")
    assert set(asked("why", job["id"])) == {"id", "sentence", "facts"}
    assert set(asked("stats")) == {
        *("by_state", "queued", "parked", "scheduled", "in_progress", "completed", "failed", "cancelled"),
        *("exact", "by_queue"),
    }
    assert set(asked("queues", "list")["queues"][0]) == {
        *("name", "paused", "paused_since", "oldest", "weight", "counts"),
    }
    assert asked("locks", "list") == {"locks": []}
    assert asked("workers") == {"workers": []}


def test_pages_go_on_where_the_last_one_ended() -> None:
    ids = [job.id for job in enqueue("add", 1, count=5)]
    first = asked("jobs", "list", "--limit", "2")
    second = asked("jobs", "list", "--limit", "2", "--cursor", first["cursor"])
    third = asked("jobs", "list", "--limit", "2", "--cursor", second["cursor"])
    listed = [job["id"] for page in (first, second, third) for job in page["jobs"]]
    assert listed == sorted(ids, reverse=True)
    assert third["cursor"] is None
    assert f"More: --cursor {first['cursor']}\n" in invoke("jobs", "list", "--limit", "2").stdout


def test_the_start_of_an_id_is_enough_when_it_is_the_only_one() -> None:
    first, second = (job.id for job in enqueue("add", 1, count=2))
    shared = next(size for size in range(36) if first[size] != second[size])
    assert asked("why", first[: shared + 1])["id"] == first
    assert asked("why", second[: shared + 1].upper())["id"] == second
    result = invoke("why", first[:shared])
    assert result.exit_code == 2
    assert result.stderr == f"holdfast: several job ids start with '{first[:shared]}'; give more of it.\n"
    assert invoke("why", "ffff").exit_code == 1


def test_a_waiting_job_is_cancelled_at_once() -> None:
    (job,) = enqueue("add", 1)
    assert asked("jobs", "cancel", job.id) == {"cancelled": [{"id": job.id, "answer": "cancelled"}]}
    assert "It was cancelled" in invoke("why", job.id).stdout
    assert asked("jobs", "cancel", job.id)["cancelled"][0]["answer"] == "cancelled"


def test_dead_jobs_are_listed_replayed_and_discarded() -> None:
    dead = [job.id for job in enqueue("explode", "boom", count=3)]
    assert invoke("dlq", "list").stdout == "The dead-letter queue is empty.\n"
    drain()
    assert {job["id"] for job in asked("dlq", "list")["jobs"]} == set(dead)
    assert asked("dlq", "list", "--queue", "default")["jobs"] == []
    assert "ValueError: boom" in invoke("dlq", "list").stdout
    assert asked("jobs", "replay", dead[0])["jobs"][0]["state"] == "scheduled"
    assert asked("dlq", "replay", "--queue", "risky") == {"replayed": 2}
    drain()
    assert asked("dlq", "discard", dead[0], "--yes") == {"discarded": 1}
    assert invoke("dlq", "discard", "--all", input="n\n").exit_code == 130
    assert len(asked("dlq", "list")["jobs"]) == 2
    assert asked("dlq", "discard", "--all", "--yes") == {"discarded": 2}
    assert asked("dlq", "list")["jobs"] == []


def test_only_dead_jobs_are_discarded() -> None:
    (job,) = enqueue("add", 1)
    result = invoke("dlq", "discard", job.id, "--yes")
    assert result.exit_code == 1
    assert result.stderr == f"holdfast: job {job.id} is scheduled, not in the dead-letter queue\n"
    result = invoke("jobs", "replay", job.id)
    assert result.exit_code == 1
    assert result.stderr.count("\n") == 1


def test_a_paused_queue_is_shown_and_resumed() -> None:
    (job,) = enqueue("add", 1)
    assert invoke("queues", "pause", "default").stdout == "Queue default is paused.\n"
    assert asked("queues", "list")["queues"][0]["paused"] is True
    assert "queue 'default' has been paused since" in asked("why", job.id)["sentence"].lower()
    assert invoke("queues", "resume", "default").stdout == "Queue default is open.\n"
    assert asked("queues", "list")["queues"][0]["paused"] is False


def test_namespaces_do_not_see_each_other() -> None:
    enqueue("add", 1)
    assert asked("jobs", "list", "--namespace", "other")["jobs"] == []
    assert asked("stats", "--namespace", "other")["queued"] == 0
    assert asked("stats")["queued"] == 1


LISTINGS: list[Callable[[str], tuple[str, ...]]] = [
    lambda job: ("jobs", "list"),
    lambda job: ("jobs", "show", job),
    lambda job: ("dlq", "list"),
    lambda job: ("why", job),
]


@pytest.mark.parametrize("command", LISTINGS)
def test_hostile_text_neither_steers_the_terminal_nor_breaks_a_row(
    command: Callable[[str], tuple[str, ...]],
) -> None:
    (job,) = enqueue("explode", HOSTILE)
    drain()
    shown = invoke(*command(job.id)).stdout
    assert "\u202e" not in shown
    assert "[bold]markup[/bold]" in shown
    asked(*command(job.id))


@pytest.mark.parametrize(
    "command",
    [
        ["jobs", "list"],
        ["jobs", "show", "abcd"],
        ["jobs", "cancel", "abcd"],
        ["jobs", "replay", "abcd"],
        ["why", "abcd"],
        ["dlq", "list"],
        ["dlq", "replay", "--all"],
        ["dlq", "discard", "--all"],
        ["queues", "list"],
        ["limits", "list"],
        ["limits", "remove", "--key", "x"],
        ["sequences", "list"],
        ["sequences", "proceed", "x"],
        ["batches", "show", "abcd"],
        ["batches", "cancel", "abcd"],
        ["batches", "close", "abcd"],
        ["workers"],
        ["stats"],
    ],
    ids=" ".join,
)
def test_a_command_that_finds_no_file_makes_none_and_says_how_one_is_made(
    command: list[str], folder: Path
) -> None:
    before = set(folder.iterdir())
    ended = invoke(*command)
    assert (ended.exit_code, ended.stdout) == (1, "")
    assert ended.stderr.startswith(
        f"holdfast: there is no file {folder / 'jobs.db'}; the first job or worker"
    )
    assert set(folder.iterdir()) == before


def test_a_queue_may_be_paused_before_there_is_a_file() -> None:
    assert invoke("queues", "pause", "mail").exit_code == 0
    assert [queue["name"] for queue in asked("queues", "list")["queues"]] == ["mail"]


@pytest.mark.parametrize("start", ["0123-45", "0123456789ab"])
def test_the_start_of_no_possible_id_finds_no_job(start: str) -> None:
    enqueue("add", 1)
    assert invoke("why", start).stderr == f"holdfast: there is no job {start}\n"
    listed = invoke("jobs", "list", "--cursor", "zzz")
    assert (listed.exit_code, listed.stderr) == (2, "holdfast: cursor: 'zzz' is not a UUID\n")
