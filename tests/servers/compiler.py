"""A C compiler: this machine's, or Debian's small one unpacked into a folder."""

import shutil
from pathlib import Path

from tests.servers.cache import cached
from tests.servers.debian import unpack, unpack_whole


def find_compiler() -> list[str]:
    """The command that compiles, with what it needs to find its headers."""
    for name in ("cc", "gcc", "clang"):
        if found := shutil.which(name):
            return [found]
    return _small(cached("tcc", _fetch))


def _fetch(folder: Path) -> None:
    unpack("tcc", folder)
    unpack_whole("libc6-dev", folder)


def _small(folder: Path) -> list[str]:
    usr = folder / "usr"
    [own] = usr.glob("lib/*/tcc")
    headers = [usr / "include", *usr.glob("include/*-linux-gnu*")]
    return [str(usr / "bin" / "tcc"), f"-B{own}", *(f"-I{header}" for header in headers)]
