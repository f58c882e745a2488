"""A schedule is made in the browser."""

from datetime import UTC, datetime

import pytest
from playwright.sync_api import Page, expect

from holdfast import at, cron
from holdfast.model.recurrence import Recurrence, every
from tests.dashboard.desk import Desk
from tests.dashboard.site import Site
from tests.dashboard.test_actions import go, told


@pytest.mark.parametrize(
    ("kind", "when", "expected"),
    [
        ("every", "600", every(600)),
        ("cron", "0 3 * * *", cron("0 3 * * *", tz="Europe/Berlin")),
        ("at", "2090-01-31T09:00Z", at(datetime(2090, 1, 31, 9, tzinfo=UTC))),
    ],
)
def test_schedule_is_made(
    page: Page, browser: Desk, site: Site, kind: str, when: str, expected: Recurrence
) -> None:
    go(page, site, "schedules")
    page.get_by_role("button", name="New schedule").click()
    dialog = page.locator("dialog")
    dialog.locator("[name=name]").fill("greeting")
    dialog.locator("[name=kind]").select_option(kind)
    dialog.locator("[name=when]").fill(when)
    if kind == "cron":
        dialog.get_by_label("Time zone").fill("Europe/Berlin")
    dialog.get_by_label("Task").select_option("mail.greet")
    dialog.get_by_label("Arguments").fill('{"name": "clock"}')
    dialog.get_by_label("Due while a run is live").select_option("queue")
    dialog.get_by_role("button", name="Store it").click()
    told(page, "The schedule is stored")
    [made] = site.ask(site.app.schedules.list)
    assert (made.name, made.task, made.overlap) == ("greeting", "mail.greet", "queue")
    assert type(made.recurrence) is type(expected)
    assert str(made.recurrence) == str(expected) or kind == "every", "that has a start too"
    expect(page.get_by_role("heading", level=1)).to_contain_text("greeting")


def test_what_is_wrong_with_a_schedule_is_said_at_its_field(
    page: Page, browser: Desk, site: Site, complaints: list[str]
) -> None:
    site.schedule("hourly")
    go(page, site, "schedules")
    page.get_by_role("button", name="New schedule").click()
    dialog = page.locator("dialog")
    problem, store = dialog.get_by_role("alert"), dialog.get_by_role("button", name="Store it")
    store.click()
    expect(problem).to_contain_text("Say when it is due")
    dialog.locator("[name=when]").fill("often")
    store.click()
    expect(problem).to_contain_text("in seconds")
    dialog.locator("[name=when]").fill("600")
    store.click()
    expect(problem).to_contain_text("Give it a name")
    dialog.locator("[name=name]").fill("hourly")
    dialog.get_by_label("Task").select_option("mail.greet")
    dialog.get_by_label("Arguments").fill('{"name": "clock"}')
    store.click()
    expect(problem).to_contain_text("hourly")
    dialog.locator("[name=kind]").select_option("cron")
    dialog.locator("[name=when]").fill("61 * * * *")
    store.click()
    expect(problem).to_contain_text("61")
    [stored] = site.ask(site.app.schedules.list)
    assert stored.version == 1, "the one that was there stays as it is"
    assert all("status of 4" in each for each in complaints)
    complaints.clear()
