import os
import threading
import time
from uuid import RFC_4122, UUID

import pytest

from holdfast.engine import surroundings
from holdfast.engine.id_source import IdSource
from holdfast.engine.ids import new_id


def test_ids_are_canonical_uuids_of_version_7_with_the_time_in_front() -> None:
    before = time.time_ns() // 1_000_000
    text = new_id()
    after = time.time_ns() // 1_000_000
    uuid = UUID(text)
    assert str(uuid) == text
    assert (uuid.version, uuid.variant) == (7, RFC_4122)
    assert before <= uuid.int >> 80 <= after + 1


def test_ids_grow_within_the_process() -> None:
    drawn = [new_id() for _ in range(20_000)]
    assert drawn == sorted(set(drawn))


def test_ids_grow_while_the_clock_goes_backwards() -> None:
    source = IdSource(wall=iter(range(10**15, 0, -(10**9))).__next__)
    drawn = [source.draw(1)[0] for _ in range(100)]
    assert drawn == sorted(set(drawn))


def test_a_full_millisecond_goes_on_in_the_next_one() -> None:
    source = IdSource(wall=lambda: 1_000_000_000)
    first = source.draw(1)[0]
    source._tail = 2**74 - 1
    second = source.draw(1)[0]
    assert UUID(second).int >> 80 == (UUID(first).int >> 80) + 1


def test_threads_never_draw_the_same_id() -> None:
    drawn: list[list[str]] = [[] for _ in range(4)]
    threads = [
        threading.Thread(target=lambda mine=mine: mine.extend(new_id() for _ in range(2_000)))
        for mine in drawn
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({each for mine in drawn for each in mine}) == 8_000


@pytest.mark.process
def test_a_forked_child_does_not_repeat_its_parent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(surroundings._ids, "_wall", lambda: 1_000_000_000)
    new_id()
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(writer, "\n".join(new_id() for _ in range(50)).encode())
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as stream:
        theirs = stream.read().split()
    os.waitpid(child, 0)
    assert len(theirs) == 50
    assert not {*theirs} & {new_id() for _ in range(50)}
