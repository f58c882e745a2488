"""A program that keeps one server: `keeper.py FOLDER ACCOUNT SIGNAL COMMAND...`.

It starts the command, and ends when that and all that it has left behind have ended. When the test run ends,
in whatever way, it ends the command by that signal and removes the run's folder. When it is killed itself,
the kernel ends the command.
"""

import contextlib
import ctypes
import fcntl
import os
import pwd
import shutil
import signal
import subprocess
import sys
import threading
from functools import partial
from pathlib import Path
from typing import TypedDict

# Bytes of the lifeline that are locked: by the run while it lives, by each keeper while it does. Record locks
# belong to one process: a forked child does not keep them, and the kernel drops them with it.
RUN, KEEPERS = 0, 1
PATIENCE = 10
PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36


class Identity(TypedDict, total=False):
    """How `subprocess` calls what an account may."""

    user: str
    group: int
    extra_groups: list[int]


def main(folder: Path, account: str, ending: int, command: list[str]) -> int:
    with (folder / "lifeline").open("r+b") as lifeline:
        fcntl.lockf(lifeline, fcntl.LOCK_SH, 1, KEEPERS)
        if not is_running(lifeline.fileno()):
            return 1
        control_process(PR_SET_CHILD_SUBREAPER, 1)
        server = subprocess.Popen(
            command,
            cwd=folder,
            **identity(account),
            preexec_fn=partial(die_with_parent, ending),  # noqa: PLW1509 - no thread runs yet
        )
        watch = threading.Thread(target=end_with_run, args=(lifeline.fileno(), server, ending), daemon=True)
        watch.start()
        code = server.wait()
        with contextlib.suppress(ChildProcessError):
            while True:
                os.wait()
        if not is_running(lifeline.fileno()):
            shutil.rmtree(folder, ignore_errors=True)
        return code


def identity(account: str) -> Identity:
    """What makes a new process run under the account; empty for our own."""
    if not account:
        return {}
    return {"user": account, "group": pwd.getpwnam(account).pw_gid, "extra_groups": []}


def is_running(lifeline: int) -> bool:
    try:
        fcntl.lockf(lifeline, fcntl.LOCK_SH | fcntl.LOCK_NB, 1, RUN)
    except OSError:
        return True
    return False


def end_with_run(lifeline: int, server: "subprocess.Popen[bytes]", ending: int) -> None:
    fcntl.lockf(lifeline, fcntl.LOCK_SH, 1, RUN)
    with contextlib.suppress(ProcessLookupError):
        server.send_signal(ending)
    try:
        server.wait(PATIENCE)
    except subprocess.TimeoutExpired:
        server.kill()
        server.wait()
    for orphan in adopted():
        with contextlib.suppress(ProcessLookupError):
            os.kill(orphan, signal.SIGKILL)


def adopted() -> list[int]:
    """Processes that the server has left behind; the kernel has made them ours."""
    try:
        listed = Path(f"/proc/self/task/{os.getpid()}/children").read_text(encoding="ascii")
    except FileNotFoundError:
        return []
    return [int(pid) for pid in listed.split()]


def die_with_parent(ending: int) -> None:
    parent = os.getppid()
    control_process(PR_SET_PDEATHSIG, ending)
    if os.getppid() != parent:
        os._exit(1)


def control_process(option: int, value: int) -> None:
    """Asks the kernel, if it is one that knows how."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), sys.argv[4:]))
