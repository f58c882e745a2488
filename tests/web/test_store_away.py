"""A store that does not answer, and one that answers too late."""

import asyncio
import time

import pytest

from holdfast import Holdfast
from holdfast.model.errors import OutcomeUnknown, SchemaMismatch, StoreUnavailable
from holdfast.web import Bounds
from tests.servers.ports import free_port
from tests.web.serving import Serving, make_web, serving
from tests.web.shop import make_shop

WORDS = "connection to 10.1.2.3 refused for user ann"


def test_while_the_store_cannot_be_reached_everything_says_so_soon() -> None:
    shop = make_shop(f"postgresql://ann:hush@127.0.0.1:{free_port()}/jobs")
    with serving(make_web(shop)) as server:
        began = time.monotonic()
        for path in ("/api/v1/overview", "/api/v1/jobs", "/api/v1/stats", "/api/v1/stream"):
            answer = server.admin.get(path)
            assert (answer.status_code, answer.json()["error"]["code"]) == (503, "store_unavailable")
            assert "Retry-After" in answer.headers
            assert "hush" not in answer.text
        ready = server[None].get("/health/ready")
        assert (ready.status_code, ready.json()["ok"]) == (503, False)
        assert server[None].get("/health/live").status_code == 200
        assert time.monotonic() - began < 15


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (StoreUnavailable(WORDS), "store_unavailable"),
        (OutcomeUnknown(WORDS), "outcome_unknown"),
        (SchemaMismatch(WORDS), "schema_mismatch"),
    ],
)
def test_what_the_store_says_is_not_told(
    server: Serving, shop: Holdfast, monkeypatch: pytest.MonkeyPatch, error: Exception, code: str
) -> None:
    async def fail(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(shop, "cancel", fail)
    answer = server.admin.post("/api/v1/jobs/01a1ec4d-039f-756f-8d03-0db1eda0c385/cancel")
    assert (answer.status_code, answer.json()["error"]["code"]) == (503, code)
    assert "10.1.2.3" not in answer.text


def test_what_takes_longer_than_a_request_may_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    shop = make_shop()

    async def never(*_: object, **__: object) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr(shop, "stats", never)
    monkeypatch.setattr(shop, "cancel", never)
    with serving(make_web(shop, Bounds(budget_seconds=0.3))) as server:
        answer = server.admin.get("/api/v1/stats")
        assert (answer.status_code, answer.json()["error"]["code"]) == (504, "over_budget")
        change = server.admin.post("/api/v1/jobs/01a1ec4d-039f-756f-8d03-0db1eda0c385/cancel")
        assert change.status_code == 504
        assert "may have been done" in change.json()["error"]["message"]


def test_without_the_application_only_tasks_that_a_live_worker_knows_are_taken() -> None:
    shop = make_shop()
    with serving(make_web(shop)) as server:

        async def look() -> list[int]:
            async with shop.worker():
                shop._tasks.clear()
                return await asyncio.to_thread(ask)

        def ask() -> list[int]:
            bodies = (
                {"task": "add", "arguments": {"a": 1}},
                {"task": "add", "arguments": {"a": 1}, "queue": "elsewhere"},
                {"task": "unheard-of"},
            )
            return [server.admin.post("/api/v1/jobs", json=body).status_code for body in bodies]

        assert server.run(look()) == [201, 201, 422]
