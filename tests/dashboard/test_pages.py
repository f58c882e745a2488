"""Each page shows what is in the store, and says so when there is nothing."""

import re

from playwright.sync_api import Page, expect

from holdfast import Event, every
from tests.dashboard.desk import Desk
from tests.dashboard.site import Site

NOTHING = {
    "": "No queue yet",
    "jobs": "No jobs yet",
    "queues": "No limits",
    "dead": "No dead letters",
    "workers": "No worker has registered",
    "schedules": "No schedules",
    "batches": "No batch is open",
    "locks": "No lock is held",
    "events": "No group has consumed yet",
    "nowhere": "There is no such page",
    "jobs/019a0000-0000-7000-8000-000000000000": "No such job is stored",
    "workers/nobody": "There is no such worker",
    "schedules/never": "There is no schedule never",
    "queues/none": "There is no queue none",
}


def test_every_page_says_that_there_is_nothing(
    page: Page, browser: Desk, site: Site, complaints: list[str]
) -> None:
    for place, words in NOTHING.items():
        page.goto(f"{site.url}#/{place}")
        expect(page.locator("main")).to_contain_text(words)
    # What is gone is asked for nevertheless, and the browser notes the answer.
    assert {each for each in complaints if "404" not in each} == set()
    complaints.clear()


def test_overview_answers_whether_it_is_healthy(page: Page, browser: Desk, site: Site) -> None:
    site.enqueue("mail.greet", name="Ada")
    verdict = page.get_by_role("heading", level=1)
    expect(verdict).to_have_text("Nothing runs: no worker is live, and 1 job is due.")
    expect(page.locator("[data-health]")).to_have_attribute("data-health", "bad")
    expect(page.get_by_role("row", name="mail")).to_contain_text("open")
    site.work()
    expect(verdict).to_contain_text("Healthy")
    expect(page.locator("[data-health]")).to_have_attribute("data-health", "good")
    for title in ("Throughput", "Lateness", "Failures", "Queue age"):
        expect(page.locator(f"section[aria-label='{title}'] svg")).to_be_visible()
    site.ask(lambda: site.app.queues.pause("mail"))
    site.enqueue("mail.greet", name="Grace")
    expect(verdict).to_contain_text("Queue mail is paused")


def test_charts_read_out_under_pointer_and_keys(page: Page, browser: Desk, site: Site) -> None:
    plot = page.locator("section[aria-label='Throughput'] .plot")
    expect(page.locator("section[aria-label='Throughput'] svg path.stroke")).to_have_count(1)
    plot.hover()
    expect(page.locator(".plot .cross")).to_have_count(4)
    page.mouse.move(0, 0)
    expect(page.locator(".plot .cross")).to_have_count(0)
    plot.focus()
    page.keyboard.press("ArrowLeft")
    expect(page.locator(".plot .cross")).to_have_count(4)
    expect(plot).to_have_attribute("aria-label", re.compile(r"Throughput at .*succeeded"))


def test_jobs_are_found_by_filters_and_paged(page: Page, browser: Desk, site: Site) -> None:
    calls = [
        site.app.tasks["mail.greet"].using(tags=["odd" if at % 2 else "even"]).call(name=str(at))
        for at in range(60)
    ]
    site.ask(lambda: site.app.enqueue_many(calls))
    site.enqueue("billing.charge", amount=3)
    page.goto(f"{site.url}#/jobs")
    rows = page.locator("tbody tr")
    expect(rows).to_have_count(50)
    page.get_by_role("button", name="Next page").click()
    expect(rows).to_have_count(11)
    page.get_by_role("link", name="First page").click()
    expect(rows).to_have_count(50)
    page.get_by_role("searchbox", name="tag").fill("odd")
    page.keyboard.press("Enter")
    expect(rows).to_have_count(30)
    page.get_by_role("link", name="Clear").click()
    page.get_by_role("searchbox", name="task").fill("billing.charge")
    page.keyboard.press("Enter")
    expect(rows).to_have_count(1)
    page.get_by_label("State").get_by_text("success").click()
    expect(page.locator("main")).to_contain_text("No job fits")
    page.goto(f"{site.url}#/jobs?due=hour")
    expect(page.locator("main")).to_contain_text("No job fits")
    page.get_by_role("combobox", name="due").select_option("overdue")
    expect(rows).to_have_count(50)


