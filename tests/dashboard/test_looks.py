"""Dark mode, small screens, less motion: and no page that scrolls sideways."""

from collections.abc import Callable

from playwright.sync_api import Page, expect

from holdfast import Event
from tests.dashboard.conftest import signed_in
from tests.dashboard.desk import Desk
from tests.dashboard.site import Site

_BACKGROUND = "getComputedStyle(document.documentElement).backgroundColor"
_CLIPPED = """[...document.querySelectorAll("main .scroll")]
    .filter((each) => each.scrollWidth > each.clientWidth).map((each) => each.innerText)"""
_LIGHT, _DARK = "rgb(247, 247, 248)", "rgb(14, 15, 18)"


def test_theme_follows_the_system_until_it_is_chosen(
    open_page: Callable[..., Page], browser: Desk, site: Site
) -> None:
    page = signed_in(open_page(color_scheme="dark"), site)
    assert page.evaluate(_BACKGROUND) == _DARK
    page.keyboard.press("t")
    expect(page.get_by_role("button", name="Theme: light")).to_be_visible()
    assert page.evaluate(_BACKGROUND) == _LIGHT
    page.reload()
    page.locator(".shell").wait_for()
    assert page.evaluate(_BACKGROUND) == _LIGHT
    page.get_by_role("button", name="Theme: light").click()
    assert page.evaluate(_BACKGROUND) == _DARK
    page.keyboard.press("t")
    expect(page.get_by_role("button", name="Theme: auto")).to_be_visible()
    page.emulate_media(color_scheme="light", reduced_motion="reduce")
    assert page.evaluate(_BACKGROUND) == _LIGHT
    assert (
        page.evaluate("getComputedStyle(document.querySelector('.live i'), '::after').animationName")
        == "none"
    )


def test_no_page_scrolls_sideways(open_page: Callable[..., Page], browser: Desk, site: Site) -> None:
    long = "a-rather-long-name." * 10
    site.enqueue("billing.charge", amount=1)
    site.drain()
    site.ask(lambda: site.app.tasks["mail.greet"].using(queue=long, tags=[long], key=long).enqueue(name=long))
    site.schedule(long)
    site.ask(lambda: site.app.limits.set(queue=long, concurrency=2))
    site.ask(lambda: site.app.try_lock(long, ttl=60))
    site.fill_batch()
    worker = site.work()
    site.ask(lambda: site.app.emit(Event(topic="orders", type="broken", data={}, aggregate=long)))
    jobs = site.ask(site.app.find)
    places = ["", "jobs", "queues", "dead", "workers", "schedules", "batches", "locks", "events"]
    places.append(f"queues/{long}")
    places += [f"jobs/{job.id}" for job in jobs] + [f"workers/{worker.id}", f"schedules/{long}"]
    for width in (360, 768, 1024):
        page = signed_in(open_page(viewport={"width": width, "height": 740}), site)
        for place in places:
            page.goto(f"{site.url}#/{place}")
            page.locator("main .card").first.wait_for()
            page.locator("main .bone").first.wait_for(state="detached")
            over = page.evaluate("document.documentElement.scrollWidth - innerWidth")
            assert over <= 0, (place, width, over)
            assert page.evaluate(_CLIPPED) == [], (place, width)
        page.context.close()


def test_menu_of_a_small_screen(open_page: Callable[..., Page], browser: Desk, site: Site) -> None:
    page = signed_in(open_page(viewport={"width": 390, "height": 800}), site)
    jobs = page.get_by_role("navigation", name="Pages").get_by_role("link", name="Jobs")
    expect(jobs).to_be_hidden()
    page.get_by_role("button", name="Menu", exact=True).click()
    jobs.click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Jobs")
    expect(jobs).to_be_hidden()
