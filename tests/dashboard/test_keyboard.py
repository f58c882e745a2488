"""Everything can be reached and done without a mouse, and one sees where one is."""

import re

from playwright.sync_api import Page, expect

from holdfast.model.lifecycle import State
from tests.dashboard.desk import Desk
from tests.dashboard.site import Site


def test_walks_through_all_pages_by_keys(page: Page, browser: Desk, site: Site) -> None:
    titles = ("Jobs", "Queues", "Dead letters", "Workers", "Schedules", "Locks", "Events")
    for key, title in zip("jqdwsle", titles, strict=True):
        page.keyboard.press("g")
        page.keyboard.press(key)
        expect(page.get_by_role("heading", level=1)).to_have_text(title)
        expect(page.get_by_role("link", name=re.compile(f"^{title}"))).to_have_attribute(
            "aria-current", "page"
        )
    page.keyboard.press("g")
    page.keyboard.press("o")
    expect(page.locator("[data-health]")).to_be_visible()


def test_finds_selects_and_cancels_by_keys(page: Page, browser: Desk, site: Site) -> None:
    jobs = [site.enqueue("mail.greet", name=str(at)) for at in range(3)]
    page.keyboard.press("g")
    page.keyboard.press("j")
    expect(page.locator("tbody tr")).to_have_count(3)
    for key in "jjxjxk":
        page.keyboard.press(key)
    expect(page.get_by_role("toolbar", name="Selected jobs")).to_contain_text("2 jobs selected")
    focused = page.locator("tbody a.main").nth(1)
    expect(focused).to_be_focused()
    assert focused.evaluate("each => getComputedStyle(each).outlineStyle") == "solid"
    page.get_by_role("toolbar").get_by_role("button", name="Cancel").focus()
    page.keyboard.press("Enter")
    expect(page.locator("dialog")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.locator("dialog")).to_have_count(0)
    expect(page.get_by_role("toolbar").get_by_role("button", name="Cancel")).to_be_focused()
    page.keyboard.press("Enter")
    page.keyboard.press("Enter")
    expect(page.locator(".toast")).to_contain_text("2 jobs cancelled")
    assert [site.job(each.id).state for each in jobs] == [State.CANCELLED, State.CANCELLED, State.SCHEDULED]
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile("#/jobs/0"))
    expect(page.get_by_role("button", name="Replay")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page).to_have_url(re.compile("#/jobs$"))


def test_search_opens_a_job_by_its_id(page: Page, browser: Desk, site: Site) -> None:
    job = site.enqueue("mail.greet", name="Ada")
    page.keyboard.press("/")
    expect(page.get_by_role("combobox")).to_be_focused()
    page.keyboard.type(job.id)
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_contain_text("mail.greet")
    page.keyboard.press("Control+k")
    page.keyboard.type("sched")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowUp")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_have_text("Schedules")
    page.keyboard.press("?")
    expect(page.get_by_role("dialog", name="Keyboard shortcuts")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)


def test_tab_reaches_every_action(page: Page, browser: Desk, site: Site) -> None:
    site.enqueue("mail.greet", name="Ada")
    page.goto(f"{site.url}#/queues")
    pause = page.get_by_role("button", name="Pause")
    expect(pause).to_be_visible()
    page.get_by_text("Skip to the page").focus()
    page.keyboard.press("Enter")
    expect(page.locator("main")).to_be_focused()
    for _ in range(3):
        page.keyboard.press("Tab")
        if pause.evaluate("each => each === document.activeElement"):
            break
    expect(pause).to_be_focused()
    named = page.evaluate(
        "[...document.querySelectorAll('button, a, input, select')].filter(each => each.offsetParent && "
        "!(each.textContent.trim() || each.ariaLabel || each.labels?.length || each.title)).length"
    )
    assert named == 0