def test_job_tells_its_attempts_and_why(page: Page, browser: Desk, site: Site) -> None:
    job = site.enqueue("billing.charge", amount=7, password="hunter2-and-more")
    page.goto(f"{site.url}#/jobs/{job.id}")
    expect(page.get_by_role("heading", name="Why is it not running?")).to_be_visible()
    expect(page.locator(".sentence")).to_contain_text("worker")
    page.get_by_text("Evidence").click()
    expect(page.locator(".evidence")).to_contain_text("workers")
    site.drain()
    expect(page.get_by_role("heading", name="What became of it?")).to_be_visible()
    attempt = page.locator(".attempt")
    expect(attempt).to_contain_text("Attempt 1")
    expect(attempt).to_contain_text(str(site.job(job.id).token))
    attempt.locator("summary").click()
    expect(attempt.locator("pre")).to_contain_text("RuntimeError: the gateway refused 7")
    expect(page.locator("section[aria-label=Arguments] pre")).to_contain_text('"amount": 7')
    expect(page.locator("body")).not_to_contain_text("hunter2")
    page.get_by_role("button", name="Reveal").click()
    page.get_by_role("button", name="Show it").click()
    expect(page.locator("section[aria-label=Arguments] pre")).to_contain_text("hunter2-and-more")


def test_job_shows_its_result(page: Page, browser: Desk, site: Site) -> None:
    job = site.enqueue("mail.greet", name="Ada")
    site.drain()
    page.goto(f"{site.url}#/jobs/{job.id}")
    expect(page.locator("section[aria-label=Result] pre")).to_contain_text("Hello, Ada")


def test_workers_show_what_they_hold(page: Page, browser: Desk, site: Site) -> None:
    job = site.enqueue("media.encode", title="Metropolis")
    worker = site.work()
    page.goto(f"{site.url}#/workers")
    row = page.locator("tbody tr")
    expect(row).to_contain_text("live")
    expect(page.locator("section.leader")).to_contain_text(worker.id)
    page.get_by_role("link", name=worker.id).first.click()
    expect(page.locator("section[aria-label=Holds]")).to_contain_text("media.encode")
    page.locator("section[aria-label=Holds] a.main").click()
    expect(page.locator(".attempt")).to_contain_text(worker.id)
    expect(page.locator(".attempt")).to_contain_text(str(site.job(job.id).token))


def test_schedules_show_what_comes_next(page: Page, browser: Desk, site: Site) -> None:
    site.schedule()
    site.ask(lambda: site.app.schedules.put("pulse", every(60), Event(topic="clock", type="tick", data={})))
    page.goto(f"{site.url}#/schedules")
    expect(page.locator("section.leader")).to_contain_text("nobody")
    expect(page.get_by_role("row", name="pulse")).to_contain_text("event in clock")
    page.get_by_role("link", name="hourly").click()
    expect(page.locator(".dues li")).to_have_count(10)


def test_locks_show_holder_and_token(page: Page, browser: Desk, site: Site) -> None:
    grant = site.ask(lambda: site.app.try_lock("invoice/8801", ttl=30))
    assert grant is not None
    page.goto(f"{site.url}#/locks")
    row = page.get_by_role("row", name="invoice/8801")
    expect(row).to_contain_text(str(grant.token))


def test_dead_letters_are_grouped_by_error(page: Page, browser: Desk, site: Site) -> None:
    for amount in (1, 1, 1, 2):
        site.enqueue("billing.charge", amount=amount)
    site.drain()
    page.goto(f"{site.url}#/dead")
    groups = page.locator(".group")
    expect(groups).to_have_count(2)
    expect(groups.first).to_contain_text("RuntimeError: the gateway refused 1")
    expect(groups.first.locator(".many")).to_have_text("3")


def test_events_show_groups_and_what_waits(page: Page, browser: Desk, site: Site) -> None:
    site.work()
    site.ask(
        lambda: site.app.emit(Event(topic="orders", type="placed", data={"total": 5}, aggregate="order-1"))
    )
    site.ask(lambda: site.app.emit(Event(topic="orders", type="broken", data={}, aggregate="order-2")))
    page.goto(f"{site.url}#/events")
    expect(page.locator("section[aria-label='Consumer groups']")).to_contain_text("ledger")
    expect(page.locator("section[aria-label=Waiting]")).to_contain_text("negative amount")
    newest = page.locator("section[aria-label=Events] tbody tr")
    expect(newest).to_have_count(2)
    newest.last.get_by_text("Show").click()
    expect(newest.last.locator("pre")).to_contain_text('"total": 5')


def test_queue_page_shows_its_jobs(page: Page, browser: Desk, site: Site) -> None:
    site.enqueue("mail.greet", name="Ada")
    page.goto(f"{site.url}#/queues")
    page.get_by_role("link", name="mail", exact=True).click()
    expect(page.locator("section[aria-label='Newest jobs']")).to_contain_text("mail.greet")
    expect(page.locator("section[aria-label=Now]")).to_contain_text("Queued")


def test_no_page_asks_for_more_than_it_shows(page: Page, browser: Desk, site: Site) -> None:
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    for place in ("", "jobs", "queues", "dead", "workers", "schedules", "batches", "locks", "events"):
        page.goto(f"{site.url}#/{place}")
        page.locator("main .card").first.wait_for()
    limits = [int(found[1]) for url in asked if (found := re.search(r"[?&]limit=(\d+)", url))]
    assert limits
    assert max(limits) <= 100
    assert not [url for url in asked if not url.startswith(site.url)]
