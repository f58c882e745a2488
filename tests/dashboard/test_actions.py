"""Each action, taken in the browser and looked up in the store."""

import re

from playwright.sync_api import Locator, Page, expect

from holdfast import Event
from holdfast.model.lifecycle import State
from tests.dashboard.desk import Desk
from tests.dashboard.site import Site


def go(page: Page, site: Site, place: str) -> None:
    page.goto(f"{site.url}#/{place}")


def confirm(page: Page, label: str | re.Pattern[str]) -> None:
    page.locator("dialog").get_by_role("button", name=label).click()
    page.locator("dialog").wait_for(state="detached")


def told(page: Page, words: str) -> Locator:
    toast = page.locator(".toast", has_text=words).first
    expect(toast).to_be_visible()
    return toast


def test_queue_is_paused_and_resumed(page: Page, browser: Desk, site: Site) -> None:
    site.enqueue("mail.greet", name="Ada")
    go(page, site, "queues")
    page.get_by_role("button", name="Pause").click()
    confirm(page, "Keep as it is")
    assert [queue.paused for queue in site.ask(site.app.queues.list)] == [False]
    page.get_by_role("button", name="Pause").click()
    confirm(page, "Pause it")
    told(page, "Queue mail is paused")
    assert [queue.paused for queue in site.ask(site.app.queues.list)] == [True]
    page.get_by_role("button", name="Resume").click()
    told(page, "Queue mail goes on")
    assert [queue.paused for queue in site.ask(site.app.queues.list)] == [False]


def test_limit_is_set_changed_and_removed(
    page: Page, browser: Desk, site: Site, complaints: list[str]
) -> None:
    go(page, site, "queues")
    page.get_by_role("button", name="Set a limit").click()
    dialog = page.locator("dialog")
    dialog.get_by_label("Name").fill("mail")
    dialog.get_by_role("button", name="Set", exact=True).click()
    expect(dialog.get_by_role("alert")).to_contain_text("give concurrency, rate")
    assert all("400" in each for each in complaints)
    complaints.clear()
    dialog.get_by_label("Running at once").fill("3")
    dialog.get_by_role("button", name="Set", exact=True).click()
    told(page, "The limit holds")
    assert [limit.concurrency for limit in site.ask(site.app.limits.list)] == [3]
    page.get_by_role("button", name="Change").click()
    dialog.get_by_label("Begun per period").fill("20")
    dialog.get_by_role("button", name="Set", exact=True).click()
    expect(page.get_by_role("row", name="mail")).to_contain_text("20 per second")
    assert [limit.rate for limit in site.ask(site.app.limits.list)] == [20]
    page.get_by_role("button", name="Remove").click()
    confirm(page, "Remove it")
    told(page, "The limit is removed")
    assert site.ask(site.app.limits.list) == []


def test_job_is_enqueued_edited_cancelled_and_deleted(page: Page, browser: Desk, site: Site) -> None:
    site.work()
    site.ask(lambda: site.app.queues.pause("mail"))
    site.ask(lambda: site.app.queues.pause("slow"))
    go(page, site, "jobs")
    page.get_by_role("button", name="Enqueue").click()
    dialog = page.locator("dialog")
    dialog.get_by_label("Task").select_option("mail.greet")
    dialog.get_by_label("Arguments").fill("{not json")
    dialog.get_by_role("button", name="Enqueue").click()
    expect(dialog.get_by_role("alert")).to_contain_text("not JSON")
    dialog.get_by_label("Arguments").fill('{"name": "Ada"}')
    dialog.get_by_label("Tags").fill("urgent eu")
    dialog.get_by_role("button", name="Enqueue").click()
    told(page, "The job is stored")
    expect(page).to_have_url(re.compile("#/jobs/0"))
    job_id = page.url.rpartition("/")[2]
    assert site.job(job_id).tags == ("urgent", "eu")

    page.get_by_role("button", name="Edit").click()
    dialog.get_by_label("Queue").fill("slow")
    dialog.get_by_label("Priority").fill("7")
    dialog.get_by_role("button", name="Change it").click()
    told(page, "The job is changed")
    assert (site.job(job_id).queue, site.job(job_id).priority) == ("slow", 7)

    page.get_by_role("button", name="Cancel").click()
    confirm(page, "Cancel the job")
    told(page, "The job is cancelled")
    assert site.job(job_id).state is State.CANCELLED
    expect(page.get_by_role("button", name=re.compile("Edit: Only waiting"))).to_have_attribute(
        "aria-disabled", "true"
    )
    page.get_by_role("button", name="Delete").click()
    confirm(page, "Delete it")
    told(page, "The job is deleted")
    assert site.ask(lambda: site.app.get(job_id)) is None


def test_edit_that_lost_a_race_is_refused_in_words(
    page: Page, browser: Desk, site: Site, complaints: list[str]
) -> None:
    job = site.enqueue("mail.greet", name="Ada")
    go(page, site, f"jobs/{job.id}")
    page.get_by_role("button", name="Edit").click()
    site.ask(lambda: site.app.edit(job.id, priority=3))
    dialog = page.locator("dialog")
    dialog.get_by_label("Priority").fill("9")
    dialog.get_by_role("button", name="Change it").click()
    expect(dialog.get_by_role("alert")).to_contain_text("somebody changed it")
    assert site.job(job.id).priority == 3
    assert all("409" in each for each in complaints)
    complaints.clear()


