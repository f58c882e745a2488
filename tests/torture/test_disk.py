"""The small file system of a campaign, made full while others write to it."""

import os
from pathlib import Path

import pytest

from holdfast.torture.disk import Disk

pytestmark = pytest.mark.process


def test_it_shrinks_though_somebody_writes_meanwhile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = Disk(tmp_path / "disk")
    if why_not := made.mount():
        pytest.skip(why_not)
    written = tmp_path / "disk" / "written"
    look = os.statvfs
    looks = 0

    def look_and_be_overtaken(folder: Path) -> os.statvfs_result:
        nonlocal looks
        looks += 1
        found = look(folder)
        if looks <= 3:
            written.write_bytes(bytes(looks << 20))
        return found

    try:
        monkeypatch.setattr(os, "statvfs", look_and_be_overtaken)
        made.shrink()
        monkeypatch.undo()
        assert looks == 4
        with pytest.raises(OSError, match="No space left"):
            written.with_name("more").write_bytes(bytes(1 << 20))
        made.grow()
        written.with_name("more").write_bytes(bytes(1 << 20))
    finally:
        made.unmount()
