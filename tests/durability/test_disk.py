"""The disk that is imagined keeps what was synced, and nothing else for sure."""

import random

from tests.durability.disk import Disk, Loss, Write
from tests.durability.recording import Record


def disk_after(*deeds: tuple[str, str, int, bytes], honest: bool = True) -> Disk:
    disk = Disk(honest=honest)
    for deed in deeds:
        disk.take(Record(*deed))
    return disk


def remains(disk: Disk, loss: Loss) -> list[dict[str, bytes]]:
    return [disk.remains(loss, random.Random(seed)) for seed in range(200)]


MADE = [("c", "a", 0, b""), ("w", "a", 0, b"old!"), ("b", "a", 1, b""), ("s", "a", 1, b"")]
NAMED = [("b", ".", 2, b""), ("s", ".", 2, b"")]


def test_a_name_lasts_only_when_its_folder_was_synced() -> None:
    assert remains(disk_after(*MADE), Loss.ALL)[0] == {}
    assert remains(disk_after(*MADE, *NAMED), Loss.ALL)[0] == {"a": b"old!"}
    gone = disk_after(*MADE, *NAMED, ("u", "a", 0, b""))
    assert {"a" in left for left in remains(gone, Loss.SOME)} == {True, False}


def test_a_write_during_a_sync_is_not_part_of_it() -> None:
    begun = [("b", "a", 3, b""), ("w", "a", 0, b"new"), ("s", "a", 3, b"")]
    assert remains(disk_after(*MADE, *NAMED, *begun), Loss.ALL)[0] == {"a": b"old!"}


def test_writes_that_were_not_synced_may_be_there_in_part_and_in_any_order() -> None:
    disk = disk_after(*MADE, *NAMED, ("w", "a", 0, b"1" * 1024), ("w", "a", 512, b"2" * 512))
    found = {(left["a"][:1], left["a"][512:513]) for left in remains(disk, Loss.MIXED)}
    assert found >= {(b"o", b""), (b"o", b"2"), (b"1", b"1"), (b"1", b"2")}
    assert disk.content("a") == b"1" * 512 + b"2" * 512
    assert remains(disk, Loss.NOTHING)[0] == {"a": disk.content("a")}


def test_a_disk_that_ignores_syncs_may_keep_nothing() -> None:
    assert remains(disk_after(*MADE, *NAMED, honest=False), Loss.ALL)[0] == {}


def test_a_write_is_torn_where_sectors_end() -> None:
    pieces = Write(500, bytes(600)).pieces(512)
    assert [(piece.at, len(piece.data or b"")) for piece in pieces] == [(500, 12), (512, 512), (1024, 76)]
