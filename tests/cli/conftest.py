import logging
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

APPLICATION = """
import asyncio
from holdfast import Context, Holdfast, Never

app = Holdfast()
other = 5

@app.task
async def pause(ctx: Context, seconds: float) -> None:
    ctx.log.info("pause begins")
    await asyncio.sleep(seconds)

@app.task
def add(a: int, b: int = 2) -> int:
    return a + b

@app.task(retry=Never())
def explode(message: str) -> None:
    raise ValueError(message)
"""

Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory with a module `shop`, and none of the developer's own settings."""
    own = logging.getLogger("holdfast")
    monkeypatch.setattr(own, "level", own.level)
    for name in list(os.environ):
        if name.startswith("HOLDFAST_"):
            monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", sys.path[:])
    monkeypatch.delitem(sys.modules, "shop", raising=False)
    (tmp_path / "shop.py").write_text(APPLICATION)
    return tmp_path


@pytest.fixture
def holdfast(folder: Path) -> Run:
    """Runs the command to its end, as a process of its own with its output piped."""

    def run(*arguments: str, **environ: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "holdfast", *arguments],
            cwd=folder,
            env={**os.environ, **environ},
            capture_output=True,
            text=True,
            timeout=50,
            check=False,
        )

    return run


Start = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def start(folder: Path) -> Iterator[Start]:
    """Starts the command; what still runs after the test is killed."""
    started: list[subprocess.Popen[str]] = []

    def begin(*arguments: str) -> "subprocess.Popen[str]":
        process = subprocess.Popen(
            [sys.executable, "-m", "holdfast", *arguments],
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        started.append(process)
        return process

    yield begin
    for process in started:
        if process.poll() is None:
            process.kill()
        process.communicate()


def read_until(process: "subprocess.Popen[str]", text: str, times: int = 1) -> str:
    """Reads standard error until the text was seen that often; the line that had it last."""
    assert process.stderr is not None
    seen: list[str] = []
    for line in process.stderr:
        seen.append(line)
        times -= text in line
        if times == 0:
            return line
    raise AssertionError(f"{text!r} was not logged, but this was: {''.join(seen)}")
