from pathlib import Path

import pytest
from click.testing import CliRunner

from holdfast.cli.main import cli
from tests.cli.conftest import Run

CANARY = "c4n4ry-p4ssw0rd"
URL = f"unheard://me:{CANARY}@db.example:5432/shop?sslpassword={CANARY}"
AWAY = f"postgresql://me:{CANARY}@127.0.0.1:1/shop?sslpassword={CANARY}"
COMMANDS = [
    ["worker", "shop:app"],
    ["enqueue", "shop:app", "add", "[1]"],
    ["jobs", "list"],
    ["jobs", "show", "abcd"],
    ["jobs", "cancel", "abcd"],
    ["jobs", "replay", "abcd"],
    ["why", "abcd"],
    ["dlq", "list"],
    ["dlq", "replay", "--all"],
    ["dlq", "discard", "--all", "--yes"],
    ["queues", "list"],
    ["queues", "pause", "x"],
    ["queues", "resume", "x"],
    ["limits", "list"],
    ["limits", "set", "--key", "x", "--rate", "1"],
    ["limits", "remove", "--key", "x"],
    ["limits", "pause", "--key", "x"],
    ["limits", "resume", "--key", "x"],
    ["sequences", "list"],
    ["sequences", "proceed", "x"],
    ["batches", "show", "abcd"],
    ["batches", "cancel", "abcd"],
    ["batches", "close", "abcd"],
    ["workers"],
    ["stats"],
    ["migrate"],
    ["migrate", "--print-sql"],
    ["doctor"],
    ["doctor", "--json"],
    ["bench"],
]


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
@pytest.mark.parametrize("place", ["option", "environment", "file"])
def test_a_password_is_never_shown(
    command: list[str], place: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    arguments = [*command]
    match place:
        case "option":
            arguments += ["--store", URL]
        case "environment":
            monkeypatch.setenv("HOLDFAST_STORE", URL)
        case _:
            (folder / "holdfast.toml").write_text(f'store = "{URL}"\n')
    result = CliRunner().invoke(cli, arguments)
    assert result.exit_code in {1, 2}
    assert CANARY not in result.output
    assert "Traceback" not in result.output


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("command", [["stats"], ["migrate"], ["doctor"], ["jobs", "list"]], ids=" ".join)
def test_a_password_of_a_server_that_is_away_is_never_shown(command: list[str]) -> None:
    result = CliRunner().invoke(cli, [*command, "--store", AWAY])
    assert result.exit_code in {1, 2}
    assert CANARY not in result.output
    assert "Traceback" not in result.output


def test_a_password_in_somebodys_exception_is_not_shown(holdfast: Run, folder: Path) -> None:
    (folder / "leaky.py").write_text(f"raise RuntimeError('cannot reach {URL}')\n")
    ended = holdfast("worker", "leaky:app")
    assert ended.returncode == 2
    assert "cannot reach unheard://me:***@db.example:5432/shop?sslpassword=***" in ended.stderr
    assert CANARY not in ended.stderr


def test_a_defect_is_shown_whole_but_without_the_password(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def burst(*unused: object, **also: object) -> None:
        raise RuntimeError(f"broken near {URL}")

    monkeypatch.setattr("holdfast.cli.migrate.open_store", burst)
    result = CliRunner().invoke(cli, ["migrate", "--store", "memory://"])
    assert result.exit_code == 1
    assert "Traceback" in result.stderr
    assert CANARY not in result.output
