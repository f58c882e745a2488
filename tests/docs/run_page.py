"""Runs the blocks of one page in the current folder: `python run_page.py < blocks.json`.

A process of its own, because examples start event loops, set signal handlers and define `__main__`.
"""

import ast
import asyncio
import contextlib
import inspect
import json
import linecache
import os
import selectors
import signal
import subprocess
import sys
import time
import tomllib
import traceback
from pathlib import Path
from types import FunctionType, ModuleType

from tests.docs.blocks import Block
from tests.docs.commands import script_of


class BlockFailed(Exception):
    """A block does not do what the page lets the reader expect."""


class Page:
    """The state that the blocks of one page share: names, event loop, folder."""

    def __init__(self, root: Path, seconds: float) -> None:
        self.root = root
        self.deadline = time.monotonic() + seconds
        self.module = ModuleType("__main__")
        sys.modules["__main__"] = self.module
        self.runner = asyncio.Runner()

    def run(self, block: Block) -> None:
        if block.file is not None:
            self.write(block, block.file)
            return
        match block.language:
            case "python":
                self.python(block)
            case "console" | "bash":
                self.shell(block)
            case "toml":
                tomllib.loads(block.text)
            case "json":
                json.loads(block.text)
            case "text" | "mermaid" | "sql":
                pass
            case other:
                named = f"the language {other!r}" if other else "a block without a language"
                raise BlockFailed(f"{named} is not known here; `text` is for what cannot be run")

    def write(self, block: Block, name: str) -> None:
        target = Path(name)
        if target.is_absolute() or ".." in target.parts:
            raise BlockFailed(f"{name} lies outside the page's folder")
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(block.text, encoding="utf-8")
        match block.language:
            case "python":
                compile(block.text, name, "exec", dont_inherit=True)
            case "toml":
                tomllib.loads(block.text)
            case "json":
                json.loads(block.text)
            case _:
                pass

    def python(self, block: Block) -> None:
        # Empty lines in front make every line number that of the page.
        source = "\n" * (block.line - 1) + block.text
        linecache.cache[block.page] = (len(source), None, source.splitlines(keepends=True), block.page)
        code = compile(source, block.page, "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)
        result = FunctionType(code, vars(self.module))()
        if inspect.iscoroutine(result):
            self.runner.run(result)

    def shell(self, block: Block) -> None:
        script = script_of(block, self.root)
        if not script:
            return
        process = subprocess.Popen(
            ["bash", "-eo", "pipefail", "-c", script],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            process_group=0,
        )
        try:
            output = _watch(process, block.until, self.deadline)
        finally:
            _end_group(process)
        if process.returncode not in ((0, 130, -signal.SIGINT) if block.until else (0,)):
            raise BlockFailed(f"status {process.returncode} from\n{script}\nwhich printed\n{output}")
        if block.until and block.until not in output:
            raise BlockFailed(f"{block.until!r} was never printed by\n{script}\nbut this was\n{output}")


def _watch(process: "subprocess.Popen[bytes]", until: str | None, deadline: float) -> str:
    """Read to the end; once the awaited text is there, press Ctrl-C as the reader would."""
    assert process.stdout is not None
    seen = b""
    is_interrupted = False
    with process.stdout as stream, selectors.DefaultSelector() as selector:
        selector.register(stream, selectors.EVENT_READ)
        while selector.select(max(0.0, deadline - time.monotonic())):
            part = os.read(stream.fileno(), 65536)
            if not part:
                process.wait(max(0.0, deadline - time.monotonic()))
                return seen.decode(errors="replace")
            seen += part
            if until and not is_interrupted and until.encode() in seen:
                os.killpg(process.pid, signal.SIGINT)
                is_interrupted = True
    raise BlockFailed(f"did not end in time, after printing\n{seen.decode(errors='replace')}")


def _end_group(process: "subprocess.Popen[bytes]") -> None:
    """Leave nothing running, whatever the command left behind."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def main() -> int:
    plan = json.load(sys.stdin)
    # Examples see their own folder and what is installed, not this repository's tests.
    sys.path.remove(os.environ.pop("PYTHONPATH"))
    sys.path.insert(0, str(Path.cwd()))
    page = Page(Path(plan["root"]), plan["seconds"])
    for block in [Block(**fields) for fields in plan["blocks"]]:
        try:
            page.run(block)
        except BaseException:  # noqa: BLE001 - SystemExit in an example is a failure of the page too
            sys.stderr.write(f"{block.place} ({block.language}) failed\n")
            traceback.print_exc()
            return 1
    page.runner.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
