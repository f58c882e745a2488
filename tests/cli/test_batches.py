"""Commands that show a batch, cancel it and close it."""

import pytest

from tests.cli.steering import Shop


@pytest.fixture
def shop() -> Shop:
    return Shop()


def fill(shop: Shop, *, failing: int = 0, fine: int = 0, leave_open: bool = False) -> str:
    """A batch of so many jobs."""

    async def make() -> str:
        batch = shop.app.batch(shop.work.call())
        calls = [shop.work.call(fail=True)] * failing + [shop.work.call()] * fine
        if leave_open:
            await batch.add(*calls)
        else:
            async with batch:
                await batch.add(*calls)
        return batch.id

    return shop.do(make)


def test_a_batch_is_shown_with_its_progress(shop: Shop) -> None:
    batch = fill(shop, fine=3)
    assert shop.asked("batches", "show", batch)["batch"] == {
        "id": batch,
        "state": "scheduled",
        "total": 3,
        "done": 0,
        "failed": 0,
        "pending": 3,
        "open": False,
        "failed_jobs": [],
    }
    shop.drain()
    found = shop.asked("batches", "show", batch)["batch"]
    assert [found[name] for name in ("state", "done", "pending", "failed")] == ["success", 3, 0, 0]


def test_the_failed_jobs_of_a_batch_are_named(shop: Shop) -> None:
    batch = fill(shop, failing=3, fine=1)
    shop.drain()
    failed = {job["id"] for job in shop.asked("jobs", "list", "--state", "dlq")["jobs"]}
    found = shop.asked("batches", "show", batch)["batch"]
    assert (found["done"], found["failed"]) == (4, 3)
    assert {job["id"] for job in found["failed_jobs"]} == failed
    assert {job["state"] for job in found["failed_jobs"]} == {"dlq"}
    shown = shop.done("batches", "show", batch, "--limit", "2")
    assert sum(each in shown for each in failed) == 2
    assert shown.endswith("More failed: --limit 3\n")
    assert "open     no" in shown


def test_a_batch_that_was_left_open_is_closed(shop: Shop) -> None:
    batch = fill(shop, fine=2, leave_open=True)
    shop.drain()
    assert shop.done("why", batch).startswith("Its batch is still open")
    assert shop.asked("batches", "show", batch)["batch"]["open"] is True
    assert shop.done("batches", "close", batch) == f"Batch {batch} is closed; 0 of 2 are not done.\n"
    shop.drain()
    assert shop.asked("jobs", "show", batch)["job"]["state"] == "success"


def test_the_batches_that_are_open_are_listed(shop: Shop) -> None:
    fill(shop, fine=1)
    assert shop.asked("batches", "list") == {"batches": []}
    assert shop.done("batches", "list") == "No batch is open.\n"
    batches = [fill(shop, fine=number, leave_open=True) for number in (1, 2, 3)]
    listed = shop.asked("batches", "list", "--limit", "2")["batches"]
    assert [(each["id"], each["total"], each["open"]) for each in listed] == [
        (batches[0], 1, True),
        (batches[1], 2, True),
    ]
    shop.done("batches", "close", batches[0])
    shop.done("batches", "cancel", batches[1])
    shown = shop.done("batches", "list")
    assert [each in shown for each in batches] == [False, False, True]


def test_a_batch_is_cancelled_with_what_is_not_finished(shop: Shop) -> None:
    batch = fill(shop, fine=2)
    assert shop.done("batches", "cancel", batch) == f"Batch {batch} is cancelled, with 2 unfinished jobs.\n"
    states = {job["state"] for job in shop.asked("jobs", "list")["jobs"]}
    assert states == {"cancelled"}


@pytest.mark.parametrize("command", ["show", "cancel", "close"])
def test_what_is_no_batch_is_left_alone(shop: Shop, command: str) -> None:
    job = shop.do(shop.work.enqueue)
    assert shop.refused("batches", command, job.id) == (1, f"job {job.id} is not the end of a batch")
    assert shop.asked("jobs", "show", job.id)["job"]["state"] == "scheduled"
    assert shop.refused("batches", command, "00000000-0000-7000-8000-000000000000")[0] == 1
    assert shop.refused("batches", command, "xyz")[0] == 2
