"""Programs from Debian's packages, unpacked into a folder: nothing is installed, nothing is started."""

import re
import shutil
import subprocess
from pathlib import Path

from tests.servers.cache import Missing

# What every system has; a second copy of it would not fit the loader.
_BASE = frozenset({"libc6", "libgcc-s1"})


def unpack(package: str, folder: Path) -> None:
    """Puts the files of the package below the folder, and those of its libraries that this system lacks."""
    work = folder / "apt"
    work.mkdir()
    if not shutil.which("apt-get"):
        raise Missing("there is no apt-get")
    try:
        _download(package, work, [])
    except Missing:
        # No package lists here, or old ones: make our own, which needs no right to change the system's.
        own = ["-o", f"Dir::State::Lists={work}/lists", "-o", f"Dir::Cache={work}/cache"]
        (work / "lists" / "partial").mkdir(parents=True)
        (work / "cache" / "archives" / "partial").mkdir(parents=True)
        _call(["apt-get", "update", "-q", *own], work)
        _download(package, work, own)
    for archive in work.glob("*.deb"):
        _call(["dpkg", "-x", str(archive), str(folder)], work)
    shutil.rmtree(work)


def libraries(folder: Path) -> str:
    """Where the libraries of what was unpacked there are, as a search path for the loader."""
    return ":".join(sorted({str(library.parent) for library in folder.glob("**/lib*.so*")}))


def _download(package: str, work: Path, options: list[str]) -> None:
    shown = _call(["apt-cache", "depends", *options, package], work)
    needed = set(re.findall(r"^ *\|?(?:Pre)?Depends: (lib\S+)", shown, re.MULTILINE)) - _BASE
    missing = sorted(name for name in needed if not _is_installed(name))
    sandbox = ["-o", "APT::Sandbox::User=root"]  # the account that downloads otherwise may not write here
    _call(["apt-get", "download", "-q", *sandbox, *options, package, *missing], work)


def _is_installed(package: str) -> bool:
    query = ["dpkg-query", "--show", "--showformat=${db:Status-Status}", package]
    return subprocess.run(query, capture_output=True, text=True, check=False).stdout == "installed"


def _call(command: list[str], folder: Path) -> str:
    ended = subprocess.run(
        command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )
    if ended.returncode:
        raise Missing(f"{' '.join(command)} ended with {ended.returncode}:\n{ended.stdout}")
    return ended.stdout
