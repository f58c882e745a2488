import subprocess
from pathlib import Path

import pytest

from tests.docs.blocks import PageError, blocks_of
from tests.docs.page import ROOT, pages, run_page

FENCE = "`" * 3


def block(language: str, text: str, note: str = "") -> str:
    return f"Some words.\n\n{note}\n{FENCE}{language}\n{text}\n{FENCE}\n\n"


class Reader:
    """Writes a page, and reads it the way the test of the documentation does."""

    def __init__(self, folder: Path) -> None:
        self.root = folder / "project"
        self.folder = folder / "reader"
        self.root.mkdir()
        self.folder.mkdir()
        for name in ("Makefile", "pyproject.toml"):
            (self.root / name).write_text((ROOT / name).read_text())

    def read(self, *blocks: str, seconds: float = 60) -> subprocess.CompletedProcess[str]:
        page = self.root / "page.md"
        page.write_text("# Title\n\n" + "".join(blocks))
        return run_page(page, self.folder, self.root, seconds)

    def passes(self, *blocks: str) -> None:
        ended = self.read(*blocks)
        assert ended.returncode == 0, ended.stderr

    def fails(self, *blocks: str, saying: str, seconds: float = 60) -> None:
        ended = self.read(*blocks, seconds=seconds)
        assert ended.returncode == 1
        assert "page.md:" in ended.stderr
        assert saying in ended.stderr


@pytest.fixture
def reader(tmp_path: Path) -> Reader:
    return Reader(tmp_path)


def test_the_repository_has_pages_to_run() -> None:
    assert ROOT / "CONTRIBUTING.md" in pages()
    assert ROOT / "docs/decisions/0001-dependencies.md" in pages()


def test_python_blocks_of_a_page_share_names_and_order(reader: Reader) -> None:
    reader.passes(block("python", "x = 1"), block("python", "x += 1"), block("python", "assert x == 2"))


def test_python_blocks_may_await_and_share_one_event_loop(reader: Reader) -> None:
    first = "import asyncio\nloop = asyncio.get_running_loop()\nasync def f(): return 7\nx = await f()"
    second = "assert x == 7\nasync with asyncio.timeout(5):\n    assert asyncio.get_running_loop() is loop"
    reader.passes(block("python", first), block("python", second))
    reader.fails(
        block("python", "async def f(): raise KeyError('inside')\nawait f()"), saying="KeyError: 'inside'"
    )


def test_a_python_block_may_start_its_own_event_loop(reader: Reader) -> None:
    reader.passes(
        block(
            "python",
            "import asyncio\nasync def main(): ...\nif __name__ == '__main__':\n    asyncio.run(main())",
        )
    )


def test_a_failure_names_the_line_of_the_page_and_shows_it(reader: Reader) -> None:
    ended = reader.read(block("python", "x = 1\nassert x == 2"))
    assert ended.returncode == 1
    assert "page.md:7 (python) failed" in ended.stderr
    assert 'File "page.md", line 8' in ended.stderr
    assert "assert x == 2" in ended.stderr


@pytest.mark.parametrize("text", ["raise SystemExit(0)", "def (:", "import tools", "import nowhere"])
def test_a_python_block_that_cannot_run_fails(reader: Reader, text: str) -> None:
    reader.fails(block("python", text), saying="page.md:7 (python) failed")


def test_annotations_and_dataclasses_of_a_page_can_be_resolved(reader: Reader) -> None:
    text = (
        "from dataclasses import dataclass\nfrom typing import get_type_hints\n"
        "@dataclass\nclass A:\n    b: 'int'\nassert get_type_hints(A) == {'b': int}"
    )
    reader.passes(block("python", text))


def test_a_named_block_becomes_a_file_that_later_blocks_use(reader: Reader) -> None:
    reader.passes(
        block("python", "print('never run')\nvalue = 3", "<!-- file: pack/app.py -->"),
        block("python", "from pack.app import value\nassert value == 3"),
        block("console", "$ grep -q 'value = 3' pack/app.py"),
        block("text", "hello", "<!-- file: note.txt -->"),
        block("bash", '$ test "$(cat note.txt)" = hello'),
    )


def test_a_named_block_is_compiled_though_not_run(reader: Reader) -> None:
    reader.fails(block("python", "def (:", "<!-- file: app.py -->"), saying="SyntaxError")
    reader.fails(block("toml", "a = ", "<!-- file: holdfast.toml -->"), saying="TOMLDecodeError")


