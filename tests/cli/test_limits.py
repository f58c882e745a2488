"""Commands that set limits, and let halted sequences go on."""

import pytest

from holdfast import Limit
from tests.cli.steering import Shop


@pytest.fixture
def shop() -> Shop:
    return Shop()


def test_limits_of_all_scopes_are_set_and_listed(shop: Shop) -> None:
    assert shop.done("limits", "list") == "No limits.\n"
    assert shop.done("limits", "set", "--queue", "mail", "--weight", "3") == "Queue mail has weight 3.\n"
    assert shop.done("limits", "set", "--task", "work", "--concurrency", "5") == (
        "Task work may have 5 running at once.\n"
    )
    assert shop.done("limits", "set", "--task", "work", "--each-key", "--rate", "2") == (
        "Each key of task work may have 2 begun in 1 s.\n"
    )
    given = ("--rate", "100", "--per", "60", "--burst", "10", "--concurrency", "2", "--weight", "0.5")
    assert shop.done("limits", "set", "--key", "ann", *given) == (
        "Key ann may have 2 running at once and 100 begun in 60 s (after a pause 10 at once), "
        "and has weight 0.5.\n"
    )
    found = {each["scope"]: each for each in shop.asked("limits", "list")["limits"]}
    assert found["key"] == {
        "scope": "key",
        "name": "ann",
        "concurrency": 2,
        "rate": 100,
        "per": 60.0,
        "burst": 10,
        "paused": False,
        "weight": 0.5,
        "declared": False,
        "running": 0,
        "waiting": 0,
        "paused_since": None,
    }
    assert (found["each_key"]["rate"], found["each_key"]["running"]) == (2, None)


def test_a_limit_that_is_set_is_told_as_json(shop: Shop) -> None:
    told = shop.asked("limits", "set", "--queue", "mail", "--concurrency", "5", "--weight", "2")["limit"]
    assert (told["scope"], told["name"], told["concurrency"], told["weight"]) == ("queue", "mail", 5, 2)
    assert [told] == shop.asked("limits", "list")["limits"]


def test_the_table_says_what_each_limit_allows_and_who_waits(shop: Shop) -> None:
    @shop.app.task(limit=Limit(concurrency=9))
    async def declared() -> None: ...

    shop.done("limits", "pause", "--key", "ann")
    shop.do(lambda: shop.work.using(limit_key="ann").enqueue())
    shop.drain()
    header, key, task = shop.done("limits", "list").splitlines()
    assert header.split() == ["scope", "name", "allows", "weight", "running", "waiting", "is", "set"]
    assert key.split() == ["key", "ann", "all", "1", "0", "1", "paused", "by", "hand"]
    assert task.split() == [
        "task",
        "declared",
        "9",
        "running",
        "at",
        "once",
        "-",
        "0",
        "0",
        "open",
        "in",
        "code",
    ]


def test_what_is_paused_waits_until_it_is_resumed(shop: Shop) -> None:
    assert shop.done("limits", "pause", "--task", "work") == "Task work is paused.\n"
    job = shop.do(shop.work.enqueue)
    shop.drain()
    assert shop.done("why", job.id).startswith("Task 'work' has been paused since")
    [limit] = shop.asked("limits", "list")["limits"]
    assert (limit["paused"], limit["waiting"]) == (True, 1)
    assert shop.done("limits", "resume", "--task", "work") == "Task work is open.\n"
    assert shop.asked("limits", "list")["limits"] == []
    shop.drain()
    assert shop.asked("jobs", "show", job.id)["job"]["state"] == "success"


