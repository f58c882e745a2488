"""Programs from Debian's packages, unpacked into a folder: nothing is installed, nothing is started."""

import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

from tests.servers.cache import Missing

# What every system has; a second copy of it would not fit the loader.
_BASE = frozenset({"libc6", "libgcc-s1"})


def unpack(package: str, folder: Path) -> None:
    """Puts the files of the package below the folder, and those of its libraries that this system lacks."""
    _unpack(package, folder, _libraries_of)


def unpack_whole(package: str, folder: Path) -> None:
    """The same, with all that the package needs, and what that needs in turn."""
    _unpack(package, folder, _needs_of)


def _unpack(package: str, folder: Path, needs: Callable[[str, Path, list[str]], set[str]]) -> None:
    work = folder / "apt"
    work.mkdir()
    if not shutil.which("apt-get"):
        raise Missing("there is no apt-get")
    try:
        _download(package, work, [], needs)
    except Missing:
        # No package lists here, or old ones: make our own, which needs no right to change the system's.
        own = ["-o", f"Dir::State::Lists={work}/lists", "-o", f"Dir::Cache={work}/cache"]
        (work / "lists" / "partial").mkdir(parents=True)
        (work / "cache" / "archives" / "partial").mkdir(parents=True)
        call(["apt-get", "update", "-q", *own], work)
        _download(package, work, own, needs)
    for archive in work.glob("*.deb"):
        call(["dpkg", "-x", str(archive), str(folder)], work)
    shutil.rmtree(work)


def libraries(folder: Path) -> str:
    """Where the libraries of what was unpacked there are, as a search path for the loader."""
    return ":".join(sorted({str(library.parent) for library in folder.glob("**/lib*.so*")}))


def _download(
    package: str, work: Path, options: list[str], needs: Callable[[str, Path, list[str]], set[str]]
) -> None:
    missing = sorted(name for name in needs(package, work, options) if not _is_installed(name))
    sandbox = ["-o", "APT::Sandbox::User=root"]  # the account that downloads otherwise may not write here
    call(["apt-get", "download", "-q", *sandbox, *options, package, *missing], work)


def _libraries_of(package: str, work: Path, options: list[str]) -> set[str]:
    shown = call(["apt-cache", "depends", *options, package], work)
    return set(re.findall(r"^ *\|?(?:Pre)?Depends: (lib\S+)", shown, re.MULTILINE)) - _BASE


def _needs_of(package: str, work: Path, options: list[str]) -> set[str]:
    simulated = call(["apt-get", "install", "-q", "-s", "--no-install-recommends", *options, package], work)
    return set(re.findall(r"^Inst (\S+)", simulated, re.MULTILINE)) - _BASE - {package}


def _is_installed(package: str) -> bool:
    query = ["dpkg-query", "--show", "--showformat=${db:Status-Status}", package]
    return subprocess.run(query, capture_output=True, text=True, check=False).stdout == "installed"


def call(command: list[str], folder: Path, environ: dict[str, str] | None = None) -> str:
    """Runs a program; what it printed, or Missing with that."""
    ended = subprocess.run(
        command,
        cwd=folder,
        env=environ,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if ended.returncode:
        raise Missing(f"{' '.join(command)} ended with {ended.returncode}:\n{ended.stdout}")
    return ended.stdout
