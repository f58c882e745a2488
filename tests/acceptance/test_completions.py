"""A handler that completes in a transaction, and what it still says after that."""

import logging
from pathlib import Path

import pytest

from holdfast import Context, Holdfast, ResultNotKept
from tests.acceptance import process_shop


@pytest.fixture
def app(tmp_path: Path) -> Holdfast:
    return Holdfast(f"sqlite:///{tmp_path}/jobs.db")


async def test_a_value_that_the_transaction_was_not_given_is_not_kept_and_the_log_says_so(
    app: Holdfast, caplog: pytest.LogCaptureFixture
) -> None:
    @app.task
    def forgets(ctx: Context) -> int:
        with ctx.sync_transaction():
            pass
        return 42

    async with app, app.worker():
        job = await forgets.enqueue()
        with pytest.raises(ResultNotKept, match=r"given none; use tx\.complete\(value\)"):
            await job.result(timeout=10)
    [line] = [each for each in caplog.records if each.message == "result not recorded"]
    assert line.levelno == logging.WARNING
    assert vars(line)["fields"].items() >= {"job": job.id, "task": "forgets", "run": 1}.items()


async def test_a_handler_without_a_value_has_none_to_give_to_its_transaction(
    app: Holdfast, caplog: pytest.LogCaptureFixture
) -> None:
    @app.task
    async def plain(ctx: Context) -> None:
        async with ctx.transaction():
            pass

    @app.task
    async def perhaps(ctx: Context) -> int | None:
        async with ctx.transaction() as tx:
            tx.complete(7)
        return 7

    async with app, app.worker():
        await (await plain.enqueue()).result(timeout=10)
        assert await (await perhaps.enqueue()).result(timeout=10) == 7
    assert [each for each in caplog.records if each.levelno >= logging.WARNING] == []


@pytest.mark.process
async def test_a_value_that_is_dropped_in_a_child_process_is_told_as_well(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    app = process_shop.app.configured(store=f"sqlite:///{tmp_path}/jobs.db")
    async with app, app.worker():
        with pytest.raises(ResultNotKept):
            await (await process_shop.forgets.enqueue()).result(timeout=30)
    assert "result not recorded" in caplog.messages