def test_a_limit_is_removed_once(shop: Shop) -> None:
    shop.done("limits", "set", "--key", "ann", "--concurrency", "1")
    assert shop.done("limits", "remove", "--key", "ann") == "Key ann has no limit.\n"
    assert shop.refused("limits", "remove", "--key", "ann") == (1, "there is no limit on key ann")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["set", "--concurrency", "1"], "give one of --queue, --task and --key."),
        (["set", "--queue", "a", "--key", "b", "--rate", "1"], "give one of --queue, --task and --key."),
        (["set", "--key", "a", "--each-key", "--rate", "1"], "--each-key needs --task."),
        (["set", "--key", "a", "--per", "5", "--concurrency", "1"], "--per and --burst need --rate."),
        (["set", "--key", "a"], "limit: give concurrency, rate or weight"),
        (["set", "--task", "a", "--weight", "2"], "weight: only queues and keys have weights"),
        (
            ["set", "--key", "a", "--concurrency", "0"],
            "limit.concurrency: 0 is not a whole number of at least 1",
        ),
        (["set", "--key", "a", "--weight", "0"], "weight: 0.0 is not a number between 0.001 and 1000000"),
        (["set", "--key", "a b", "--rate", "1"], "key: 'a b' is not a valid name"),
        (["pause"], "give one of --task and --key; for a queue there is 'holdfast queues pause'."),
        (["pause", "--queue", "q"], "No such option"),
    ],
)
def test_wrong_use_is_one_line_and_exit_code_2(shop: Shop, arguments: list[str], message: str) -> None:
    code, line = shop.refused("limits", *arguments)
    assert code == 2
    assert line.startswith(message)


def test_a_halted_sequence_is_listed_and_goes_on(shop: Shop) -> None:
    async def enqueue() -> list[str]:
        task = shop.work.using(sequence_key="account", on_failure="halt")
        return [job.id for job in await shop.app.enqueue_many([task.call(fail=True), task.call()])]

    assert shop.done("sequences", "list") == "No sequence is halted.\n"
    failed, waiting = shop.do(enqueue)
    shop.drain()
    [halted] = shop.asked("sequences", "list")["sequences"]
    assert halted == {
        "sequence": "account",
        "job": failed,
        "task": "work",
        "state": "dlq",
        "reason": "ValueError: out of paper",
    }
    assert shop.done("sequences", "list").splitlines()[1].split()[:4] == ["account", failed, "work", "dlq"]
    assert shop.done("sequences", "proceed", "account") == (
        f"Sequence account goes on without job {failed}.\n"
    )
    shop.drain()
    assert shop.asked("jobs", "show", waiting)["job"]["state"] == "success"
    assert shop.refused("sequences", "proceed", "account") == (1, "sequence account is not halted")
    assert shop.refused("sequences", "proceed", "a b")[0] == 2


def test_a_job_shows_its_keys_and_what_it_waits_for(shop: Shop) -> None:
    shop.done("limits", "set", "--key", "ann", "--concurrency", "1")
    shop.done("limits", "pause", "--key", "ann")
    task = shop.work.using(limit_key="ann", fair_key="bob", sequence_key="account", expires=3600)
    first = shop.do(task.enqueue)
    second = shop.do(lambda: shop.work.using(after=[first]).enqueue())
    plain = shop.do(lambda: shop.work.using(delay=60).enqueue())
    shop.drain()
    found = shop.asked("jobs", "show", first.id)["job"]
    names = ("limit_key", "fair_key", "sequence_key", "on_failure", "waits_for")
    assert [found[name] for name in names] == ["ann", "bob", "account", "continue", "key ann"]
    assert found["expires"].endswith("Z")
    shown = shop.done("jobs", "show", second.id)
    assert "waits_for    other jobs" in shown
    assert "comes_after  1" in shown
    assert "not_done     1" in shown
    assert f"It comes after 1 job that is not done: {first.id}" in shown
    assert shop.asked("jobs", "show", plain.id)["job"]["limit_key"] is None
    assert "on_failure" not in shop.asked("jobs", "show", plain.id)["job"]


def test_queues_and_stats_count_what_is_parked(shop: Shop) -> None:
    shop.done("limits", "set", "--queue", "default", "--weight", "2.5")
    shop.done("limits", "pause", "--task", "work")
    shop.do(shop.work.enqueue)
    shop.drain()
    [queue] = shop.asked("queues", "list")["queues"]
    assert (queue["weight"], queue["counts"]["queued"], queue["counts"]["parked"]) == (2.5, 1, 1)
    header, row = shop.done("queues", "list").splitlines()
    assert header.split()[:5] == ["queue", "is", "weight", "queued", "parked"]
    assert row.split()[:5] == ["default", "open", "2.5", "1", "1"]
    assert shop.asked("stats")["parked"] == 1
    assert shop.done("stats").splitlines()[1].split()[:3] == ["all", "1", "1"]
