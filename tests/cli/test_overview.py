"""Commands that show how queues, workers and locks stand."""

from holdfast.model.records import LockWish, WorkerRecord
from holdfast.model.report import QueueReport, WorkerReport, encode_report
from holdfast.model.timing import SECOND
from tests.cli.steering import Shop


def test_queues_tell_since_when_they_are_paused_and_how_long_the_first_has_waited() -> None:
    shop = Shop()
    shop.do(shop.work.enqueue)
    shop.done("queues", "pause", "default")
    header, line = shop.done("queues", "list").splitlines()
    assert header.split()[-1] == "oldest"
    assert line.split()[1:3] == ["paused", "since"]
    assert line.rstrip().endswith(" s")
    [queue] = shop.asked("queues", "list", "--exact")["queues"]
    assert queue["paused_since"].endswith("Z")
    assert queue["oldest"] >= 0
    assert queue["counts"]["exact"]
    shop.done("queues", "resume", "default")
    shop.drain()
    assert shop.asked("queues", "list")["queues"][0]["oldest"] is None


def test_workers_are_shown_as_they_told() -> None:
    shop = Shop()
    queue = QueueReport(claimed=9, success=7, failed=2)
    report = WorkerReport(slots=4, busy=3, stuck=1, by_queue={"default": queue})

    async def register() -> None:
        fleet = shop.app.client.session.fleet
        for name in ("ann", "bob"):
            record = WorkerRecord(id=name, host="h", pid=1, queues=("default",), tasks=(), concurrency=4)
            await fleet.register(record, 60 * SECOND)
        await fleet.beat("bob", 60 * SECOND, encode_report(report))

    shop.do(register)
    header, ann, bob = shop.done("workers").splitlines()
    assert header.split() == [
        *["id", "is", "host", "pid", "queues", "slots", "busy", "done", "failed", "seen"]
    ]
    assert ann.split()[5:9] == ["4", "-", "-", "-"]
    assert "3, 1 stuck, claims nothing" in bob
    told = shop.asked("workers")["workers"]
    assert told[0]["report"] is None
    assert told[1]["report"]["busy"] == 3
    assert told[1]["report"]["by_queue"]["default"]["success"] == 7


def test_locks_are_listed_in_pages() -> None:
    shop = Shop()
    assert shop.done("locks", "list") == "No lock is held.\n"

    async def hold() -> int | None:
        locks = shop.app.client.session.locks
        await locks.acquire(LockWish(name="a", owner="ann/1", ttl=60 * SECOND))
        return (await locks.acquire(LockWish(name="b", owner="bob/1", ttl=60 * SECOND))).token

    token = shop.do(hold)
    header, line, more = shop.done("locks", "list", "--limit", "1").splitlines()
    assert header.split() == ["lock", "holder", "token", "left", "waiting"]
    assert line.split()[:2] == ["a", "ann"]
    assert more == "There may be more: --after a"
    [held] = shop.asked("locks", "list", "--after", "a")["locks"]
    assert (held["name"], held["owner"], held["token"]) == ("b", "bob", token)
    assert (held["waiters"], held["internal"], held["partition"]) == (0, False, None)
