"""Whatever is done is asked about before, named after, and stands in the store."""

from holdfast.model.lifecycle import State
from tests.top.support import Shop


async def test_a_queue_is_paused_and_resumed() -> None:
    shop = Shop()
    async with shop.app:
        await shop.fill()
        async with shop.shown() as screen:
            await screen.press("2")
            await screen.until("mail")
            for paused, message in ((True, "Queue mail is paused."), (False, "Queue mail is open.")):
                await screen.press("p")
                await screen.until("queue mail?")
                await screen.press("y")
                await screen.until(message)
                assert [queue.paused for queue in await shop.app.queues.list()] == [paused]
                await screen.until("paused" if paused else "open")


async def test_a_question_that_is_denied_does_nothing() -> None:
    shop = Shop()
    async with shop.app:
        await shop.fill()
        async with shop.shown() as screen:
            await screen.press("6")
            await screen.until("ValueError")
            for key in ("n", "escape", "enter"):
                await screen.press("x")
                await screen.until("for good?")
                await screen.press(key)
                if key == "enter":
                    await screen.until("for good?")  # what cannot be undone needs the letter
                    await screen.press("n")
                await screen.without("for good?")
            assert len(await shop.app.dlq.list()) == 1


async def test_a_waiting_job_is_cancelled() -> None:
    shop = Shop()
    async with shop.app:
        job = await shop.send.using(delay=3600).enqueue("a@example.org")
        async with shop.shown() as screen:
            await screen.press("3")
            await screen.until("scheduled")
            await screen.press("c", "y")
            await screen.until("is cancelled.")
        found = await shop.app.get(job.id)
        assert found is not None
        assert found.state is State.CANCELLED


async def test_a_running_job_is_asked_to_stop() -> None:
    shop = Shop()
    async with shop.app, shop.app.worker():
        job = await shop.wait.enqueue()
        async with shop.shown() as screen:
            await screen.until("50%")
            screen.choose("overview-running", job.id)
            await screen.press("enter")
            await screen.until("It has been running")
            await screen.press("c", "y")
            await screen.until("was asked to stop it.")
            await screen.until("It was cancelled")


async def test_a_dead_letter_is_replayed() -> None:
    shop = Shop()
    async with shop.app:
        await shop.fill()
        (job,) = await shop.app.dlq.list()
        async with shop.shown() as screen:
            await screen.press("6")
            await screen.until("ValueError")
            await screen.press("r", "enter")
            await screen.until("goes back to work.", "The dead-letter queue is empty.")
        found = await shop.app.get(job.id)
        assert found is not None
        assert found.state is State.SCHEDULED


async def test_a_dead_letter_is_discarded_from_its_page() -> None:
    shop = Shop()
    async with shop.app:
        await shop.fill()
        (job,) = await shop.app.dlq.list()
        async with shop.shown() as screen:
            await screen.press("6")
            await screen.until("ValueError")
            await screen.press("enter")
            await screen.until("dead-lettered")
            await screen.press("x", "y")
            await screen.until("is deleted.", "No such job is stored")
        assert await shop.app.get(job.id) is None


async def test_all_dead_letters_of_a_task_are_done_with_at_once() -> None:
    shop = Shop()
    async with shop.app:
        await shop.fill()
        await shop.app.enqueue_many([shop.send.call(f"bad {number}") for number in range(5)])
        await shop.app.worker().run(until_idle=True)
        async with shop.shown() as screen:
            await screen.press("6")
            await screen.until("6 dead")
            await screen.press("R", "y")
            await screen.until("6 jobs of task", "go back to work.", "0 dead")
            await shop.app.worker().run(until_idle=True)
            await screen.until("6 dead", "ValueError")
            await screen.press("X", "y")
            await screen.until("6 jobs of task", "are deleted.", "0 dead")
        assert await shop.app.find(state=State.DLQ) == []


async def test_a_schedule_is_fired_and_paused() -> None:
    shop = Shop()
    async with shop.app:
        await shop.fill()
        async with shop.shown() as screen:
            await screen.press("5")
            await screen.until("nightly", "active")
            await screen.press("enter")
            await screen.until("It has fired no job yet.")
            await screen.press("r", "y")
            await screen.until("has fired")
            found = await shop.app.schedules.get("nightly")
            assert found is not None
            assert found.job is not None
            await screen.until("running")
            await screen.press("p", "y")
            await screen.until("Schedule nightly is paused.")
            found = await shop.app.schedules.get("nightly")
            assert found is not None
            assert found.paused


async def test_what_the_store_refuses_is_said() -> None:
    shop = Shop()
    async with shop.app:
        await shop.fill()
        async with shop.shown() as screen:
            await screen.press("3")
            await screen.until("success")
            done = next(job for job in await shop.app.find() if job.state is State.SUCCESS)
            screen.choose("jobs", done.id)
            await screen.press("r", "y")
            await screen.until("is success; only dlq and failed")
