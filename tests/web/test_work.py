"""Jobs, queues, limits, schedules, events: seen and steered over HTTP."""

import asyncio
import uuid
from typing import Any

import pytest

from holdfast import Event, Holdfast, Job
from holdfast.web.access import Role
from holdfast.web.documents import JobDocument
from tests.web.serving import Serving


def enqueue(server: Serving, **body: Any) -> dict[str, Any]:
    answer = server.admin.post("/api/v1/jobs", json=body)
    assert answer.status_code == 201, answer.text
    job: dict[str, Any] = answer.json()["job"]
    return job


def dead(server: Serving, shop: Holdfast, count: int = 1) -> list[str]:
    """Jobs that have just died."""
    ids = [
        enqueue(server, task="send", arguments={"to": f"{each}", "password": "p"})["id"]
        for each in range(count)
    ]
    server.drain(shop)
    return ids


def test_a_job_document_has_all_that_a_job_tells() -> None:
    names = [name for name in Job.__struct_fields__ if name != "_source"]
    assert [*JobDocument.__struct_fields__] == names


def test_a_job_is_enqueued_run_and_shown(server: Serving, shop: Holdfast) -> None:
    job = enqueue(server, task="add", arguments={"a": 40}, tags=["t1"], priority=3)
    assert (job["state"], job["priority"], job["tags"]) == ("scheduled", 3, ["t1"])
    server.drain(shop)
    page = server.admin.get(f"/api/v1/jobs/{job['id']}").json()
    assert page["job"]["state"] == "success"
    assert page["arguments"] == {"a": 40}
    assert page["result"] == 42
    assert [each["outcome"] for each in page["attempts"]] == ["success"]
    assert page["attempts"][0]["token"] == page["job"]["token"]
    assert int(page["job"]["token"]) > 10**15
    assert page["explanation"]["sentence"].startswith("It succeeded")
    assert page["job"]["created"].endswith("Z")


def test_a_key_gives_one_job(server: Serving) -> None:
    body = {"task": "add", "arguments": {"a": 1}}
    key = {"Idempotency-Key": f"key-{uuid.uuid4()}"}
    first = server.admin.post("/api/v1/jobs", json=body, headers=key)
    second = server.admin.post("/api/v1/jobs", json=body, headers=key)
    assert (first.status_code, second.status_code) == (201, 200)
    assert (first.json()["created"], second.json()["created"]) == (True, False)
    assert first.json()["job"]["id"] == second.json()["job"]["id"]
    other = server.admin.post("/api/v1/jobs", json={"task": "add", "arguments": {"a": 2}}, headers=key)
    assert (other.status_code, other.json()["error"]["code"]) == (409, "key_conflict")
    both = server.admin.post("/api/v1/jobs", json={**body, "key": "another"}, headers=key)
    assert (both.status_code, both.json()["error"]["field"]) == (400, "key")
    same = server.admin.post("/api/v1/jobs", json={**body, "key": key["Idempotency-Key"]}, headers=key)
    assert same.status_code == 200
    bad = server.admin.post("/api/v1/jobs", json=body, headers={"Idempotency-Key": "a b"})
    assert (bad.status_code, bad.json()["error"]["field"]) == (400, "key")


def test_an_unknown_task_and_an_id_of_another_job_are_refused(server: Serving) -> None:
    unknown = server.admin.post("/api/v1/jobs", json={"task": "os.system"})
    assert (unknown.status_code, unknown.json()["error"]["code"]) == (422, "unknown_task")
    closing = server.admin.post("/api/v1/jobs", json={"task": "holdfast.batch"})
    assert closing.status_code == 422
    job = enqueue(server, task="add", arguments={"a": 1})
    taken = server.admin.post("/api/v1/jobs", json={"task": "add", "arguments": {"a": 2}, "id": job["id"]})
    assert (taken.status_code, taken.json()["error"]["code"]) == (409, "id_conflict")


