"""Names and texts on their way to the server and back."""

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from holdfast.stores.mssql.texts import Texts, clean, stored, stored_or_none, told, told_or_none

ODD = st.text(alphabet=st.sampled_from(list('ab0 "\\\n\x00\x1f\x1e\u241b241b')), max_size=12)
NAMES = st.text() | ODD
TEXTS = st.lists(st.text() | ODD, max_size=6)
ENDS = "\x1e\x1d\x1c\x1f\ue000\ue001\ue002\ue003\ue004"


def opened(texts: str | None) -> list[str]:
    """What `open_texts_v1` makes of it."""
    if texts is None:
        return []
    mark, at, found = texts[0], 1, []
    while (end := texts.find(mark, at)) >= 0:
        found.append(texts[at:end])
        at = end + 1
    return found


@given(NAMES)
@example("\u241b0041")
@example("a  ")
@example("\u241b")
def test_a_name_comes_back_as_it_was(name: str) -> None:
    assert told(stored(name)) == name


@given(NAMES, NAMES)
def test_two_names_are_never_stored_alike(one: str, other: str) -> None:
    assert (stored(one) == stored(other)) == (one == other)


@given(NAMES)
def test_a_stored_name_has_nothing_that_json_escapes_and_no_space_at_its_end(name: str) -> None:
    kept = stored(name)
    assert "\\" not in msgspec.json.encode(kept).decode()
    assert '"' not in kept
    assert not kept.endswith(" ")


@given(st.from_regex(r"[A-Za-z0-9_][A-Za-z0-9_.@/+=-]{0,199}", fullmatch=True))
def test_a_name_that_users_may_choose_is_stored_as_it_is(name: str) -> None:
    assert stored(name) == name


def test_no_name_is_none() -> None:
    assert stored_or_none(None) is told_or_none(None) is None
    assert told_or_none(stored_or_none('"')) == '"'


@given(TEXTS)
def test_the_server_takes_texts_apart_as_they_were_put_together(parts: list[str]) -> None:
    texts = Texts()
    assert [texts.put(part) for part in parts] == list(range(len(parts)))
    assert opened(texts.whole()) == [clean(part) for part in parts]


@pytest.mark.parametrize("count", range(len(ENDS)))
def test_another_mark_is_found_while_there_is_one(count: int) -> None:
    texts = Texts()
    texts.put(f"a{ENDS[:count]}b")
    texts.put("c")
    assert opened(texts.whole()) == [f"a{ENDS[:count]}b", "c"]


def test_a_text_with_every_mark_loses_one_of_them_and_nothing_else() -> None:
    texts = Texts()
    texts.put(f"a{ENDS}b")
    texts.put("")
    assert opened(texts.whole()) == [f"a\ufffd{ENDS[1:]}b", ""]


def test_without_texts_nothing_is_sent() -> None:
    texts = Texts()
    assert texts.put(None) is None
    assert texts.whole() is None


@given(st.text(alphabet=st.characters(codec=None)))
def test_what_cannot_be_stored_is_replaced(text: str) -> None:
    found = clean(text)
    assert found is not None
    assert "\0" not in found
    found.encode("utf-16-le")
    assert len(found) == len(text)


def test_a_text_that_can_be_stored_stays() -> None:
    assert clean(None) is None
    for text in ("", "plain", "naïve \U0001f600"):
        assert clean(text) == text
