import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from holdfast import HoldfastError, StaleToken, fencing
from holdfast.fencing import Fence, check_written


def test_a_statement_that_changed_nothing_is_told_as_stale() -> None:
    check_written(1, 7)
    with pytest.raises(StaleToken, match="token 7 is too old") as raised:
        check_written(0, 7)
    assert isinstance(raised.value, HoldfastError)


@pytest.mark.parametrize("rows", ["UPDATE 0", -1, None, True])
def test_what_does_not_tell_how_many_rows_were_changed_is_no_proof(rows: object) -> None:
    with pytest.raises(TypeError, match=r"cursor\.rowcount"):
        check_written(rows, 7)  # type: ignore[arg-type]


def test_two_who_come_first_at_once_meet_at_the_same_gate(monkeypatch: pytest.MonkeyPatch) -> None:
    fence, both = Fence(), threading.Barrier(2)
    make = vars(fencing)["_Gate"]

    def make_together() -> object:
        both.wait(20)
        return make()

    monkeypatch.setattr("holdfast.fencing._Gate", make_together)
    inside = threading.Lock()

    def come(token: int) -> bool:
        try:
            with fence.admit("printer", token):
                assert inside.acquire(blocking=False), "another is there"
                inside.release()
        except StaleToken:
            return False
        return True

    with ThreadPoolExecutor(2) as threads:
        assert any(threads.map(come, (5, 8)))
    with pytest.raises(StaleToken):
        fence.admit("printer", 7).__enter__()


def test_a_fence_lets_nobody_through_who_is_older_than_one_before() -> None:
    fence = Fence()
    for token in (5, 5, 8):
        with fence.admit("printer", token):
            pass
    with pytest.raises(StaleToken, match="token 7 is too old for printer: 8 has been here"):
        fence.admit("printer", 7).__enter__()
    with fence.admit("scanner", 7):
        pass


def test_an_exception_behind_the_fence_leaves_it_usable() -> None:
    fence = Fence()
    with pytest.raises(ZeroDivisionError), fence.admit("printer", 5):
        raise ZeroDivisionError
    with pytest.raises(StaleToken):
        fence.admit("printer", 4).__enter__()
    with fence.admit("printer", 5):
        pass


def test_one_at_a_time_is_behind_the_fence_and_writes_never_go_backwards() -> None:
    fence = Fence()
    written: list[int] = []
    barrier = threading.Barrier(8)

    def write(first: int) -> int:
        barrier.wait()
        refused = 0
        for token in range(first, 4_000, 8):
            try:
                with fence.admit("cell", token):
                    written.append(token)
            except StaleToken:
                refused += 1
        return refused

    with ThreadPoolExecutor(8) as threads:
        refused = sum(threads.map(write, range(8)))
    assert written == sorted(written)
    assert len(written) + refused == 4_000
