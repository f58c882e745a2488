"""Signing in and out, and what a role may not do."""

import re
from collections.abc import Callable

from playwright.sync_api import Page, expect

from holdfast.web import Role
from tests.dashboard.conftest import signed_in
from tests.dashboard.desk import Desk
from tests.dashboard.site import TOKENS, Site


def test_signs_in_and_out(
    open_page: Callable[..., Page], browser: Desk, site: Site, complaints: list[str]
) -> None:
    page = open_page()
    page.goto(f"{site.url}#/queues")
    page.get_by_label("Access token").fill("a-wrong-token-that-is-long")
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("alert")).to_have_text("This token is not accepted.")
    page.get_by_label("Access token").fill(TOKENS[Role.OPERATE])
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_have_text("Queues")
    expect(page.locator(".who")).to_contain_text("ada-operate")
    page.reload()
    expect(page.get_by_role("heading", level=1)).to_have_text("Queues")
    page.get_by_role("button", name="Sign out").click()
    expect(page.get_by_label("Access token")).to_be_focused()
    page.reload()
    expect(page.get_by_label("Access token")).to_be_visible()
    assert all("401" in each for each in complaints), complaints
    complaints.clear()


def test_sign_in_address_keeps_no_token(
    open_page: Callable[..., Page], browser: Desk, site: Site, complaints: list[str]
) -> None:
    page = signed_in(open_page(), site)
    assert "token" not in page.url
    assert page.evaluate("JSON.stringify(localStorage) + document.cookie") == "{}"
    page.context.clear_cookies()
    page.keyboard.press("r")
    expect(page.get_by_role("alert")).to_have_text("Your session has ended. Sign in again.")
    page.close()
    complaints[:] = [each for each in complaints if "401" not in each]


def test_sign_in_address_is_taken_where_the_page_asks_for_a_token(
    open_page: Callable[..., Page], browser: Desk, site: Site, complaints: list[str]
) -> None:
    page = open_page()
    page.goto(f"{site.url}#token=cut-off-%e2%8")
    expect(page.get_by_role("alert")).to_have_text("The sign-in address is not valid any more.")
    page.goto(f"{site.url}#token={TOKENS[Role.OPERATE]}")
    expect(page.locator(".who")).to_contain_text("ada-operate")
    assert "token" not in page.url
    assert all("401" in each for each in complaints), complaints
    complaints.clear()


def test_what_the_role_may_not_do_says_why(open_page: Callable[..., Page], browser: Desk, site: Site) -> None:
    site.enqueue("billing.charge", amount=1)
    site.drain()
    [job] = site.ask(site.app.find)
    site.schedule()
    changes: list[str] = []
    page = signed_in(open_page(), site, Role.READ)
    page.on("request", lambda request: changes.append(request.method))
    for place, labels in {
        f"jobs/{job.id}": ("Cancel", "Replay", "Edit", "Delete", "Reveal"),
        "jobs": ("Enqueue",),
        "queues": ("Pause", "Set a limit"),
        "schedules": ("Run now", "Pause"),
        "dead": ("Replay", "Discard"),
    }.items():
        page.goto(f"{site.url}#/{place}")
        for label in labels:
            button = page.get_by_role("button", name=re.compile(f"^{label}: This needs the role")).first
            expect(button).to_have_attribute("aria-disabled", "true")
            button.click(force=True)
            expect(page.locator(".toast", has_text="This needs the role").first).to_be_visible()
    assert set(changes) == {"GET"}


def test_operator_may_not_delete(open_page: Callable[..., Page], browser: Desk, site: Site) -> None:
    job = site.enqueue("mail.greet", name="Ada")
    page = signed_in(open_page(), site, Role.OPERATE)
    page.goto(f"{site.url}#/jobs/{job.id}")
    expect(page.get_by_role("button", name="Cancel", exact=True)).not_to_have_attribute(
        "aria-disabled", "true"
    )
    expect(
        page.get_by_role("button", name="Delete: This needs the role admin; yours is operate.")
    ).to_be_visible()
