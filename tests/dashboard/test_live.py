"""Changes appear without a reload, keep what one does, and survive a server that goes away."""

from playwright.sync_api import Page, expect

from tests.dashboard.desk import Desk
from tests.dashboard.site import Site


def test_changes_appear_by_themselves(page: Page, browser: Desk, site: Site) -> None:
    page.evaluate("window.kept = true")
    expect(page.locator(".live")).to_have_text("Live")
    queued = page.locator(".tiles a", has_text="Queued").locator(".value")
    expect(queued).to_have_text("0")
    job = site.enqueue("media.encode", title="Metropolis")
    expect(queued).to_have_text("1")
    page.goto(f"{site.url}#/jobs/{job.id}")
    heading = page.get_by_role("heading", level=1)
    expect(heading).to_contain_text("scheduled")
    site.work()
    expect(heading).to_contain_text("running")
    page.get_by_text("Evidence").click()
    site.let_go()
    expect(heading).to_contain_text("success")
    assert page.evaluate("window.kept") is True


def test_new_jobs_wait_for_a_key_so_that_nothing_jumps(page: Page, browser: Desk, site: Site) -> None:
    first = site.enqueue("mail.greet", name="Ada")
    page.goto(f"{site.url}#/jobs")
    link = page.locator("tbody a.main")
    link.focus()
    site.enqueue("mail.greet", name="Grace")
    site.drain()
    page.keyboard.press("r")
    expect(page.get_by_role("button", name="1 new: show")).to_be_visible()
    expect(page.locator("tbody tr")).to_have_count(1)
    expect(page.locator("tbody tr")).to_contain_text("success")
    expect(link).to_be_focused()
    page.get_by_role("button", name="1 new: show").click()
    expect(page.locator("tbody tr")).to_have_count(2)
    expect(page.locator("tbody tr").last).to_have_attribute("data-row", first.id)


def test_what_newer_jobs_have_pushed_off_the_page_still_fits(page: Page, browser: Desk, site: Site) -> None:
    def fill(count: int) -> None:
        task = site.app.tasks["mail.greet"]
        site.ask(lambda: site.app.enqueue_many([task.call(name=str(at)) for at in range(count)]))

    fill(60)
    page.goto(f"{site.url}#/jobs?queue=mail")
    expect(page.locator("tbody tr")).to_have_count(50)
    fill(60)
    page.keyboard.press("r")
    expect(page.get_by_role("button", name="50 new: show")).to_be_visible()
    expect(page.locator("tbody tr.gone")).to_have_count(0)


def test_tells_that_the_server_is_gone_and_comes_back(
    page: Page, browser: Desk, site: Site, complaints: list[str]
) -> None:
    state = page.locator(".live")
    expect(state).to_have_text("Live")
    site.stop()
    expect(state).to_have_text("Reconnecting…")
    page.goto(f"{site.url}#/queues")
    expect(page.get_by_role("alert")).to_contain_text("cannot be reached")
    site.start()
    # The server that came back knows no session any more.
    expect(page.get_by_label("Access token")).to_be_visible(timeout=20_000)
    complaints.clear()