def test_jobs_are_found_page_by_page(server: Serving) -> None:
    tag = f"tag-{uuid.uuid4().hex}"
    ids = [
        enqueue(server, task="add", arguments={"a": each}, tags=[tag], delay=3600)["id"] for each in range(5)
    ]
    found: list[str] = []
    cursor: str | None = None
    while True:
        query = {
            "tag": tag,
            "limit": "2",
            "state": ["scheduled", "retry"],
            **({"cursor": cursor} if cursor else {}),
        }
        page = server.admin.get("/api/v1/jobs", params=query).json()
        found += [job["id"] for job in page["jobs"]]
        cursor = page["cursor"]
        if cursor is None:
            break
    assert found == ids[::-1]


def test_a_job_is_edited_only_at_the_version_that_was_seen(server: Serving) -> None:
    job = enqueue(server, task="add", arguments={"a": 1}, delay=3600)
    path = f"/api/v1/jobs/{job['id']}"
    edited = server.admin.patch(path, json={"version": job["version"], "priority": 7, "tags": ["x"]})
    assert edited.json()["job"]["priority"] == 7
    stale = server.admin.patch(path, json={"version": job["version"], "priority": 8})
    assert (stale.status_code, stale.json()["error"]["code"]) == (409, "version_conflict")
    nothing = server.admin.patch(path, json={})
    assert nothing.status_code == 400
    assert server.admin.post(f"{path}/cancel").json() == {"answer": "cancelled"}
    late = server.admin.patch(path, json={"priority": 1})
    assert (late.status_code, late.json()["error"]["code"]) == (409, "state_conflict")
    assert server.admin.delete(path).status_code == 204
    assert server.admin.delete(path).status_code == 404
    assert server.admin.get(path).status_code == 404


def test_dead_letters_are_grouped_replayed_and_discarded(server: Serving, shop: Holdfast) -> None:
    first, *others = dead(server, shop, 4)
    answer = server.admin.get("/api/v1/dlq/groups", params={"task": "send", "queue": "mail"}).json()
    lines = {group["error"]: group for group in answer["groups"]}
    group = lines["ConnectionError: the mail server does not know 0"]
    assert first in group["ids"]
    assert answer["looked_at"] >= 4
    assert not answer["more"]
    replayed = server.admin.post(f"/api/v1/jobs/{first}/replay", json={})
    assert replayed.json()["job"]["state"] == "scheduled"
    by_error = {"task": "send", "queue": "mail", "error": "ConnectionError: the mail server does not know 1"}
    assert server.admin.post("/api/v1/dlq/replay", json=by_error).json()["done"] >= 1
    refused = server.admin.post("/api/v1/dlq/discard", json={"ids": [first, others[1]]}).json()
    assert refused["done"] == 1
    assert [(each["id"], each["code"]) for each in refused["refused"]] == [(first, "state_conflict")]
    assert server.admin.post("/api/v1/dlq/replay", json={}).status_code == 400
    assert server.admin.post("/api/v1/dlq/replay", json={"ids": [first], "task": "send"}).status_code == 400


def test_many_jobs_are_changed_at_once_and_those_refused_are_named(server: Serving) -> None:
    tag = f"tag-{uuid.uuid4().hex}"
    ids = [
        enqueue(server, task="add", arguments={"a": each}, tags=[tag], delay=3600)["id"] for each in range(45)
    ]
    gone = str(uuid.uuid4())
    answer = server.admin.post(
        "/api/v1/jobs/bulk", json={"action": "cancel", "ids": [*ids[:5], ids[0], gone]}
    ).json()
    assert (answer["done"], [each["code"] for each in answer["refused"]]) == (5, ["not_found"])
    some = {"action": "cancel", "filter": {"tag": tag, "state": ["scheduled"]}, "limit": 30}
    assert server.admin.post("/api/v1/jobs/bulk", json=some).json() == {
        "done": 30,
        "refused": [],
        "more": True,
        "cursor": ids[15],
    }
    rest = server.admin.post("/api/v1/jobs/bulk", json=some).json()
    assert (rest["done"], rest["more"]) == (10, False)
    refused = server.admin.post("/api/v1/jobs/bulk", json={"action": "replay", "filter": {"tag": tag}}).json()
    assert refused["done"] == 0
    assert {each["code"] for each in refused["refused"]} == {"state_conflict"}
    again = server.admin.post("/api/v1/jobs/bulk", json={"action": "cancel", "ids": ids[:2]}).json()
    assert (again["done"], again["refused"]) == (2, []), "they are cancelled, as was asked for"
    deleted = server.admin.post("/api/v1/jobs/bulk", json={"action": "delete", "filter": {"tag": tag}}).json()
    assert deleted["done"] == 45


