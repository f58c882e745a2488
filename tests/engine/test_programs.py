"""Whole programs: signals, exit codes, handlers of scripts, and what outlives a killed parent."""

import os
import select
import signal
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

pytestmark = pytest.mark.process


PROGRAM = """
import asyncio, os, signal, sys, threading, time
from holdfast import Holdfast, Context

app = Holdfast("memory://", grace_seconds={grace}, kill_seconds=0.2, concurrency=1)

def say(word):
    print(word, flush=True)

class Trouble(Exception): ...

{tasks}

@app.on_shutdown
async def report():
    for job in await app.find():
        say(f"{{job.task}} {{job.state}}")

async def main():
    async with app:
        await work.enqueue()
        worker = app.worker()
        code = await worker.run(until_idle={until_idle})
    say(f"code {{code}}")
    return code

if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
"""

SHORT = """
@app.task
async def work() -> None:
    say("started")
    await asyncio.to_thread(sys.stdin.readline)
"""

LONG = """
@app.task
async def work() -> None:
    say("started")
    await asyncio.get_running_loop().create_future()
"""

THREAD = """
@app.task
def work() -> None:
    say("started")
    threading.Event().wait()
"""


@contextmanager
def program(
    path: Path, tasks: str, *, grace: float = 30, until_idle: bool = False, module: str | None = None
) -> Generator["subprocess.Popen[str]"]:
    path.write_text(PROGRAM.format(tasks=tasks, grace=grace, until_idle=until_idle))
    command = [sys.executable, "-m", module] if module else [sys.executable, str(path)]
    process = subprocess.Popen(
        command,
        cwd=path.parents[1] if module else path.parent,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def line(process: "subprocess.Popen[str]") -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def rest(process: "subprocess.Popen[str]", feed: str | None = None) -> tuple[int, list[str]]:
    out, _ = process.communicate(feed, timeout=20)
    return process.returncode, out.splitlines()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_the_first_signal_lets_running_jobs_finish(tmp_path: Path, number: signal.Signals) -> None:
    with program(tmp_path / "program.py", SHORT) as process:
        assert line(process) == "started"
        process.send_signal(number)
        assert rest(process, "go on\n") == (0, ["work success", "code 0"])


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_the_second_signal_cuts_them_short(tmp_path: Path, number: signal.Signals, code: int) -> None:
    with program(tmp_path / "program.py", LONG) as process:
        assert line(process) == "started"
        process.send_signal(number)
        process.send_signal(number)
        assert process.stdout is not None
        out = process.stdout.fileno()
        while process.poll() is None and not select.select([out], [], [], 0.2)[0]:
            # Two signals of one kind that come together arrive as one.
            process.send_signal(number)
        assert rest(process) == (code, ["work scheduled", f"code {code}"])


def test_the_grace_period_cuts_them_short_as_well(tmp_path: Path) -> None:
    with program(tmp_path / "program.py", LONG, grace=0.1) as process:
        assert line(process) == "started"
        process.send_signal(signal.SIGTERM)
        assert rest(process) == (143, ["work scheduled", "code 143"])


def test_a_thread_that_does_not_end_does_not_keep_the_process(tmp_path: Path) -> None:
    with program(tmp_path / "program.py", THREAD, grace=0) as process:
        assert line(process) == "started"
        process.send_signal(signal.SIGTERM)
        code, lines = rest(process)
        assert code == 143
        assert lines[0] in {"work claimed", "work running"}, "its code still ran, so it was not released"


def test_an_idle_worker_ends_at_once(tmp_path: Path) -> None:
    tasks = '@app.task\nasync def work() -> None:\n    say("started")\n'
    with program(tmp_path / "program.py", tasks) as process:
        assert line(process) == "started"
        process.send_signal(signal.SIGTERM)
        assert rest(process) == (0, ["work success", "code 0"])


SWALLOWS = """
@app.task
async def work() -> None:
    say("started")
    while True:
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            pass
"""


def test_nor_does_a_handler_that_swallows_its_cancellation(tmp_path: Path) -> None:
    with program(tmp_path / "program.py", SWALLOWS, grace=0) as process:
        assert line(process) == "started"
        process.send_signal(signal.SIGTERM)
        assert rest(process)[0] == 143


TWO = """
@app.task
async def work() -> None:
    say("started")
    await asyncio.to_thread(sys.stdin.readline)

class Two:
    async def run(self, until_idle):
        workers = [worker() for _ in range(2)]
        return sum(await asyncio.gather(*(each.run() for each in workers)))

worker, app.worker = app.worker, Two
"""


def test_a_signal_reaches_every_worker_of_the_process(tmp_path: Path) -> None:
    with program(tmp_path / "program.py", TWO) as process:
        assert line(process) == "started"
        process.send_signal(signal.SIGTERM)
        code, lines = rest(process, "go on\n")
        assert (code, lines[-1]) == (0, "code 0")


IN_PROCESS = """
from holdfast.model.retry import ByException, Fixed, Never

@app.task(run_in="process", retry=ByException({{Trouble: Fixed(3, wait=60)}}, Never()))
def work() -> None:
    say(f"started in {{__name__}}")
    raise Trouble("of the script's own type")
"""


def test_a_handler_of_a_script_runs_in_a_process_and_its_exceptions_keep_their_type(tmp_path: Path) -> None:
    tasks = IN_PROCESS.format()
    with program(tmp_path / "program.py", tasks, until_idle=True) as process:
        assert rest(process) == (0, ["started in __holdfast_child__", "work retry", "code 0"])


def test_a_handler_of_a_module_that_runs_as_a_program_is_found_by_its_name(tmp_path: Path) -> None:
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "__init__.py").touch()
    (tmp_path / "package" / "part.py").write_text("NAME = 'part'\n")
    tasks = "from package.part import NAME\nfrom . import part\n" + IN_PROCESS.format()
    path = tmp_path / "package" / "program.py"
    with program(path, tasks, until_idle=True, module="package.program") as process:
        code, lines = rest(process)
        assert (code, lines[0]) == (0, "started in package.program")


CHILD = """
@app.task(run_in="process")
def work() -> None:
    say(os.getpid())
    threading.Event().wait()
"""


def test_a_child_ends_with_its_parent(tmp_path: Path) -> None:
    with program(tmp_path / "program.py", CHILD) as process:
        child = os.pidfd_open(int(line(process)))
        process.kill()
        assert select.select([child], [], [], 10)[0], "readable once the child has ended"
        os.close(child)


def test_ctrl_c_in_the_terminal_does_not_reach_the_children(tmp_path: Path) -> None:
    tasks = """
@app.task(run_in="process")
def work() -> None:
    say("started")
    sys.stdin = open(os.environ["FIFO"])
    sys.stdin.readline()
"""
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    os.environ["FIFO"] = str(fifo)
    try:
        with program(tmp_path / "program.py", tasks) as process:
            assert line(process) == "started"
            os.killpg(process.pid, signal.SIGINT)
            fifo.write_text("go on\n")
            assert rest(process) == (0, ["work success", "code 0"])
    finally:
        del os.environ["FIFO"]
