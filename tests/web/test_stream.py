"""The live stream."""

import asyncio
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx

from holdfast import Holdfast
from holdfast.web import Bounds, Web
from holdfast.web.access import Role
from holdfast.web.sessions import CSRF_HEADER
from tests.web.serving import SECRETS, Serving, make_web, serving
from tests.web.shop import make_shop


@contextmanager
def events(client: httpx.Client, query: str = "") -> Iterator[Iterator[tuple[str, Any]]]:
    """The events of a stream, as they come."""
    with client.stream("GET", f"/api/v1/stream{query}") as answer:
        assert answer.status_code == 200
        assert answer.headers["Content-Type"].startswith("text/event-stream")
        assert answer.headers["Cache-Control"] == "no-store"
        yield _parsed(answer.iter_lines())


def _parsed(lines: Iterator[str]) -> Iterator[tuple[str, Any]]:
    name = ""
    for line in lines:
        if line.startswith("event: "):
            name = line.removeprefix("event: ")
        elif line.startswith("data: "):
            yield name, json.loads(line.removeprefix("data: "))
        elif line.startswith(":"):
            yield "comment", line


def until(told: Iterator[tuple[str, Any]], wanted: str) -> Any:
    return next(data for name, data in told if name == wanted)


def test_changes_are_told(server: Serving, shop: Holdfast) -> None:
    async def cancel(job_id: str) -> None:
        await shop.cancel(job_id)

    job = server.admin.post("/api/v1/jobs", json={"task": "add", "arguments": {"a": 1}}).json()["job"]
    with events(server.admin, f"?job={job['id'].upper()}") as told:
        first = until(told, "overview")
        assert set(first) == set(server[Role.READ].get("/api/v1/overview").json())
        assert until(told, "point")["queued"] >= 0
        assert until(told, "job")["state"] == "scheduled"
        server.run(cancel(job["id"]))
        server[Role.OPERATE].post("/api/v1/queues/default/pause")  # makes the server look at once
        assert until(told, "job")["state"] == "cancelled"
    server.admin.post("/api/v1/queues/default/resume")


def test_a_stream_ends_with_its_session(server: Serving) -> None:
    with httpx.Client(base_url=server.url, timeout=30) as browser:
        began = browser.post("/api/v1/session", json={"token": SECRETS[Role.READ]}).json()
        with events(browser) as told:
            until(told, "overview")
            ended = httpx.delete(
                f"{server.url}/api/v1/session",
                headers={CSRF_HEADER: began["csrf"]},
                cookies=dict(browser.cookies),
            )
            assert ended.status_code == 204
            assert [name for name, _ in told if name == "never"] == []


def test_there_are_only_so_many_streams_of_one_user() -> None:
    async def count(web: Web) -> int:
        await asyncio.sleep(0.01)
        return web.site.streaming.total()

    web = make_web(make_shop(), Bounds(streams_each=1, streams=2))
    with serving(web) as server:
        with events(server[Role.READ]) as told:
            until(told, "overview")
            refused = server[Role.READ].get("/api/v1/stream")
            assert (refused.status_code, refused.json()["error"]["code"]) == (429, "too_many_streams")
            with events(server.admin) as other:
                until(other, "overview")
                assert server[Role.OPERATE].get("/api/v1/stream").status_code == 429
        # That those have left is noticed a moment later.
        while server.run(count(web)):
            continue
        with events(server[Role.OPERATE]) as told:
            until(told, "overview")


def test_more_jobs_than_one_stream_watches_are_refused(server: Serving) -> None:
    query = "&".join(f"job=00000000-0000-0000-0000-{each:012x}" for each in range(51))
    assert server.admin.get(f"/api/v1/stream?{query}").status_code == 400


def test_an_open_stream_does_not_keep_the_server_from_ending() -> None:
    reading = threading.Event()
    ended = threading.Event()

    def read(client: httpx.Client) -> None:
        with events(client) as told:
            until(told, "overview")
            reading.set()
            for _ in told:
                pass
        ended.set()

    web = make_web(make_shop())
    with serving(web) as server:
        thread = threading.Thread(target=read, args=(server.admin,))
        thread.start()
        assert reading.wait(20)
        web.site.is_closing = True
        assert ended.wait(20)
        thread.join(20)