def test_a_bulk_change_goes_on_behind_those_that_it_could_not_change(server: Serving) -> None:
    tag = f"tag-{uuid.uuid4().hex}"
    for each in range(5):
        enqueue(server, task="add", arguments={"a": each}, tags=[tag], delay=3600)
    body: dict[str, Any] = {"action": "replay", "filter": {"tag": tag}, "limit": 2}
    refused: list[str] = []
    for left in (True, True, False):
        answer = server.admin.post("/api/v1/jobs/bulk", json=body).json()
        refused += [each["id"] for each in answer["refused"]]
        assert answer["more"] is left
        body["cursor"] = answer["cursor"]
    assert len(set(refused)) == 5
    assert body["cursor"] is None


def test_to_cancel_what_had_ended_is_refused_among_many(server: Serving, shop: Holdfast) -> None:
    job = enqueue(server, task="add", arguments={"a": 1})["id"]
    server.drain(shop)
    answer = server.admin.post("/api/v1/jobs/bulk", json={"action": "cancel", "ids": [job]}).json()
    assert (answer["done"], [each["code"] for each in answer["refused"]]) == (0, ["state_conflict"])


def test_to_delete_many_takes_the_role_to_delete_one(server: Serving) -> None:
    body = {"action": "delete", "filter": {"queue": "nowhere"}}
    assert server[Role.OPERATE].post("/api/v1/jobs/bulk", json=body).status_code == 403
    assert server[Role.ADMIN].post("/api/v1/jobs/bulk", json=body).json()["done"] == 0


@pytest.mark.parametrize(
    "body",
    [
        {"action": "cancel"},
        {"action": "cancel", "filter": {}},
        {"action": "cancel", "ids": []},
        {"action": "cancel", "ids": ["x"]},
        {"action": "explode", "ids": [str(uuid.uuid4())]},
        {"action": "cancel", "ids": [str(uuid.uuid4())], "filter": {"queue": "q"}},
        {"action": "cancel", "filter": {"queue": "q"}, "limit": 1001},
        {"action": "cancel", "ids": [str(uuid.uuid4())] * 1001},
    ],
)
def test_a_bulk_change_says_what_it_means(server: Serving, body: dict[str, Any]) -> None:
    assert server.admin.post("/api/v1/jobs/bulk", json=body).status_code == 400


def test_queues_are_paused_and_limited(server: Serving) -> None:
    enqueue(server, task="add", arguments={"a": 1}, queue="slow", delay=3600)
    server.admin.post("/api/v1/queues/slow/pause")
    body = {"concurrency": 2, "rate": 5, "per": 60}
    assert server.admin.put("/api/v1/limits/queue/slow", json=body).status_code == 200
    found = {each["name"]: each for each in server.admin.get("/api/v1/queues").json()["queues"]}["slow"]
    assert found["paused"]
    assert found["paused_since"] is not None
    assert found["counts"]["scheduled"] == 1
    assert (found["limit"]["concurrency"], found["limit"]["rate"], found["limit"]["per"]) == (2, 5, 60)
    assert server.admin.put("/api/v1/limits/queue/slow", json={}).status_code == 400
    assert server.admin.put("/api/v1/limits/world/slow", json=body).status_code == 404
    assert server.admin.delete("/api/v1/limits/queue/slow").status_code == 204
    server.admin.post("/api/v1/queues/slow/resume")
    found = {each["name"]: each for each in server.admin.get("/api/v1/queues").json()["queues"]}["slow"]
    assert (found["paused"], found["limit"]) == (False, None)


