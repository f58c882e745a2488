"""Which states may follow which, whole."""

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.model import lifecycle
from holdfast.model.errors import InvalidTransition
from holdfast.model.lifecycle import (
    EDITABLE,
    FINISHED,
    LEASED,
    PRUNABLE,
    REPLAYED,
    STARTED,
    SUCCEEDED,
    TRANSITIONS,
    WAITING,
    Path,
    State,
    check_path,
    edit_source,
    move_sources,
)

ALLOWED = {
    ("scheduled", "claimed"),
    ("scheduled", "cancelled"),
    ("claimed", "running"),
    ("claimed", "scheduled"),
    ("claimed", "failed"),
    ("claimed", "cancelled"),
    ("running", "success"),
    ("running", "failed"),
    ("running", "retry"),
    ("running", "scheduled"),
    ("running", "cancelled"),
    ("failed", "dlq"),
    ("failed", "retry"),
    ("failed", "scheduled"),
    ("retry", "scheduled"),
    ("retry", "cancelled"),
    ("dlq", "scheduled"),
}
NAMED: dict[str, Path] = {
    name: path for name, path in vars(lifecycle).items() if name.isupper() and isinstance(path, tuple)
}
paths = st.lists(st.sampled_from(State), max_size=6).map(tuple)


@pytest.mark.parametrize(("before", "after"), list(product(State, repeat=2)))
def test_the_table_allows_just_these_steps(before: State, after: State) -> None:
    if (before.value, after.value) in ALLOWED:
        check_path((before, after))
    else:
        with pytest.raises(InvalidTransition, match=f"{before} cannot become {after}"):
            check_path((before, after))


@given(paths)
def test_a_path_is_legal_if_each_of_its_steps_is(path: Path) -> None:
    steps = [(path[at].value, path[at + 1].value) for at in range(len(path) - 1)]
    if steps and set(steps) <= ALLOWED:
        check_path(path)
    else:
        with pytest.raises(InvalidTransition):
            check_path(path)


@pytest.mark.parametrize("name", NAMED)
def test_every_named_path_is_legal_and_for_one_kind_of_change(name: str) -> None:
    path = NAMED[name]
    check_path(path)
    kinds = [bool(move_sources(path, True)), bool(move_sources(path, False)), edit_source(path) is not None]
    assert kinds.count(True) == 1


def test_every_state_waits_is_leased_or_is_finished() -> None:
    groups = [WAITING, LEASED, FINISHED]
    assert frozenset().union(*groups) == frozenset(State)
    assert sum(map(len, groups)) == len(State)
    assert PRUNABLE < FINISHED
    assert PRUNABLE.isdisjoint(EDITABLE)


def test_success_and_cancelled_are_final() -> None:
    assert [state for state in State if not TRANSITIONS[state]] == [State.SUCCESS, State.CANCELLED]


@given(paths, st.booleans())
def test_a_holder_moves_from_a_leased_state_on_the_path(path: Path, ends: bool) -> None:
    sources = move_sources(path, ends)
    assert sources <= LEASED.intersection(path[:-1])
    if sources:
        check_path(path)
        assert (path[-1] in LEASED) is not ends
        assert path[0] in LEASED
        left = [state in LEASED for state in path]
        assert left == sorted(left, reverse=True)


def test_a_start_comes_from_claimed_and_an_end_from_claimed_or_running() -> None:
    assert move_sources(STARTED, False) == {State.CLAIMED}
    assert move_sources(SUCCEEDED, True) == LEASED
    assert move_sources(STARTED, True) == move_sources(SUCCEEDED, False) == frozenset()


@given(paths)
def test_an_edit_never_touches_a_leased_state(path: Path) -> None:
    source = edit_source(path)
    if source is not None:
        check_path(path)
        assert source is path[0]
        assert LEASED.isdisjoint(path)


def test_a_replay_is_an_edit_from_the_dead_letter_queue() -> None:
    assert edit_source(REPLAYED) is State.DLQ
