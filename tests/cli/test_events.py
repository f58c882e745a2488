"""Commands that look at events and steer their groups, on a SQLite file that each command opens anew."""

import asyncio
import json
from datetime import datetime
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from click.testing import CliRunner, Result

from holdfast import Event, Fixed, Holdfast, Never
from holdfast.cli.main import cli
from tests.cli.conftest import Run

HOSTILE = 'first\nsecond \x1b[31mred\x1b[0m [bold]markup[/bold] \u202e "quote"'


@pytest.fixture(autouse=True)
def configured(folder: Path) -> None:
    (folder / "holdfast.toml").write_text('store = "sqlite:///jobs.db"\n')


def invoke(*arguments: str, input: str | None = None) -> Result:
    result = CliRunner().invoke(cli, arguments, input=input)
    assert "\x1b" not in result.output
    return result


def done(*arguments: str) -> str:
    result = invoke(*arguments)
    assert result.exit_code == 0, result.output
    return result.stdout


def asked(*arguments: str) -> Any:
    """The JSON document that a command prints."""
    answer = done(*arguments, "--json")
    assert answer.isascii()
    return json.loads(answer)


def emit(*events: Event[Any]) -> list[str]:
    async def work() -> list[str]:
        async with Holdfast() as app:
            return await app.emit(*events)

    return asyncio.run(work())


def order(number: int, aggregate: str | None = None, topic: str = "orders") -> Event[int]:
    return Event(topic=topic, type="placed", data=number, aggregate=aggregate)


def consume(*bad: int) -> list[int]:
    """Lets the groups `mail`, which tries once, and `stock`, which tries again after an hour, consume.

    Gives the numbers that `mail` was told and did not choke on.
    """
    told: list[int] = []
    app = Holdfast()

    @app.on("orders", group="mail", retry=Never())
    async def mail(event: Event[int]) -> None:
        if event.data in bad:
            raise ValueError(f"number {event.data}")
        told.append(event.data)

    @app.on("orders", group="stock", retry=Fixed(wait=3_600))
    async def stock(event: Event[int]) -> None:
        if event.data in bad:
            raise ValueError(f"number {event.data}")

    async def work() -> None:
        async with app:
            await app.worker().run(until_idle=True)

    asyncio.run(work())
    return told


def waiting(group: str, *options: str) -> list[Any]:
    found: list[Any] = asked("events", "waiting", group, *options)["waiting"]
    return found


def test_an_emitted_event_is_listed_whole() -> None:
    data = {"order": 7, "items": ["x" * 100]}
    arguments = ("events", "emit", "orders", "placed", json.dumps(data), "--aggregate", "order 7")
    event_id = done(*arguments).strip()
    listed = asked("events", "list")
    at = datetime.fromisoformat(listed["events"][0].pop("at"))
    assert at.utcoffset() is not None
    assert listed == {
        "events": [
            {
                "topic": "orders",
                "type": "placed",
                "data": data,
                "aggregate": "order 7",
                "id": event_id,
                "version": 1,
                "position": 1,
            }
        ],
        "after": None,
    }


def test_the_table_has_the_beginning_of_the_data() -> None:
    emit(order(1, "a"), Event(topic="notes", type="written", data="x" * 100))
    header, first, second = done("events", "list").splitlines()
    assert header.split() == ["position", "at", "topic", "type", "aggregate", "version", "id", "data"]
    assert first.split()[3:7] == ["orders", "placed", "a", "1"]
    assert first.split()[-1] == "1"
    assert second.split()[3:7] == ["notes", "written", "-", "-"]
    assert second.split()[-1] == '"' + "x" * 56 + "..."


def test_an_event_is_stored_once_however_often_its_id_is_emitted() -> None:
    event_id = str(uuid4())
    arguments = ("events", "emit", "orders", "placed", "1", "--id", event_id)
    assert asked(*arguments) == asked(*arguments) == {"event": event_id}
    assert [each["id"] for each in asked("events", "list")["events"]] == [event_id]


