from pathlib import Path

import pytest
from click.testing import CliRunner

from holdfast.cli.main import cli
from tests.cli.conftest import Run


def invoke(*arguments: str) -> tuple[int, str, str]:
    result = CliRunner().invoke(cli, arguments)
    return result.exit_code, result.stdout, result.stderr


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["bogus"], "No such command 'bogus'. Try 'cli --help'."),
        (["worker"], "Missing argument 'MODULE:APP'. Try 'cli worker --help'."),
        (["worker", "shop"], "'shop' is not of the form module:app, for instance 'myproject.jobs:app'."),
        (["worker", "shop:nothing"], "module 'shop' has no 'nothing'. Did you mean shop:app?"),
        (["worker", "shop:other"], "shop:other is a int, not a Holdfast. Did you mean shop:app?"),
        (["worker", "shop:app", "--lease", "x"], "Invalid value for '--lease': 'x' is not a valid float."),
        (["worker", "shop:app", "--lease", "0"], "lease_seconds: 0.0 is not between"),
        (["worker", "shop:app", "-c", "0"], "concurrency: 0 is not between 1 and 10000"),
        (["worker", "shop:app", "-q", "a b"], "queues: 'a b' is not a valid name"),
        (["enqueue", "shop:app", "ad"], "the application has no task 'ad'; did you mean 'add'?"),
        (["enqueue", "shop:app", "zzz"], "the application has no task 'zzz'; known are add, explode, pause"),
        (["enqueue", "shop:app", "add", "{"], "the arguments are not JSON: "),
        (["enqueue", "shop:app", "add", "5"], "the arguments must be a JSON object (by name) or an array"),
        (["enqueue", "shop:app", "add", '["x"]', "--store", "memory://"], "arguments.a: "),
        (
            ["enqueue", "shop:app", "add", "[1]", "--store", "memory://"],
            "a job in memory:// would be gone when this command ends; name another with --store.",
        ),
        (
            ["enqueue", "shop:app", "add", "[1]", "--queue", "a\nb", "--store", "memory://"],
            "queue: 'a\\nb' is",
        ),
        (
            ["jobs", "show", "xyz", "--store", "memory://"],
            "'xyz' is neither a job id nor at least four characters of the start of one.",
        ),
        (["dlq", "replay", "--store", "memory://"], "give either IDs, or --all, --queue or --task."),
        (
            ["stats", "--store", "nothing://user:secret@host/db"],
            "store: no store is known for 'nothing://***@host/db'; known are memory://, mssql://, mssql+",
        ),
        (["stats", "--store", "nonsense"], "store: 'nonsense' is not a store URL"),
        (["stats", "--namespace", "a b"], "namespace: 'a b' is not a valid name"),
    ],
)
def test_wrong_use_is_one_line_and_exit_code_2(arguments: list[str], message: str) -> None:
    code, out, err = invoke(*arguments)
    assert (code, out) == (2, "")
    assert err.startswith(f"holdfast: {message}")
    assert err.count("\n") == 1


@pytest.mark.usefixtures("folder")
def test_a_missing_module_is_told_apart_from_a_missing_dependency(folder: Path) -> None:
    (folder / "needy.py").write_text("import not_installed_anywhere\n")
    assert "there is no module 'nowhere' here; the working directory is" in invoke("worker", "nowhere:app")[2]
    message = "module 'needy' needs the module 'not_installed_anywhere', which is not installed."
    assert message in invoke("worker", "needy:app")[2]


def test_a_module_that_fails_is_named_with_the_line(folder: Path) -> None:
    (folder / "broken.py").write_text("x = 1\nx / 0\n")
    code, _, err = invoke("worker", "broken:app")
    assert code == 2
    assert "module 'broken' cannot be imported: ZeroDivisionError: division by zero (in " in err
    assert err.endswith("broken.py, line 2).\n")


@pytest.mark.parametrize("code", ["0", "7", "'not configured'"])
def test_a_module_that_ends_the_program_is_named_with_the_line(folder: Path, code: str) -> None:
    (folder / "leaves.py").write_text(f"import sys\nsys.exit({code})\n")
    for command in (["worker", "leaves:app"], ["enqueue", "leaves:app", "add"]):
        ended, _, err = invoke(*command)
        assert ended == 2
        assert f"module 'leaves' cannot be imported: SystemExit: {code.strip(chr(39))} (in " in err
        assert err.endswith("leaves.py, line 2).\n")


def test_a_signal_while_the_module_is_imported_ends_the_worker_well(holdfast: Run, folder: Path) -> None:
    (folder / "slow.py").write_text("import os, signal\nos.kill(os.getpid(), signal.SIGTERM)\n")
    ended = holdfast("worker", "slow:app")
    assert (ended.returncode, ended.stderr) == (0, "")


def test_wrong_settings_are_exit_code_2_in_a_real_process(holdfast: Run, folder: Path) -> None:
    ended = holdfast("stats", HOLDFAST_LEASE_SECONDS="abc")
    assert ended.returncode == 2
    assert ended.stderr == "holdfast: HOLDFAST_LEASE_SECONDS: expected a number, got 'abc'\n"
    (folder / "holdfast.toml").write_text("leese_seconds = 2\n")
    ended = holdfast("worker", "shop:app")
    assert ended.returncode == 2
    message = "holdfast.toml: unknown setting 'leese_seconds'; did you mean 'lease_seconds'?"
    assert ended.stderr == f"holdfast: {message}\n"


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("arguments", [[], ["--help"], ["jobs"], ["jobs", "list", "--help"]])
def test_help_is_no_error(arguments: list[str]) -> None:
    code, out, err = invoke(*arguments)
    assert (code, err) == (0, "")
    assert out.startswith("Usage: ")


@pytest.mark.usefixtures("folder")
def test_what_is_not_there_is_exit_code_1() -> None:
    assert invoke("jobs", "show", "abcd", "--store", "memory://") == (
        1,
        "",
        "holdfast: there is no job abcd\n",
    )


def test_the_module_and_the_script_are_the_same(holdfast: Run) -> None:
    ended = holdfast("--version")
    assert (ended.returncode, ended.stdout) == (0, "holdfast, version 0.1.0\n")
