"""The library that mssql-python needs of the system, on machines that lack it."""

import ctypes
import os
from functools import cache
from pathlib import Path

from tests.servers.cache import Missing, cached
from tests.servers.debian import libraries, unpack

_NAME = "libltdl.so.7"


@cache
def provide_ltdl() -> None:
    """Makes it loadable in this process and those that it starts.

    A library that is loaded already is not searched for: the driver takes the one of that name.
    """
    try:
        ctypes.CDLL(_NAME, mode=ctypes.RTLD_GLOBAL)
    except OSError:
        folder = cached("ltdl", _fetch)
        ctypes.CDLL(str(next(folder.glob(f"**/{_NAME}"))), mode=ctypes.RTLD_GLOBAL)
        known = os.environ.get("LD_LIBRARY_PATH")
        os.environ["LD_LIBRARY_PATH"] = ":".join(filter(None, (libraries(folder), known)))


def _fetch(folder: Path) -> None:
    try:
        unpack("libltdl7", folder)
    except Missing as error:
        raise Missing(
            f"mssql-python needs the library {_NAME}; install it (on Debian: apt-get install libltdl7)\n\n"
            f"{error}"
        ) from None
