"""What was encrypted comes back just so, or not at all."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.model.encryption import parse_keys
from holdfast.model.errors import Undecodable
from holdfast.model.payload import decode, decoder
from holdfast.model.sealed import HEADER_BYTES, Kind, as_stored, sealed_with, why_unread
from holdfast.stores.sealed.keyring import Keyring
from tests.sealed.keys import NEW, NEW_ID, OLD, OLD_ID

RING = Keyring(parse_keys(NEW))
names = st.text(st.characters(codec="utf-8"), max_size=20)


def open_at(ring: Keyring, stored: bytes, kind: Kind, namespace: str, *place: str) -> bytes:
    def where(asked: int) -> Sequence[str] | None:
        return place if asked == kind else None

    return ring.open(stored, namespace, where)


@given(st.binary(min_size=1).filter(lambda data: data[:1] != b"\0"), st.sampled_from(Kind), names, names)
def test_what_was_encrypted_comes_back(data: bytes, kind: Kind, namespace: str, place: str) -> None:
    sealed = RING.seal(data, kind, namespace, place)
    assert sealed_with(sealed) == NEW_ID
    assert len(sealed) == len(data) + HEADER_BYTES + 16
    assert open_at(RING, sealed, kind, namespace, place) == data


@given(st.binary(min_size=8, max_size=60).filter(lambda data: data[:1] != b"\0"), st.data())
def test_every_changed_cut_or_added_byte_is_noticed(data: bytes, drawn: st.DataObject) -> None:
    sealed = RING.seal(data, Kind.ARGUMENTS, "space", "task", "id")
    at = drawn.draw(st.integers(4, len(sealed) - 1))
    flipped = sealed[:at] + bytes([sealed[at] ^ drawn.draw(st.integers(1, 255))]) + sealed[at + 1 :]
    for damaged in (flipped, sealed[:at], sealed + b"x", sealed[:at] + sealed[at + 1 :]):
        answer = open_at(RING, damaged, Kind.ARGUMENTS, "space", "task", "id")
        with pytest.raises(Undecodable):
            decode(decoder(object), answer, "arguments")
        assert as_stored(answer) == damaged


PLACES = [
    (Kind.ARGUMENTS, "space", "task", "id"),
    (Kind.ARGUMENTS, "other", "task", "id"),
    (Kind.ARGUMENTS, "space", "other", "id"),
    (Kind.ARGUMENTS, "space", "task", "other"),
    (Kind.ARGUMENTS, "space", "taski", "d"),
    (Kind.RESULT, "space", "task", "id"),
    (Kind.EVENT, "space", "task", "id"),
    (Kind.TEMPLATE, "space", "task", "id"),
]


@pytest.mark.parametrize("place", PLACES[1:])
def test_what_belongs_to_one_place_is_not_read_at_another(place: tuple[Kind, str, str, str]) -> None:
    sealed = RING.seal(b"{}", *PLACES[0])
    why = why_unread(open_at(RING, sealed, *place))
    assert why == f"what was encrypted with key {NEW_ID} is damaged, or was written for something else"
    # Nor if the kind that it says it is was changed with it.
    forged = sealed[:4] + bytes([place[0]]) + sealed[5:]
    assert why_unread(open_at(RING, forged, *place)) == why


def test_equal_contents_of_two_places_look_different_and_a_repeat_looks_the_same() -> None:
    sealed = [RING.seal(b'{"a":1}', *place)[HEADER_BYTES:] for place in PLACES]
    assert len(set(sealed)) == len(PLACES)
    assert RING.seal(b'{"a":1}', *PLACES[0])[HEADER_BYTES:] == sealed[0]


def test_keys_take_turns() -> None:
    old, both = Keyring(parse_keys(OLD)), Keyring(parse_keys(f"{NEW} {OLD}"))
    of_old, of_both = (ring.seal(b"{}", *PLACES[0]) for ring in (old, both))
    assert (sealed_with(of_old), sealed_with(of_both)) == (OLD_ID, NEW_ID)
    assert open_at(both, of_old, *PLACES[0]) == open_at(both, of_both, *PLACES[0]) == b"{}"
    assert open_at(old, of_both, *PLACES[0]) == of_both
    with pytest.raises(Undecodable, match=f"encrypted with key {NEW_ID}, which this process does not have"):
        decode(decoder(object), of_both, "arguments")


def test_what_is_not_encrypted_is_read_only_if_the_keys_say_so() -> None:
    assert why_unread(open_at(RING, b"{}", *PLACES[0])) == (
        "not encrypted; add plain to encryption_keys to accept what is not"
    )
    assert open_at(Keyring(parse_keys(f"{NEW} plain")), b"{}", *PLACES[0]) == b"{}"
    off = Keyring(parse_keys(f"plain {NEW}"))
    assert off.seal(b"{}", *PLACES[0]) == b"{}"
    assert open_at(off, RING.seal(b"{}", *PLACES[0]), *PLACES[0]) == b"{}"


def test_what_could_not_be_read_is_written_back_as_it_was() -> None:
    for stored in (RING.seal(b"{}", *PLACES[1]), b"{}"):
        assert RING.seal(open_at(RING, stored, *PLACES[0]), *PLACES[0]) == stored
    foreign = Keyring(parse_keys(OLD)).seal(b"{}", *PLACES[0])
    assert RING.seal(open_at(RING, foreign, *PLACES[0]), *PLACES[0]) == foreign


def test_a_place_that_cannot_be_told_is_no_place() -> None:
    def where(kind: int) -> Sequence[str] | None:
        raise RecursionError(kind)

    sealed = RING.seal(b"x", Kind.EVENT, "space", "id")
    assert "is damaged, or was written for something else" in (
        why_unread(RING.open(sealed, "space", where)) or ""
    )
