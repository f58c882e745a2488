"""Changes of all jobs that match, also of those on other pages."""

from playwright.sync_api import Page, expect

from holdfast.model.lifecycle import State
from tests.dashboard.desk import Desk
from tests.dashboard.site import Site
from tests.dashboard.test_actions import confirm, go, told


def fill(site: Site, tag: str, count: int) -> None:
    task = site.app.tasks["mail.greet"].using(tags=[tag])
    site.ask(lambda: site.app.enqueue_many([task.call(name=str(at)) for at in range(count)]))


def states(site: Site, tag: str) -> list[State]:
    return [job.state for job in site.ask(lambda: site.app.find(tag=tag, limit=1_000))]


def choose_all(page: Page) -> None:
    page.get_by_role("checkbox", name="Select all on this page").check()
    page.get_by_role("toolbar").get_by_role("button", name="All that match").click()


def test_all_jobs_that_match_are_changed_also_those_on_other_pages(
    page: Page, browser: Desk, site: Site
) -> None:
    fill(site, "odd", 130)
    fill(site, "even", 60)
    requests: list[str] = []
    page.on("request", lambda request: requests.append(request.url))
    go(page, site, "jobs?tag=odd")
    choose_all(page)
    bar = page.get_by_role("toolbar", name="Selected jobs")
    expect(bar).to_contain_text("All jobs that match")
    bar.get_by_role("button", name="Cancel all").click()
    expect(page.locator("dialog .list")).to_contain_text("tag odd")
    confirm(page, "Keep as it is")
    assert set(states(site, "odd")) == {State.SCHEDULED}
    bar.get_by_role("button", name="Cancel all").click()
    confirm(page, "Cancel all")
    told(page, "130 jobs cancelled")
    assert states(site, "odd") == [State.CANCELLED] * 130
    assert states(site, "even") == [State.SCHEDULED] * 60
    expect(bar).to_have_count(0)
    choose_all(page)
    bar.get_by_role("button", name="Delete all").click()
    confirm(page, "Delete all")
    told(page, "130 jobs deleted")
    assert states(site, "odd") == []
    assert sum(url.endswith("/jobs/bulk") for url in requests) == 2


def test_one_asks_again_until_all_that_match_are_changed(page: Page, browser: Desk, site: Site) -> None:
    fill(site, "many", 1_200)
    go(page, site, "jobs?tag=many")
    choose_all(page)
    page.get_by_role("toolbar").get_by_role("button", name="Cancel all").click()
    confirm(page, "Cancel all")
    told(page, "1,200 jobs cancelled")
    assert set(states(site, "many")) == {State.CANCELLED}


def test_all_is_not_offered_without_a_filter_nor_where_the_state_does_not_allow_it(
    page: Page, browser: Desk, site: Site
) -> None:
    fill(site, "few", 60)
    go(page, site, "jobs")
    bar = page.get_by_role("toolbar", name="Selected jobs")
    page.get_by_role("checkbox", name="Select all on this page").check()
    expect(bar).to_contain_text("50 jobs selected")
    expect(bar.get_by_role("button", name="All that match")).to_have_count(0)
    go(page, site, "jobs?state=scheduled")
    expect(bar).to_have_count(0)
    choose_all(page)
    expect(bar.get_by_role("button", name="Replay all: Only dead")).to_have_attribute("aria-disabled", "true")
    page.keyboard.press("Escape")
    expect(bar).to_have_count(0)
