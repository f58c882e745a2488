import asyncio
import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from holdfast.cli import supervisor
from holdfast.cli.supervisor import Supervisor

pytestmark = pytest.mark.process


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervisor, "FIRST_PAUSE", 0.01)


def python(code: str, *arguments: object) -> list[str]:
    return [sys.executable, "-c", textwrap.dedent(code), *map(str, arguments)]


async def test_it_ends_when_all_processes_ended_well() -> None:
    assert await Supervisor(python("pass"), 3, until_idle=True).run() == 0


async def test_a_process_that_dies_is_started_again(tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    command = python(
        """
        import os, signal, sys
        from pathlib import Path
        runs = Path(sys.argv[1])
        with runs.open("a") as file:
            file.write("x")
        if len(runs.read_text()) < 3:
            os.kill(os.getpid(), signal.SIGKILL)
        """,
        runs,
    )
    assert await Supervisor(command, 1, until_idle=True).run() == 0
    assert runs.read_text() == "xxx"


async def test_a_process_that_ends_well_is_started_again_unless_it_drains(tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    command = python(
        """
        import sys
        from pathlib import Path
        runs = Path(sys.argv[1])
        with runs.open("a") as file:
            file.write("x")
        sys.exit(2 if len(runs.read_text()) == 3 else 0)
        """,
        runs,
    )
    assert await Supervisor(command, 1).run() == 2
    assert runs.read_text() == "xxx"


LISTENER = """
    import os, signal, sys, time
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(int(sys.argv[2])))
    fifo = os.open(sys.argv[1], os.O_WRONLY)
    os.write(fifo, b"x")
    while True:
        time.sleep(60)
"""


async def test_wrong_use_in_one_process_ends_them_all(tmp_path: Path) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    command = python(
        """
        import os, signal, sys, time
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
        try:
            os.mkdir(sys.argv[1])
        except FileExistsError:
            sys.exit(2)
        time.sleep(60)
        """,
        tmp_path / "first",
    )
    assert await Supervisor(command, 2).run() == 2


async def test_signals_are_handed_on_and_the_worst_code_is_told(tmp_path: Path) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    running = asyncio.create_task(Supervisor(python(LISTENER, fifo, 143), 2).run())
    await asyncio.to_thread(_read_bytes, fifo, 2)
    os.kill(os.getpid(), signal.SIGTERM)
    assert await running == 143


def _read_bytes(fifo: Path, count: int) -> None:
    with fifo.open("rb", buffering=0) as stream:
        while count:
            count -= len(stream.read(count) or b"")


def test_processes_end_with_their_supervisor_even_if_it_is_killed(tmp_path: Path) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    child = python(
        """
        import os, signal, sys
        from holdfast.cli.supervisor import stop_with_parent
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
        fifo = os.open(sys.argv[1], os.O_WRONLY)
        stop_with_parent()
        os.write(fifo, b"x")
        signal.sigwait([signal.SIGTERM])
        """,
        fifo,
    )
    parent = subprocess.Popen(
        python(
            """
            import asyncio, sys
            from holdfast.cli.supervisor import Supervisor
            async def main():
                await Supervisor(sys.argv[1:], 2).run()
            asyncio.run(main())
            """,
            *child,
        )
    )
    with fifo.open("rb", buffering=0) as stream:
        seen = 0
        while seen < 2:
            seen += len(stream.read(2) or b"")
        parent.kill()
        parent.wait()
        assert stream.read() == b"", "the end of the pipe is only seen when both processes are gone"
