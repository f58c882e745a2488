import subprocess
import sys
from pathlib import Path

import pytest

from tools import check_house
from tools.check_house import HARD_LIMIT, check

SLEEP = "time.sleep"
# Split, so that this file keeps the rule that it tests.
MACHINE_PATHS = ["/wo" + "rk/main/app.py", "'/ro" + "ot'", "see /home" + "/ada/notes", "/Users" + "/ada"]
REGISTRIES = [
    "https://pypi" + ".org/simple",
    "https://files.python" + "hosted.org",
    "--extra-index" + "-url=x",
]


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    subprocess.run(["git", "init", "--quiet", str(tmp_path)], check=True)
    return tmp_path


def plant(tree: Path, name: str, text: str) -> None:
    path = tree / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def complaints(tree: Path) -> list[str]:
    return [str(violation) for violation in check(tree)]


def test_a_tidy_tree_has_no_violation(tree: Path) -> None:
    plant(tree, "src/holdfast/__init__.py", '"""Jobs."""\n\n__all__ = ["Job"]\n\nclass Job: ...\n')
    plant(tree, "src/holdfast/model/__init__.py", '"""Only words."""\n')
    plant(tree, "tests/test_job.py", "import asyncio\n\nasyncio.run(asyncio.sleep(0))\n")
    plant(
        tree,
        "docs/guide.md",
        "Read/write and queue/work are fine, so is ./work and https://example.org/root-cause.\n",
    )
    assert complaints(tree) == []


def test_a_source_file_may_have_exactly_the_limit_of_lines(tree: Path) -> None:
    plant(tree, "src/holdfast/long.py", "x = 1\n" * HARD_LIMIT)
    assert complaints(tree) == []


def test_a_source_file_over_the_limit_is_refused(tree: Path) -> None:
    plant(tree, "src/holdfast/long.py", "x = 1\n" * (HARD_LIMIT + 1))
    assert [line.partition(",")[0] for line in complaints(tree)] == ["src/holdfast/long.py:401: 401 lines"]


@pytest.mark.parametrize("text", MACHINE_PATHS)
@pytest.mark.parametrize("name", ["docs/guide.md", "src/holdfast/a.py", "Makefile"])
def test_a_path_of_one_machine_is_refused_in_any_file(tree: Path, name: str, text: str) -> None:
    plant(tree, name, f"# first line\n# {text}\n")
    assert [line.partition(": ")[0] for line in complaints(tree)] == [f"{name}:2"]


@pytest.mark.parametrize("text", REGISTRIES)
def test_a_registry_is_refused(tree: Path, text: str) -> None:
    plant(tree, "README.md", text)
    assert len(complaints(tree)) == 1


@pytest.mark.parametrize(
    "code",
    [
        "import pickle",
        "from pickle import loads",
        "import marshal as m",
        "def f() -> None:\n    import shelve",
        "import importlib\nimportlib.import_module('pickle')",
        "__import__('dill')",
        "eval('1')",
        "exec('x = 1')",
        "import builtins\nbuiltins.eval('1')",
    ],
)
def test_turning_data_into_code_is_refused_in_the_package(tree: Path, code: str) -> None:
    plant(tree, "src/holdfast/a.py", code)
    assert len(complaints(tree)) == 1


def test_a_method_or_a_word_that_looks_like_it_is_allowed(tree: Path) -> None:
    plant(tree, "src/holdfast/a.py", '"""No pickle, no eval()."""\nconnection.exec("x")\npickled = 1\n')
    assert complaints(tree) == []


@pytest.mark.parametrize(
    "code", [f"import time\n{SLEEP}(1)", "from time import sleep", f"import time\nwait = {SLEEP}"]
)
def test_a_test_that_sleeps_is_refused(tree: Path, code: str) -> None:
    plant(tree, "tests/test_a.py", code)
    assert len(complaints(tree)) == 1


def test_a_handler_that_blocks_on_purpose_says_why(tree: Path) -> None:
    plant(tree, "tests/test_a.py", f"import time\n{SLEEP}(1)  # blocks on purpose: holds the event loop\n")
    plant(tree, "tests/test_b.py", f"import time\n{SLEEP}(1)  # blocks on purpose:\n")
    assert [line.partition(":")[0] for line in complaints(tree)] == ["tests/test_b.py"]


@pytest.mark.parametrize("text", ["from os import path\n", "def f() -> None: ...\n", "x = 1\n"])
def test_a_public_package_that_gives_names_lists_them(tree: Path, text: str) -> None:
    plant(tree, "src/holdfast/testing/__init__.py", text)
    plant(tree, "src/holdfast/_inner/__init__.py", text)
    plant(tree, "src/holdfast/testing/clock.py", text)
    assert [line.partition(":")[0] for line in complaints(tree)] == ["src/holdfast/testing/__init__.py"]


def test_a_file_that_git_ignores_is_not_read(tree: Path) -> None:
    plant(tree, ".gitignore", ".venv/\n")
    plant(tree, ".venv/a.txt", MACHINE_PATHS[0])
    assert complaints(tree) == []


def test_bytes_that_are_no_text_are_passed_over(tree: Path) -> None:
    (tree / "logo.png").write_bytes(b"\x89PNG\xff\xfe")
    assert complaints(tree) == []


def test_a_file_that_does_not_parse_is_a_violation(tree: Path) -> None:
    plant(tree, "src/holdfast/a.py", "def (:\n")
    assert complaints(tree)[0].startswith("src/holdfast/a.py:1: does not parse")


@pytest.mark.parametrize(("text", "status"), [("fine\n", 0), (MACHINE_PATHS[0], 1)])
def test_the_command_prints_violations_and_its_status_tells(tree: Path, text: str, status: int) -> None:
    plant(tree, "a.txt", text)
    command = [sys.executable, check_house.__file__, str(tree)]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ended.returncode == status
    assert ("a.txt:1: machine path" in ended.stdout) == bool(status)