def test_events_are_listed_by_topic_and_by_aggregate() -> None:
    emit(order(1, "a"), order(2, "b"), order(3, "a"), order(4, "a", topic="other"), order(5))

    def listed(*options: str) -> list[int]:
        return [each["data"] for each in asked("events", "list", *options)["events"]]

    assert listed() == [1, 2, 3, 4, 5]
    assert listed("--topic", "orders") == [1, 2, 3, 5]
    assert listed("--topic", "orders", "--aggregate", "a") == [1, 3]
    assert listed("--topic", "orders", "--aggregate", "a", "--after", "1") == [3]
    assert listed("--after", str(2**63 - 1)) == []
    assert done("events", "list", "--topic", "nothing") == "No such events.\n"
    assert listed("--last", "2") == [4, 5]
    assert listed("--topic", "orders", "--aggregate", "a", "--last", "2") == [1, 3]
    assert listed("--topic", "other", "--last", "9") == [4]


def test_pages_go_on_where_the_last_one_ended() -> None:
    emit(*map(order, range(5)))
    first = asked("events", "list", "--limit", "2")
    second = asked("events", "list", "--limit", "2", "--after", str(first["after"]))
    third = asked("events", "list", "--limit", "2", "--after", str(second["after"]))
    assert [each["data"] for page in (first, second, third) for each in page["events"]] == [0, 1, 2, 3, 4]
    assert third["after"] is None
    assert done("events", "list", "--limit", "2").endswith(f"More: --after {first['after']}\n")


def test_groups_are_listed_with_how_far_they_have_come() -> None:
    emit(order(1, "a"), order(2, "b"), order(3, "c"))
    assert done("events", "groups") == "No group has consumed yet.\n"
    assert consume(2, 3) == [1]
    mail, stock = asked("events", "groups")["groups"]
    assert mail == {"group": "mail", "topic": "orders", "offset": 3, "behind": 0, "waiting": 0, "parked": 2}
    assert stock == {"group": "stock", "topic": "orders", "offset": 3, "behind": 0, "waiting": 2, "parked": 0}
    header, *rows = (line.split() for line in done("events", "groups").splitlines())
    assert header == ["group", "topic", "offset", "behind", "waiting", "parked"]
    assert rows == [["mail", "orders", "3", "0", "0", "2"], ["stock", "orders", "3", "0", "2", "0"]]


def test_a_group_is_behind_only_if_its_own_topic_went_on() -> None:
    emit(order(1))
    consume()
    emit(order(2, topic="other"), order(3, topic="other"))
    assert [each["behind"] for each in asked("events", "groups")["groups"]] == [0, 0]
    emit(order(4), order(5))
    assert [each["behind"] for each in asked("events", "groups")["groups"]] == [2, 2]


def test_what_failed_is_listed_with_the_reason() -> None:
    _, second, third = emit(order(1, "a"), order(2, "b"), order(3))
    assert consume(2, 3) == [1]
    parked, alone = waiting("mail")
    assert parked.pop("since") == waiting("mail")[0]["since"]
    assert parked == {
        "topic": "orders",
        "event": second,
        "position": 2,
        "aggregate": "b",
        "failures": 1,
        "retry_at": None,
        "reason": "ValueError: number 2",
        "skip": False,
    }
    assert (alone["event"], alone["aggregate"]) == (third, None)
    assert all(each["retry_at"] > each["since"] for each in waiting("stock", "--topic", "orders"))
    header, row, _ = done("events", "waiting", "mail").splitlines()
    assert header.split() == ["topic", "event", "aggregate", "failures", "retry", "at", "since", "reason"]
    assert row.split()[:5] == ["orders", second, "b", "1", "parked"]
    assert row.endswith("ValueError: number 2")


