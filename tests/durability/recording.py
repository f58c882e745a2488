"""A recording of all that processes did to the files of a folder."""

import os
import struct
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from tests.servers.compiler import find_compiler

SOURCE = Path(__file__).with_name("recorder.c")
_HEADER = struct.Struct("=IIqQ")


class Record(NamedTuple):
    """One deed: `kind` is that of recorder.c; `number` an offset, a size, or which sync it is."""

    kind: str
    name: str
    number: int
    data: bytes


class Recorder:
    """What to give to a process so that it is recorded. `folder` is what is watched, and must be resolved."""

    def __init__(self, place: Path, folder: Path) -> None:
        self._folder = folder
        self._log = place / "record"
        self._library = place / "recorder.so"
        options = ["-shared", "-fPIC", "-O2", "-o", str(self._library), str(SOURCE), "-ldl"]
        subprocess.run([*find_compiler(), *options], check=True)

    @property
    def environ(self) -> dict[str, str]:
        preloaded = os.environ.get("LD_PRELOAD")
        return {
            "LD_PRELOAD": f"{preloaded}:{self._library}" if preloaded else str(self._library),
            "RECORD_FOLDER": str(self._folder),
            "RECORD_LOG": str(self._log),
        }

    def records(self) -> Iterator[Record]:
        """All deeds, in order; the name of the folder itself is a dot."""
        with self._log.open("rb") as log:
            while header := log.read(_HEADER.size):
                kind, length, number, size = _HEADER.unpack(header)
                name = Path(log.read(length).decode()).relative_to(self._folder)
                yield Record(chr(kind), str(name), number, log.read(size))