def test_schedules_are_put_run_paused_and_removed(server: Serving) -> None:
    body = {
        "recurrence": {"kind": "cron", "expression": "0 3 * * *", "tz": "Europe/Berlin"},
        "call": {"task": "add", "arguments": {"a": 1}},
        "version": 0,
    }
    made = server.admin.put("/api/v1/schedules/nightly", json=body).json()
    assert made["schedule"]["recurrence"] == body["recurrence"]
    assert len(made["next"]) == 10
    again = server.admin.put("/api/v1/schedules/nightly", json=body)
    assert (again.status_code, again.json()["error"]["code"]) == (409, "version_conflict")
    fired = server.admin.post("/api/v1/schedules/nightly/run").json()["id"]
    assert server.admin.get(f"/api/v1/jobs/{fired}").json()["job"]["task"] == "add"
    busy = server.admin.post("/api/v1/schedules/nightly/run")
    assert (busy.status_code, busy.json()["error"]["code"]) == (409, "state_conflict")
    assert server.admin.post("/api/v1/schedules/nightly/pause").json()["schedule"]["paused"]
    assert not server.admin.post("/api/v1/schedules/nightly/resume").json()["schedule"]["paused"]
    tick = {"recurrence": {"kind": "every", "seconds": 600}, "event": {"topic": "ticks", "type": "tick"}}
    assert server.admin.put("/api/v1/schedules/tick", json=tick).json()["schedule"]["topic"] == "ticks"
    page = server.admin.get("/api/v1/schedules", params={"limit": 1}).json()
    assert ([each["name"] for each in page["schedules"]], page["after"]) == (["nightly"], "nightly")
    page = server.admin.get("/api/v1/schedules", params={"after": "nightly"}).json()
    assert [each["name"] for each in page["schedules"]] == ["tick"]
    for name in ("nightly", "tick"):
        assert server.admin.delete(f"/api/v1/schedules/{name}").status_code == 204
        assert server.admin.delete(f"/api/v1/schedules/{name}").status_code == 404


@pytest.mark.parametrize(
    ("recurrence", "field"),
    [
        ({"kind": "cron", "expression": "61 * * * *"}, "cron"),
        ({"kind": "cron", "expression": "* * * * *", "tz": "Mars/Olympus"}, "cron.tz"),
        ({"kind": "every", "seconds": 0.1}, "recurrence"),
        ({"kind": "never"}, "recurrence"),
    ],
)
def test_a_recurrence_that_cannot_be_is_refused(
    server: Serving, recurrence: dict[str, Any], field: str
) -> None:
    body = {"recurrence": recurrence, "call": {"task": "add", "arguments": {"a": 1}}}
    answer = server.admin.put("/api/v1/schedules/wrong", json=body)
    assert answer.status_code == 400, answer.text
    assert (answer.json()["error"]["field"] or "").startswith(field)


def test_events_are_listed_without_their_secrets(server: Serving, shop: Holdfast) -> None:
    async def emit() -> None:
        for number in range(3):
            await shop.emit(Event(topic="orders", type="paid", data={"n": number, "password": "hush"}))

    server.run(emit())
    found = server.admin.get("/api/v1/events", params={"topic": "orders"}).json()
    assert [event["data"] for event in found["events"]] == [
        {"n": each, "password": "***"} for each in range(3)
    ]
    first = found["events"][0]["position"]
    rest = server.admin.get("/api/v1/events", params={"topic": "orders", "after": first}).json()
    assert [event["data"]["n"] for event in rest["events"]] == [1, 2]
    assert rest["after"] == found["after"]
    assert server.admin.get("/api/v1/events", params={"aggregate": "x"}).status_code == 400
    assert server.admin.get("/api/v1/groups").json() == {"groups": []}
    assert server.admin.post("/api/v1/groups/billing/orders/replay").status_code == 404


def test_workers_leader_and_locks_are_shown(server: Serving, shop: Holdfast) -> None:
    async def hold() -> dict[str, Any]:
        async with shop.worker(["default"]), shop.lock("invoice:42"):
            return await asyncio.to_thread(look)

    def look() -> dict[str, Any]:
        client = server.admin
        workers = client.get("/api/v1/workers").json()["workers"]
        return {
            "workers": workers,
            "worker": client.get(f"/api/v1/workers/{workers[0]['id']}").json(),
            "locks": client.get("/api/v1/locks").json()["locks"],
            "tasks": client.get("/api/v1/tasks").json()["tasks"],
            "page": client.get("/api/v1/locks", params={"limit": 1}).json(),
        }

    seen = server.run(hold())
    assert seen["workers"][0]["live"]
    assert seen["worker"]["jobs"] == []
    lock = next(each for each in seen["locks"] if each["name"] == "invoice:42")
    assert lock["token"].isdigit()
    assert lock["waiters"] == 0
    assert len(seen["page"]["locks"]) == 1
    add = next(each for each in seen["tasks"] if each["name"] == "add")
    assert add["workers"] == 1
    assert server.admin.get("/api/v1/leader").json()["partitions"] == {}


