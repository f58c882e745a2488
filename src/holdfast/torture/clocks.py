"""Wall clocks that jump, one process at a time, by libfaketime; monotonic clocks stay true."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

_PLACES: Final = ("usr/lib/*/faketime/libfaketimeMT.so.1", "usr/lib*/faketime/libfaketimeMT.so.1")
MISSING: Final = "libfaketime is not installed (on Debian: apt-get install libfaketime)"


class Clocks:
    """A file a process, which says how wrong its clock is."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._library = next((path for place in _PLACES for path in Path("/").glob(place)), None)
        folder.mkdir(parents=True, exist_ok=True)

    @property
    def are_there(self) -> bool:
        return self._library is not None

    def environ(self, name: str) -> Mapping[str, str]:
        """What makes the process of that name believe its file."""
        if self._library is None:
            return {}
        if not self._file(name).exists():
            self.set(name, 0)
        return {
            "LD_PRELOAD": str(self._library),
            "FAKETIME_TIMESTAMP_FILE": str(self._file(name)),
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
            "FAKETIME_CACHE_DURATION": "1",
            "NO_FAKE_STAT": "1",
        }

    def set(self, name: str, seconds: float) -> None:
        """Makes the clock wrong by so much, within a second."""
        coming = self._file(name).with_suffix(".coming")
        coming.write_text(f"{seconds:+f}\n", encoding="ascii")
        coming.replace(self._file(name))

    def _file(self, name: str) -> Path:
        return self._folder / name