def test_running_job_is_asked_to_stop(page: Page, browser: Desk, site: Site) -> None:
    job = site.enqueue("media.encode", title="Metropolis")
    site.work()
    go(page, site, f"jobs/{job.id}")
    expect(page.get_by_role("heading", level=1)).to_contain_text("running")
    expect(page.get_by_role("progressbar")).to_have_attribute("aria-valuenow", "40")
    page.get_by_role("button", name="Cancel", exact=True).click()
    confirm(page, "Cancel the job")
    told(page, "asked to stop")
    expect(page.get_by_role("heading", level=1)).to_contain_text("cancelled")
    assert site.job(job.id).state is State.CANCELLED


def test_dead_job_is_replayed(page: Page, browser: Desk, site: Site) -> None:
    job = site.enqueue("billing.charge", amount=5)
    site.drain()
    go(page, site, f"jobs/{job.id}")
    page.get_by_role("button", name="Replay").click()
    confirm(page, "Replay it")
    told(page, "back at work")
    assert site.job(job.id).state is State.SCHEDULED


def test_selected_jobs_are_steered_together(page: Page, browser: Desk, site: Site) -> None:
    dead = site.enqueue("billing.charge", amount=1)
    site.drain()
    waiting = [site.enqueue("mail.greet", name=str(at)) for at in range(3)]
    go(page, site, "jobs")
    page.get_by_role("checkbox", name=f"Select job {dead.id}").check()
    page.get_by_role("checkbox", name=f"Select job {waiting[0].id}").check()
    bar = page.get_by_role("toolbar", name="Selected jobs")
    expect(bar).to_contain_text("2 jobs selected")
    bar.get_by_role("button", name="Replay 1").click()
    expect(page.locator("dialog .list")).to_have_text(dead.id)
    confirm(page, "Replay 1")
    told(page, "1 job put back to work")
    assert site.job(dead.id).state is State.SCHEDULED
    page.get_by_role("checkbox", name="Select all on this page").check()
    bar.get_by_role("button", name="Cancel").click()
    confirm(page, "Cancel 4")
    told(page, "4 jobs cancelled")
    assert {site.job(each.id).state for each in waiting} == {State.CANCELLED}
    page.get_by_role("checkbox", name=f"Select job {dead.id}").check()
    bar.get_by_role("button", name="Delete").click()
    confirm(page, "Delete 1")
    told(page, "1 job deleted")
    assert site.ask(lambda: site.app.get(dead.id)) is None


def test_schedule_is_run_paused_resumed_and_removed(page: Page, browser: Desk, site: Site) -> None:
    site.schedule()
    go(page, site, "schedules")
    page.get_by_role("button", name="Run now").click()
    confirm(page, "Run it now")
    told(page, "It was fired")
    assert [job.task for job in site.ask(site.app.find)] == ["mail.greet"]
    page.get_by_role("button", name="Pause").click()
    told(page, "Schedule hourly is paused")
    assert [each.paused for each in site.ask(site.app.schedules.list)] == [True]
    page.get_by_role("button", name="Resume").click()
    told(page, "fires again")
    assert [each.paused for each in site.ask(site.app.schedules.list)] == [False]
    page.get_by_role("link", name="hourly").click()
    page.get_by_role("button", name="Remove").click()
    confirm(page, "Remove it")
    told(page, "The schedule is removed")
    assert site.ask(site.app.schedules.list) == []


def test_groups_of_dead_letters_are_replayed_and_discarded(page: Page, browser: Desk, site: Site) -> None:
    many = [site.enqueue("billing.charge", amount=1) for _ in range(7)]
    few = [site.enqueue("billing.charge", amount=2) for _ in range(2)]
    site.drain()
    go(page, site, "dead")
    of_many = page.locator(".group", has_text="refused 1")
    of_many.get_by_role("button", name="Replay").click()
    confirm(page, "Replay 7")
    told(page, "7 jobs put back to work")
    assert {site.job(each.id).state for each in many} == {State.SCHEDULED}
    expect(page.locator(".group")).to_have_count(1)
    page.get_by_role("button", name="Discard").click()
    confirm(page, "Discard 2")
    told(page, "2 jobs discarded")
    assert [site.ask(lambda: site.app.get(few[0].id)), site.ask(lambda: site.app.get(few[1].id))] == [
        None,
        None,
    ]


def test_waiting_events_are_replayed_and_skipped(page: Page, browser: Desk, site: Site) -> None:
    site.work()
    site.ask(lambda: site.app.emit(Event(topic="orders", type="broken", data={}, aggregate="order-2")))
    go(page, site, "events")
    waiting = page.locator("section[aria-label=Waiting]")
    expect(waiting).to_contain_text("order-2")
    waiting.get_by_role("button", name="Replay").click()
    told(page, "The event is tried again")
    waiting.get_by_role("button", name="Skip").click()
    confirm(page, "Skip it")
    told(page, "The event is left out")
    expect(waiting).to_have_count(0)
    assert [group.waiting for group in site.ask(site.app.events.groups)] == [[]]