def test_a_task_tells_the_schema_of_its_arguments(server: Serving) -> None:
    tasks = {each["name"]: each for each in server.admin.get("/api/v1/tasks").json()["tasks"]}
    [schema] = tasks["add"]["schema"]["$defs"].values()
    assert schema["properties"] == {"a": {"type": "integer"}, "b": {"type": "integer"}}
    assert schema["required"] == ["a"]
    [secret] = tasks["pay"]["schema"]["$defs"].values()
    assert secret["properties"]["card"]["format"] == "password"


def test_a_batch_tells_how_far_it_is(server: Serving, shop: Holdfast) -> None:
    async def fill() -> str:
        async with shop.batch() as batch:
            await batch.add(shop.tasks["add"].call(1), shop.tasks["add"].call(2))
        return batch.id

    batch = server.run(fill())
    found = server.admin.get(f"/api/v1/batches/{batch}").json()["batch"]
    assert (found["total"], found["pending"], found["is_open"]) == (2, 2, False)
    server.drain(shop)
    assert server.admin.get(f"/api/v1/batches/{batch}").json()["batch"]["succeeded"] == 2


def test_a_batch_that_was_left_open_is_listed_closed_and_cancelled(server: Serving, shop: Holdfast) -> None:
    async def leave_open() -> str:
        batch = shop.batch()
        await batch.add(*(shop.tasks["add"].using(delay=3600).call(each) for each in range(3)))
        return batch.id

    left = [server.run(leave_open()) for _ in range(2)]
    listed = {each["id"]: each for each in server.admin.get("/api/v1/batches").json()["batches"]}
    assert all(listed[each]["is_open"] for each in left)
    assert server.admin.get(f"/api/v1/jobs/{left[0]}").json()["flow"]["is_open"]
    closed = server.admin.post(f"/api/v1/batches/{left[0]}/close").json()["batch"]
    assert (closed["is_open"], closed["pending"]) == (False, 3)
    cancelled = server.admin.post(f"/api/v1/batches/{left[1]}/cancel").json()["batch"]
    assert (cancelled["state"], cancelled["failed"]) == ("cancelled", 3)
    listed = {each["id"]: each for each in server.admin.get("/api/v1/batches").json()["batches"]}
    assert not set(left) & set(listed)
    job = enqueue(server, task="add", arguments={"a": 1}, delay=3600)["id"]
    for wrong in (job, str(uuid.uuid4()), "x"):
        for verb in ("close", "cancel"):
            assert server.admin.post(f"/api/v1/batches/{wrong}/{verb}").status_code == 404


def test_overview_and_series_tell_what_the_queues_tell(server: Serving) -> None:
    enqueue(server, task="add", arguments={"a": 1}, delay=3600)
    overview = server.admin.get("/api/v1/overview").json()
    assert overview["stats"] == server.admin.get("/api/v1/stats").json()
    assert overview["stats"]["scheduled"] >= 1
    assert {queue["name"] for queue in overview["queues"]} >= {"default"}
    assert overview["dlq"] == overview["stats"]["by_state"]["dlq"]
    series = server.admin.get("/api/v1/series").json()
    assert series["step"] == 2
    assert series["points"]
    assert server.admin.get("/api/v1/series", params={"queue": "default", "minutes": 1}).json()["points"]
    assert server.admin.get("/api/v1/series", params={"minutes": 16}).status_code == 400
    metrics = server.admin.get("/metrics")
    assert metrics.headers["Content-Type"].startswith("text/plain; version=0.0.4")
    assert "holdfast_store_up 1" in metrics.text
