"""A batch that was left open is seen, closed and cancelled."""

from playwright.sync_api import Page, expect

from holdfast.model.lifecycle import State
from tests.dashboard.desk import Desk
from tests.dashboard.site import Site
from tests.dashboard.test_actions import confirm, go, told


def test_open_batch_is_seen_and_closed(page: Page, browser: Desk, site: Site) -> None:
    batch = site.fill_batch()
    go(page, site, "batches")
    row = page.locator("main tbody tr")
    expect(row).to_contain_text("0 of 3")
    row.get_by_role("button", name="Close batch").click()
    confirm(page, "Close the batch")
    told(page, "The batch is closed")
    expect(page.locator("main")).to_contain_text("No batch is open")
    assert not site.ask(lambda: site.app.batches.get(batch)).is_open


def test_open_batch_is_cancelled_from_the_page_of_its_last_job(page: Page, browser: Desk, site: Site) -> None:
    batch = site.fill_batch()
    go(page, site, "batches")
    page.locator("main tbody tr a.main").click()
    expect(page.locator("section[aria-label=Details]")).to_contain_text("0 of 3")
    page.get_by_role("button", name="Cancel batch").click()
    confirm(page, "Cancel the batch")
    told(page, "The batch is cancelled")
    expect(page.get_by_role("heading", level=1)).to_contain_text("cancelled")
    expect(page.get_by_role("button", name="Cancel batch")).to_have_count(0)
    assert {job.state for job in site.ask(site.app.find)} == {State.CANCELLED}
    assert site.ask(lambda: site.app.batches.get(batch)).failed == 3