def test_nothing_that_waits_is_told_so() -> None:
    emit(order(1))
    consume()
    assert done("events", "waiting", "mail") == "Nothing waits in group mail.\n"
    assert done("events", "replay", "mail") == "0 events replayed.\n"
    assert done("events", "skip", "mail") == "0 events skipped.\n"


def test_replayed_events_are_tried_again_and_their_aggregates_go_on() -> None:
    emit(order(1, "a"), order(2, "b"), order(3, "a"))
    assert consume(1, 2) == []
    assert asked("events", "replay", "mail", "--aggregate", "a") == {"replayed": 1}
    assert consume() == [1, 3]
    assert [each["aggregate"] for each in waiting("mail")] == ["b"]
    assert done("events", "replay", "mail", "--topic", "orders") == "1 events replayed.\n"
    assert consume() == [2]
    assert waiting("mail") == []
    assert len(waiting("stock")) == 2


def test_one_event_is_replayed_by_its_id() -> None:
    first, _ = emit(order(1, "a"), order(2, "b"))
    consume(1, 2)
    assert asked("events", "replay", "mail", "--event", first.upper()) == {"replayed": 1}
    assert consume() == [1]


def test_skipped_events_are_left_out_and_their_aggregates_go_on() -> None:
    emit(order(1, "a"), order(2, "b"), order(3, "a"), order(4, "b"))
    consume(1, 2)
    assert asked("events", "skip", "mail", "--aggregate", "a", "--yes") == {"skipped": 1}
    assert "skipped" in done("events", "waiting", "mail")  # until its consumer has gone on
    assert consume() == [3]
    assert [each["aggregate"] for each in waiting("mail")] == ["b"]


def test_nothing_is_skipped_unless_that_is_confirmed() -> None:
    emit(order(1, "a"), order(2, "b"), order(3, "a"))
    consume(1, 2)
    refused = invoke("events", "skip", "mail", input="n\n")
    assert (refused.exit_code, refused.stdout) == (130, "")
    assert "Leave out 2 events for good?" in refused.stderr
    assert consume() == []
    assert invoke("events", "skip", "mail", input="y\n").stdout == "2 events skipped.\n"
    assert consume() == [3]
    assert waiting("mail") == []


@pytest.mark.parametrize("command", ["replay", "skip"])
def test_an_event_that_does_not_wait_is_exit_code_1(command: str) -> None:
    (event_id,) = emit(order(1))
    consume()
    result = invoke("events", command, "mail", "--event", event_id)
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr == (
        f"holdfast: event {event_id} does not wait in group mail; "
        "'holdfast events waiting mail' shows what does\n"
    )


def test_a_forgotten_group_is_gone() -> None:
    emit(order(1))
    consume()
    assert done("events", "forget", "mail", "orders") == "Group mail of topic orders is forgotten.\n"
    assert [each["group"] for each in asked("events", "groups")["groups"]] == ["stock"]
    again = invoke("events", "forget", "mail", "orders")
    assert again.exit_code == 1
    assert (
        again.stderr
        == "holdfast: there is no group mail of topic orders; 'holdfast events groups' shows all\n"
    )


