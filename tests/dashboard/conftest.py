"""A browser for the whole session, a server and a page for each test."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from playwright.sync_api import BrowserContext, ConsoleMessage, Page, expect

from holdfast.web import Role, sampler
from tests.dashboard.desk import Desk, Loop
from tests.dashboard.site import TOKENS, Site
from tests.servers.browser import find_browser
from tests.servers.run import Run

PATIENCE = 15_000
expect.set_options(timeout=PATIENCE)


@pytest.fixture(scope="session")
def browser(servers: Run) -> Iterator[Desk]:
    desk = Desk(*find_browser(servers))
    yield desk
    desk.close()


@pytest.fixture(scope="session")
def loop() -> Iterator[Loop]:
    loop = Loop()
    yield loop
    loop.close()


@pytest.fixture
def site(loop: Loop, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    monkeypatch.setattr(sampler, "STEP_SECONDS", 0.2)
    site = Site(loop)
    yield site
    site.close()


@pytest.fixture
def complaints() -> list[str]:
    """What the browser complained about: errors, refused content, dialogs. A test may expect some."""
    return []


@pytest.fixture
def open_page(browser: Desk, site: Site, complaints: list[str]) -> Iterator[Callable[..., Page]]:
    """Makes pages, each in a profile of its own. Whatever they complain about fails the test.

    They are closed before the site is: a stream that is cut off is worth a complaint.
    """
    contexts: list[BrowserContext] = []

    def hear(said: ConsoleMessage) -> None:
        if said.type in ("error", "warning"):
            complaints.append(f"{said.type}: {said.text}")

    def make(**options: Any) -> Page:
        options = {"viewport": {"width": 1280, "height": 900}, **options}
        context = browser.browser.new_context(**options)
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(PATIENCE)
        page.set_default_navigation_timeout(2 * PATIENCE)
        page.on("pageerror", lambda error: complaints.append(f"error: {error}"))
        page.on("dialog", lambda dialog: complaints.append(f"dialog: {dialog.message}"))
        page.on("console", hear)
        return page

    yield make
    for context in contexts:
        browser.run(context.close)
    assert complaints == []


@pytest.fixture
def page(open_page: Callable[..., Page], browser: Desk, site: Site) -> Page:
    """The dashboard, signed in as admin."""
    return browser.run(lambda: signed_in(open_page(), site))


def signed_in(page: Page, site: Site, role: Role = Role.ADMIN) -> Page:
    page.goto(f"{site.url}#token={TOKENS[role]}")
    page.locator(".shell").wait_for()
    return page


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> object:
    """Runs a test that has a browser on the thread that drives it."""
    desk = pyfuncitem.funcargs.get("browser")
    if not isinstance(desk, Desk):
        return None
    wanted = pyfuncitem._fixtureinfo.argnames
    given = {name: pyfuncitem.funcargs[name] for name in wanted}
    desk.run(lambda: pyfuncitem.obj(**given))
    return True