@pytest.mark.parametrize("name", ["../app.py", "/app.py"])
def test_a_named_block_stays_in_the_folder_of_the_page(reader: Reader, name: str) -> None:
    reader.fails(block("python", "x = 1", f"<!-- file: {name} -->"), saying="outside the page's folder")


def test_console_lines_run_with_the_tools_of_this_environment(reader: Reader) -> None:
    reader.passes(
        block(
            "console",
            "$ export COLOUR=green\n$ python -c 'import holdfast' && \\\n  echo $COLOUR > out\ngreen",
        ),
        block("python", "assert open('out').read() == 'green\\n'"),
    )


def test_a_console_line_that_fails_shows_command_and_output(reader: Reader) -> None:
    reader.fails(block("console", "$ echo before; false | cat\n$ true"), saying="before")
    reader.fails(block("console", "$ true\n$ echo no > /dev/null; exit 3\n$ true"), saying="status 3")
    reader.fails(block("console", "$ no-such-program"), saying="no-such-program")


def test_a_console_block_in_which_nothing_is_typed_fails(reader: Reader) -> None:
    reader.fails(block("bash", "echo hello"), saying="no line starts with `$ `")


def test_a_command_that_goes_on_is_interrupted_once_it_has_said_its_word(reader: Reader) -> None:
    program = "import signal\nprint('ready', flush=True)\nsignal.pause()"
    note = "<!-- until: ready -->"
    reader.passes(
        block("python", program, "<!-- file: serve.py -->"), block("console", "$ python serve.py", note)
    )
    reader.fails(block("console", "$ echo other", note), saying="'ready' was never printed")


def test_a_command_that_never_ends_is_ended(reader: Reader) -> None:
    reader.fails(
        block("console", "$ echo waiting; exec tail -f /dev/null"), saying="did not end in time", seconds=1
    )


def test_make_and_pip_are_looked_up_and_not_run(reader: Reader) -> None:
    reader.passes(
        block("console", "$ make test ARGS=-x  # the suite\n$ make"),
        block("console", "$ pip install 'holdfast[pydantic,speed]'\n$ python -m pip install -U msgspec"),
        block("console", "$ pip install -e '.[dev]'"),
    )
    assert not list(reader.folder.iterdir())
    reader.fails(block("console", "$ make coffee"), saying="no target 'coffee'")
    reader.fails(block("console", "$ pip install holdfasst"), saying="'holdfasst' is neither this package")
    reader.fails(block("console", "$ pip install holdfast[coffee]"), saying="no extra 'coffee'")


def test_toml_and_json_are_parsed(reader: Reader) -> None:
    reader.passes(block("toml", "[tool.holdfast]\nstore = 'memory://'"), block("json", '{"a": 1}'))
    reader.fails(block("toml", "store = memory"), saying="TOMLDecodeError")
    reader.fails(block("json", "{a: 1}"), saying="JSONDecodeError")


def test_pictures_text_and_sql_are_not_run(reader: Reader) -> None:
    reader.passes(block("text", "("), block("mermaid", "("), block("sql", "("))


@pytest.mark.parametrize("language", ["", "ruby", "pyton"])
def test_a_language_that_is_not_known_fails(reader: Reader, language: str) -> None:
    reader.fails(block(language, "x"), saying="is not known here")


def test_blocks_are_found_in_lists_and_in_longer_fences(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    listed = f"1. do\n\n   {FENCE}python title=x\n   if 1:\n       x = 1\n   {FENCE}\n\n"
    page.write_text(f"{listed}`{FENCE}text\n{FENCE}python\n{FENCE}\n`{FENCE}\n")
    found = blocks_of(page, tmp_path)
    assert [(b.language, b.text, b.line) for b in found] == [
        ("python", "if 1:\n    x = 1\n", 4),
        ("text", f"{FENCE}python\n{FENCE}\n", 9),
    ]


def test_a_note_belongs_to_the_next_block_only(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"<!-- file: a.py -->\nwords between\n\n{FENCE}python\nx = 1\n{FENCE}\n")
    assert [b.file for b in blocks_of(page, tmp_path)] == [None]


def test_a_block_that_is_never_closed_is_an_error(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"{FENCE}python\nx = 1\n")
    with pytest.raises(PageError, match=r"page\.md:1: the code block is never closed"):
        blocks_of(page, tmp_path)