@pytest.mark.parametrize("command", ["waiting", "replay", "skip"])
def test_a_group_that_is_not_there_is_exit_code_1(command: str) -> None:
    emit(order(1))
    consume()
    for options, named in (
        (["nobody"], "nobody"),
        (["mail", "--topic", "other"], "mail of topic other"),
    ):
        result = invoke("events", command, *options)
        assert (result.exit_code, result.stdout) == (1, "")
        assert result.stderr == f"holdfast: there is no group {named}; 'holdfast events groups' shows all\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("list", "--aggregate", "a"), "topic: an aggregate belongs to a topic; give that too"),
        (("list", "--topic", "a b"), "topic: 'a b' is not a valid name"),
        (("list", "--topic", "t", "--aggregate", "a\udcff"), "aggregate: 'a\\udcff' is not a text of"),
        (("list", "--limit", "1001"), "Invalid value for '--limit': 1001 is not in the range"),
        (("list", "--after", "-1"), "Invalid value for '--after': -1 is not in the range"),
        (("list", "--after", str(2**63)), "Invalid value for '--after': 9223372036854775808 is not in the"),
        (("replay", "mail", "--event", "x"), "event: 'x' is not a UUID"),
        (("skip", "mail", "--event", "x"), "event: 'x' is not a UUID"),
        (("forget", "a b", "t"), "group: 'a b' is not a valid name"),
        (("emit", "t", "y", "{"), "the data are not JSON: "),
        (("emit", "t", "y", "[" * 5_000), "the data are not JSON: "),
        (("emit", "a b", "y", "1"), "topic: 'a b' is not a valid name"),
        (("emit", "t", "y", "1", "--id", "x"), "id: 'x' is not a UUID"),
        (("emit", "t", "y", "1", "--aggregate", ""), "aggregate: '' is not a text of"),
        (("emit", "t", "y", "1", "--store", "memory://"), "an event in memory:// would be gone when this"),
    ],
)
def test_wrong_use_is_one_line_and_exit_code_2(arguments: tuple[str, ...], message: str) -> None:
    done("migrate")
    result = invoke("events", *arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith(f"holdfast: {message}")
    assert result.stderr.count("\n") == 1


def test_hostile_text_neither_steers_the_terminal_nor_breaks_a_row() -> None:
    emit(Event(topic="orders", type="placed", data=HOSTILE))
    app = Holdfast()

    @app.on("orders", group="mail", retry=Never())
    async def mail(event: Event[str]) -> None:
        raise ValueError(event.data)

    async def work() -> None:
        async with app:
            await app.worker().run(until_idle=True)

    asyncio.run(work())
    for command in (("events", "list"), ("events", "waiting", "mail")):
        shown = done(*command)
        assert "\u202e" not in shown
        assert "[bold]markup[/bold]" in shown
        assert len(shown.splitlines()) == 2
        asked(*command)


@pytest.mark.parametrize(
    "command", ["list", "groups", "waiting mail", "replay mail", "skip mail", "forget mail orders"]
)
def test_a_command_that_finds_no_file_makes_none(command: str, folder: Path) -> None:
    before = set(folder.iterdir())
    ended = invoke("events", *command.split())
    assert (ended.exit_code, ended.stdout) == (1, "")
    assert ended.stderr.startswith(f"holdfast: there is no file {folder / 'jobs.db'}; ")
    assert set(folder.iterdir()) == before


def test_namespaces_do_not_see_each_other() -> None:
    emit(order(1))
    consume()
    assert asked("events", "list", "--namespace", "other") == {"events": [], "after": None}
    assert asked("events", "groups", "--namespace", "other") == {"groups": []}
    assert invoke("events", "replay", "mail", "--namespace", "other").exit_code == 1


def test_a_real_worker_consumes_what_was_emitted_from_the_command_line(holdfast: Run, folder: Path) -> None:
    (folder / "told.py").write_text(
        "from holdfast import Event, Holdfast, Never\n"
        "app = Holdfast()\n"
        "@app.on('orders', group='mail', retry=Never())\n"
        "def mail(event: Event[int]) -> None:\n"
        "    1 / event.data\n"
    )
    event_id = holdfast("events", "emit", "orders", "placed", "0").stdout.strip()
    assert holdfast("worker", "told:app", "--drain").returncode == 0
    shown = holdfast("events", "waiting", "mail")
    assert (shown.returncode, shown.stderr) == (0, "")
    assert event_id in shown.stdout
    assert "ZeroDivisionError" in shown.stdout
    gone = holdfast("events", "replay", "nobody")
    assert (gone.returncode, gone.stdout) == (1, "")
    assert gone.stderr == "holdfast: there is no group nobody; 'holdfast events groups' shows all\n"
