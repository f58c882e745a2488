"""The program of a browser: the one of this machine, else Debian's Chromium."""

import os
import shutil
from pathlib import Path

from tests.servers.cache import Missing, cached
from tests.servers.debian import call, libraries, unpack_whole
from tests.servers.run import Run

SETTING = "HOLDFAST_TEST_BROWSER"
_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "microsoft-edge")
_PACKAGE = "chromium"
_UNPACKED = Path("usr/lib/chromium/chromium")


def find_browser(run: Run) -> tuple[Path, dict[str, str]]:
    """The program, and what its environment needs beside ours. Missing says what to do."""
    if named := os.environ.get(SETTING):
        found = shutil.which(named)
        if found is None:
            raise Missing(f"{SETTING} names {named!r}, which is no program that can be run")
        return Path(found), {}
    if local := _local():
        return local, {}
    try:
        with run.locked("browser"):
            if os.geteuid() == 0 and shutil.which("apt-get") and _local() is None:
                _install()
        if local := _local():
            return local, {}
        folder = cached("chromium", _fetch)
    except Missing as error:
        raise Missing(
            f"these tests need a browser, and none of {', '.join(_NAMES)} is on PATH. Install one (on "
            f"Debian: apt-get install {_PACKAGE}), or name one: {SETTING}=/path/to/chromium\n\n{error}"
        ) from None
    return folder / _UNPACKED, {"LD_LIBRARY_PATH": libraries(folder)}


def _local() -> Path | None:
    return next((Path(found) for name in _NAMES if (found := shutil.which(name))), None)


def _install() -> None:
    install = ["apt-get", "install", "-q", "-y", "--no-install-recommends", _PACKAGE]
    quiet = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    try:
        call(install, Path("/"), quiet)
    except Missing:
        # No package lists here, or old ones.
        call(["apt-get", "update", "-q"], Path("/"), quiet)
        call(install, Path("/"), quiet)


def _fetch(folder: Path) -> None:
    unpack_whole(_PACKAGE, folder)
    (folder / _UNPACKED).chmod(0o755)
