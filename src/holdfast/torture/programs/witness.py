"""Who this process is in the campaign, and its recorder: all that a program is told, by its environment."""

from __future__ import annotations

import os
import signal
import threading
import time
from functools import cache
from pathlib import Path

from holdfast.torture.history import Recorder

OUT, WHO, PARENT, SEED, JOBS, RESOURCE, LOSS = (
    "TORTURE_OUT",
    "TORTURE_WHO",
    "TORTURE_PARENT",
    "TORTURE_SEED",
    "TORTURE_JOBS",
    "TORTURE_RESOURCE",
    "TORTURE_LOSS",
)
"""The variables: the folder of the campaign, the name of the process in it, the process that runs it, the
seed, how many jobs are wanted in all, the port of the resource that knows tokens, and the share of answers
that the process itself has to lose."""

CALM = "calm"
"""The file in the campaign's folder that says that the faults are over."""

CANARY = "canary-7d1f0c52e9"
"""A secret that is in payloads and, where a server can have one, in its password. No log may show it."""


@cache
def out() -> Path:
    return Path(os.environ[OUT])


def who() -> str:
    return os.environ[WHO]


@cache
def recorder() -> Recorder:
    return Recorder(out(), who())


def seed() -> str:
    return os.environ[SEED]


def jobs() -> int:
    return int(os.environ[JOBS])


def end_with_campaign() -> None:
    """Ends this process when the campaign's is gone, however that ended. Children of workers are theirs."""
    campaign = int(os.environ[PARENT])
    if os.getppid() != campaign:
        return

    def watch() -> None:
        while os.getppid() == campaign:
            time.sleep(1)
        os.kill(os.getpid(), signal.SIGKILL)

    threading.Thread(target=watch, name="torture-lifeline", daemon=True).start()
