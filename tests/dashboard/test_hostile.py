"""Whatever a store holds is shown as text: nothing of it runs, loads, or breaks a page."""

import json
import re
from collections.abc import Callable
from itertools import cycle
from urllib.parse import quote

import pytest
from playwright.sync_api import Page, Route, expect

from holdfast import Event
from tests.dashboard.conftest import signed_in
from tests.dashboard.desk import Desk
from tests.dashboard.hostile import TEXTS, multiplied, poisoned
from tests.dashboard.site import Site

_STRANGE = (
    "main script, main iframe, main object, main base, main link, main meta, main style, main form, main img"
)


def check(page: Page) -> None:
    assert page.evaluate("window.pwned") is None
    assert page.locator(_STRANGE).count() == 0


def spoil(page: Page) -> None:
    """Has every answer say the texts in turn, and every list say all of them."""
    texts = cycle(TEXTS)

    def answer(route: Route) -> None:
        if route.request.url.endswith("/session"):
            route.continue_()
            return
        if "/stream" in route.request.url:
            route.fulfill(status=200, content_type="text/event-stream", body=": nothing\n\n")
            return
        # The server would refuse a name like that; here it answers as if the store had it.
        answer = route.fetch(url=re.sub(r"queue=[^&]*&?", "", route.request.url))
        document = multiplied(poisoned(answer.json(), next(texts)))
        route.fulfill(response=answer, body=json.dumps(document))

    page.route("**/api/v1/**", answer)


@pytest.fixture
def full_site(site: Site) -> Site:
    site.enqueue("mail.greet", name="Ada")
    site.enqueue("billing.charge", amount=1)
    site.drain()
    site.enqueue("media.encode", title="Metropolis")
    site.schedule()
    site.ask(lambda: site.app.limits.set(queue="mail", concurrency=2))
    site.ask(lambda: site.app.try_lock("invoice", ttl=60))
    site.ask(lambda: site.app.emit(Event(topic="orders", type="broken", data={}, aggregate="order-2")))
    site.fill_batch()
    site.work()
    site.enqueue("billing.charge", amount=2)
    return site


@pytest.mark.timeout(120)
def test_hostile_lists_are_shown_as_text(full_site: Site, page: Page, browser: Desk) -> None:
    spoil(page)
    for place in ("", "jobs", "queues", "dead", "workers", "schedules", "batches", "locks", "events"):
        page.goto(f"{full_site.url}#/{place}")
        page.reload()
        expect(page.locator("main tr, main .group").nth(3)).to_be_visible()
        check(page)
        shown = page.locator("main").inner_text()
        assert "<svg onload=window.pwned=1>" in shown or place in ("", "batches"), place
        assert "window.pwned=1" in shown or place == "batches", "all but ids, of which the middle is left out"
        page.keyboard.press("r")
        page.keyboard.press("j")
    page.keyboard.press("/")
    page.locator("dialog input").fill("<img src=x onerror=window.pwned=1>")
    expect(page.locator("dialog li").first).to_be_visible()
    check(page)


@pytest.mark.timeout(120)
def test_hostile_news_are_shown_as_text(full_site: Site, page: Page, browser: Desk) -> None:
    """The stream says the texts: one overview with a queue for each, then each as the only queue and job."""
    overview = page.request.get(f"{full_site.url}api/v1/overview").json()
    point = page.request.get(f"{full_site.url}api/v1/series").json()["points"][-1]
    [dead, *_] = full_site.ask(lambda: full_site.app.find(state="dlq"))
    job = page.request.get(f"{full_site.url}api/v1/jobs/{dead.id}").json()["job"]
    said: list[tuple[str, object]] = [("overview", multiplied(overview))]
    for text in TEXTS:
        said += [("overview", poisoned(overview, text)), ("point", poisoned(point, text))]
        # A job is heard of by its id, and asked for when its version is another.
        said.append(("job", {**poisoned(job, text), "id": dead.id, "version": text}))
    said.append(said[0])
    news = "".join(f"event: {name}\ndata: {json.dumps(each)}\n\n" for name, each in said)
    page.route(
        "**/api/v1/stream*",
        lambda route: route.fulfill(status=200, content_type="text/event-stream", body=news),
    )
    page.route("**/api/v1/overview", lambda route: route.fulfill(body=json.dumps(multiplied(overview))))
    for place in ("", "queues", f"jobs/{dead.id}"):
        page.goto(f"{full_site.url}#/{place}")
        with page.expect_response("**/api/v1/stream*"):
            page.reload()
        if place == "":
            expect(page.locator("main tbody").first).to_contain_text("window.pwned=1")
        expect(page.locator("nav.side .count").first).to_be_visible()
        check(page)
    # The search knows the queues that the stream has told, and the last news has all of them.
    page.keyboard.press("/")
    page.locator("dialog input").fill("<svg")
    expect(page.locator("dialog li").first).to_contain_text("<svg onload=")
    check(page)


@pytest.mark.timeout(120)
def test_hostile_details_are_shown_as_text(full_site: Site, page: Page, browser: Desk) -> None:
    [dead, *_] = full_site.ask(lambda: full_site.app.find(state="dlq"))
    [worker, *_] = full_site.ask(full_site.app.workers)
    queue = f"queues/{quote(TEXTS[2], safe='')}%202"
    spoil(page)
    for place in (f"jobs/{dead.id}", f"workers/{worker.id}", "schedules/hourly", queue):
        page.goto(f"{full_site.url}#/{place}")
        page.reload()
        page.locator("main .facts").last.wait_for()
        for _ in TEXTS:
            with page.expect_response("**/api/v1/**"):
                page.keyboard.press("r")
        check(page)


@pytest.mark.timeout(120)
def test_hostile_contents_of_the_store_are_shown_as_text(
    open_page: Callable[..., Page], browser: Desk, site: Site
) -> None:
    texts = [text for text in TEXTS if "\ud800" not in text and "\x00" not in text]
    jobs = [site.enqueue("mail.greet", name=text) for text in texts]
    site.ask(
        lambda: site.app.emit(
            *(
                Event(
                    topic="orders",
                    type="placed",
                    data={text: text},
                    aggregate=text if text.isprintable() else "x",
                )
                for text in texts
                if len(text) < 200
            )
        )
    )
    site.drain()
    page = signed_in(open_page(), site)
    for job in jobs:
        page.goto(f"{site.url}#/jobs/{job.id}")
        expect(page.locator("section[aria-label=Result] pre")).to_be_visible()
        check(page)
    page.goto(f"{site.url}#/events")
    expect(page.locator("section[aria-label=Events] tbody tr")).to_have_count(
        sum(len(t) < 200 for t in texts)
    )
    for summary in page.locator("summary").all()[:5]:
        summary.click()
    check(page)


def test_hostile_addresses_lead_nowhere(page: Page, browser: Desk, site: Site, complaints: list[str]) -> None:
    for text in TEXTS:
        if "\ud800" in text:
            continue
        page.evaluate("text => { location.hash = '#/' + text; }", text)
        expect(page.locator("main .card").first).to_be_visible()
        page.evaluate("text => { location.hash = '#/jobs/' + encodeURIComponent(text); }", text)
        expect(page.locator("main .card, main .notice").first).to_be_visible()
        check(page)
    complaints[:] = [each for each in complaints if "status of 4" not in each]
