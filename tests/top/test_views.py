"""Every view shows what the store has, on small and on large terminals, whatever stands in it."""

import pytest

from holdfast.cli.top.display import VIEWS, Display
from tests.top.support import Shop


async def test_the_overview_has_the_whole() -> None:
    shop = Shop()
    async with shop.app:
        await shop.fill()
        async with shop.shown((140, 40)) as screen:
            text = await screen.until("1 dead", "1 completed", "answers in", "nobody leads", "nightly")
            for panel in ("queues", "workers", "running jobs", "dead letters", "schedules"):
                assert f"─ {panel}" in text or f"━ {panel}" in text
            assert "mail" in text


@pytest.mark.parametrize("size", [(20, 6), (160, 50)])
async def test_every_view_fits_every_terminal(size: tuple[int, int]) -> None:
    shop = Shop()
    async with shop.app:
        await shop.fill()
        async with shop.shown(size) as screen:
            for number, view in enumerate(VIEWS):
                await screen.press(str(number + 1))
                assert screen.display.view is view
            await screen.press("question_mark", "escape", "1")
            await screen.resize(80, 24)
            await screen.until("1 overview", "1 dead")


async def test_keys_go_through_the_views() -> None:
    shop = Shop()
    async with shop.app, shop.shown() as screen:
        seen = []
        for _ in VIEWS:
            seen.append(screen.display.view.name)
            await screen.press("right")
        assert seen == [view.name for view in VIEWS]
        await screen.press("left")
        assert screen.display.view.name == "locks"
        await screen.press("escape")
        assert screen.display.view.name == "overview"


async def test_workers_and_what_they_hold() -> None:
    shop = Shop()
    async with shop.app, shop.app.worker(concurrency=3):
        job = await shop.wait.enqueue()
        async with shop.shown((160, 30)) as screen:
            await screen.press("4")
            await screen.until("1 live", "1/3", "wait")
            await screen.press("enter")
            text = await screen.until(job.id, "running", "50%", "jobs: worker:")
            assert "\\u001b" in text
        shop.may_end.set()


async def test_rates_and_lateness_come_from_reports() -> None:
    shop = Shop()
    async with shop.shown((140, 40)) as screen:
        await screen.until("no live worker")
        async with shop.app, shop.app.worker():
            await shop.app.enqueue_many([shop.send.call("a@example.org") for _ in range(50)])
            text = await screen.until("1 live", "ok/s", "p99")
            assert "no live worker" not in text


async def test_a_lock_is_listed_with_its_holder() -> None:
    shop = Shop()
    async with shop.app, shop.app.lock("billing") as grant, shop.shown((120, 30)) as screen:
        await screen.press("7")
        await screen.until("billing", str(grant.token))


async def test_jobs_are_found_and_narrowed() -> None:
    shop = Shop()
    async with shop.app:
        await shop.fill()
        jobs = {job.state.value: job.id for job in await shop.app.find()}
        async with shop.shown((160, 30)) as screen:
            await screen.press("3")
            await screen.until(*jobs.values())
            await screen.press("f")
            await screen.until("jobs: waiting", jobs["scheduled"])
            await screen.without(jobs["success"])
            await screen.find("success queue:mail")
            await screen.until("jobs: success queue:mail", jobs["success"])
            await screen.without(jobs["scheduled"])
            await screen.find("nonsense")
            await screen.until("'nonsense' says nothing")
            await screen.find(jobs["dlq"])
            await screen.until(f"job {jobs['dlq']}", "It was dead-lettered")


async def test_one_jobs_page_has_its_attempts_and_why() -> None:
    shop = Shop()
    async with shop.app:
        await shop.fill()
        (dead,) = await shop.app.dlq.list()
        async with shop.shown((120, 40)) as screen:
            await screen.press("6")
            await screen.until("ValueError")
            await screen.press("enter")
            text = await screen.until("It was dead-lettered", "outcome", "Traceback", dead.id)
            assert "[bold red]x[/]" in text
            await screen.press("escape")
            await screen.until("dead letters")


async def test_the_selected_row_stays_selected_when_others_come() -> None:
    shop = Shop()
    async with shop.app:
        first = await shop.send.using(delay=60).enqueue("a@example.org")
        async with shop.shown((120, 30)) as screen:
            await screen.press("3")
            await screen.until(first.id)
            for _ in range(5):
                last = await shop.send.using(delay=60).enqueue("a@example.org")
            await screen.until(last.id)
            grid = screen.display.grid
            assert grid is not None
            assert (grid.chosen, grid.cursor_row) == (first.id, 5)


async def test_a_defect_is_told_without_the_values_of_variables(capsys: pytest.CaptureFixture[str]) -> None:
    shop, displays = Shop(), list[Display]()

    def fail() -> None:
        secret = "canary-4711"
        raise ZeroDivisionError(len(secret))

    async with shop.app:

        async def broken() -> None:
            async with shop.shown() as screen:
                displays.append(screen.display)
                await screen.until("answers in")
                screen.display.call_later(fail)
                await screen.press("u")

        with pytest.raises(ZeroDivisionError):
            await broken()
        assert isinstance(displays[0].failure, ZeroDivisionError)
    assert "canary-4711" not in "".join(capsys.readouterr())
