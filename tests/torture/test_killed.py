"""A campaign that is killed: what it had started ends with it, and what it had mounted goes next time."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from holdfast.torture.disk import Disk
from tests.servers.waiting import wait_until

pytestmark = pytest.mark.process

CREW = """
import os, signal, sys, time
from pathlib import Path
from holdfast.torture.crew import Crew, Part, Role
from holdfast.torture.history import Recorder

out = Path(sys.argv[1])
part = Part(Role.WORKER, 0, ["-c", "import time; print('here', flush=True); time.sleep(600)"])
with Crew(out, [part], {}, lambda name: {}, Recorder(out, "nemesis")) as crew:
    while not crew.is_at_work(crew.members[0]):
        time.sleep(0.02)
    crew.members[0].send(signal.SIGSTOP)
    print(crew.members[0].pid, flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
"""
MOUNTED = """
import os, signal, sys
from pathlib import Path
from holdfast.torture.disk import Disk

disk = Disk(Path(sys.argv[1]))
print(disk.mount() or "mounted", flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


def killed(program: str, folder: Path) -> str:
    """What it printed before it killed itself."""
    ended = subprocess.run(
        [sys.executable, "-c", program, str(folder)], stdout=subprocess.PIPE, text=True, check=False
    )
    assert ended.returncode == -signal.SIGKILL
    return ended.stdout.strip()


def is_there(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_a_member_that_is_frozen_ends_with_the_campaign(tmp_path: Path) -> None:
    pid = int(killed(CREW, tmp_path))
    wait_until(lambda: not is_there(pid), "the member has ended")


def test_the_file_system_of_a_killed_campaign_is_removed_by_the_next(tmp_path: Path) -> None:
    left, mine = tmp_path / "left by one", tmp_path / "mine"
    told = killed(MOUNTED, left)
    assert os.path.ismount(left) == (told == "mounted"), told
    disk = Disk(mine)
    why_not = disk.mount()
    try:
        assert not os.path.ismount(left)
        assert os.path.ismount(mine) == (why_not is None)
        assert left.exists() == (told != "mounted")
    finally:
        disk.unmount()
