"""What commands show of encrypted jobs and of secrets, with keys and without."""

import asyncio
import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from holdfast import Event, Holdfast, Secret, every
from holdfast.cli.main import cli
from holdfast.model.encryption import EncryptionKey
from tests.sealed.keys import CANARY, NEW, NEW_ID, OLD, OLD_ID


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/jobs.db"


@pytest.fixture
def job(url: str) -> str:
    """A job that ran, beside others; one by an old key."""

    async def prepare() -> str:
        for keys in (OLD, f"{NEW} {OLD}"):
            app = Holdfast(url, encryption_keys=keys, leader_candidate=False)

            @app.task
            async def charge(card: Secret[str], password: str) -> Secret[str]:
                return card

            async with app:
                job = await charge.enqueue(Secret(CANARY), CANARY)
                await app.emit(Event(topic="paid", type="Paid", data={"token": CANARY, "n": 1}))
                await app.schedules.put("nightly", every(hours=1), charge.call(Secret(CANARY), CANARY))
                await app.schedules.pause("nightly")
                await app.schedules.resume("nightly")
                await app.worker().run(until_idle=True)
        return job.id

    return asyncio.run(prepare())


def call(*arguments: str, keys: str | None = None, code: int = 0) -> str:
    answer = CliRunner().invoke(cli, arguments, env={"HOLDFAST_ENCRYPTION_KEYS": keys})
    assert answer.exit_code == code, answer.output
    assert NEW[5:] not in answer.output
    return answer.output


def test_with_keys_all_is_shown_but_secrets(url: str, job: str) -> None:
    commands = [
        ("jobs", "show", job),
        ("jobs", "show", job, "--json"),
        ("jobs", "list", "--json"),
        ("events", "list"),
        ("events", "list", "--json"),
        ("schedules", "list", "--json"),
        ("doctor",),
        ("doctor", "--json"),
        ("keys", "used"),
    ]
    for keys in (f"{NEW},{OLD}", None):
        for command in commands:
            assert CANARY not in call(*command, "--store", url, keys=keys), command
    shown = json.loads(call("jobs", "show", job, "--json", "--store", url, keys=NEW))
    assert (shown["arguments"], shown["result"]) == ({"card": "***", "password": "***"}, "***")
    assert '{"card":"***","password":"***"}' in call("jobs", "show", job, "--store", url, keys=NEW)
    told = json.loads(call("events", "list", "--json", "--store", url, keys=f"{NEW},{OLD}"))
    assert [event["data"] for event in told["events"]] == [{"token": "***", "n": 1}] * 2


def test_who_asks_for_secrets_gets_them_if_he_has_the_key(url: str, job: str) -> None:
    shown = json.loads(call("jobs", "show", job, "--reveal", "--json", "--store", url, keys=NEW))
    assert (shown["arguments"]["card"], shown["result"]) == (CANARY, CANARY)
    assert CANARY in call("events", "list", "--reveal", "--store", url, keys=NEW)
    without = call("jobs", "show", job, "--reveal", "--store", url)
    assert f"encrypted with key {NEW_ID}" in without
    assert f"encrypted with key {OLD_ID}" in call("events", "list", "--store", url)


def test_keys_are_counted(url: str, job: str) -> None:
    found = json.loads(call("keys", "used", "--json", "--store", url, keys=f"{NEW},{OLD}"))
    counts = {entry.pop("key"): entry for entry in found["keys"]}
    assert counts == {
        NEW_ID: {"jobs": 1, "results": 1, "events": 1, "schedules": 1},
        OLD_ID: {"jobs": 1, "results": 1, "events": 1, "schedules": 0},
        "plain": {"jobs": 0, "results": 0, "events": 0, "schedules": 0},
    }
    assert found["all"] is True
    assert found["encryption"] == f"by key {NEW_ID}; also read: {OLD_ID}"
    assert "see --limit" in call("keys", "used", "--limit", "1", "--store", url)


def test_a_new_key_is_a_key() -> None:
    one, other = call("keys", "new").strip(), json.loads(call("keys", "new", "--json"))
    assert EncryptionKey.from_text(one).id != other["id"] == EncryptionKey.from_text(other["key"]).id


def test_the_doctor_tells_of_keys_by_their_ids(url: str, tmp_path: Path, job: str) -> None:
    assert "encryption" in call("doctor", "--store", url)
    told = json.loads(call("doctor", "--json", "--store", url, keys=f"{NEW},plain"))
    assert told["store"]["encryption"] == f"by key {NEW_ID}; also read: plain"
    assert told["settings"]["encryption_keys"]["value"] == "***"
    assert any("take plain out" in warning for warning in told["warnings"])
    file = tmp_path / "keys"
    file.write_text(NEW)
    file.chmod(0o644)
    answer = CliRunner().invoke(
        cli, ["doctor", "--json", "--store", url], env={"HOLDFAST_ENCRYPTION_KEYS_FILE": str(file)}
    )
    assert any("chmod 600" in warning for warning in json.loads(answer.output)["warnings"])


def test_a_bad_key_is_told_by_its_place_and_not_shown() -> None:
    told = call("doctor", keys=NEW + "," + NEW[:20], code=2)
    assert "HOLDFAST_ENCRYPTION_KEYS: key 2 is" in told
    assert NEW[:20] not in told
