"""Names that users choose, and job ids."""

import re
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.model.errors import InvalidJob
from holdfast.model.names import check_id, check_name, known_id

LETTERS = "abcXYZ0189_.@/+=-"

HOSTILE = [
    "",
    " ",
    "a b",
    "a'b",
    'a"b',
    "a:b",
    "a{b}",
    "a;b",
    "a\\b",
    "a%b",
    "line\n",
    "\nline",
    "a\r",
    "nul\x00",
    "\ud800",
    "café",
    "\uff41",
    "right\u202eleft",
    "x" * 201,
    "-rf",
    ".hidden",
    "/etc",
    "@at",
]


@given(st.text(LETTERS, max_size=199))
def test_letters_digits_and_a_few_signs_are_a_name(rest: str) -> None:
    assert check_name(f"n{rest}", "queue") == f"n{rest}"


@pytest.mark.parametrize("value", [*HOSTILE, None, 7, b"name", ["name"]], ids=lambda value: ascii(value)[:20])
def test_everything_else_is_refused_by_the_name_of_its_field(value: object) -> None:
    with pytest.raises(InvalidJob) as raised:
        check_name(value, "queue")
    assert raised.value.field == "queue"


@given(st.text())
def test_a_refusal_is_one_short_line_of_plain_characters(value: str) -> None:
    try:
        assert check_name(value, "tag") == value
        assert re.fullmatch(r"[!-~]{1,200}", value)
    except InvalidJob as error:
        message = str(error)
        assert message.isascii()
        assert message.isprintable()
        assert len(message) < 250


def test_the_longest_name_has_200_characters() -> None:
    assert check_name("x" * 200, "key") == "x" * 200


@given(st.uuids())
def test_an_id_has_one_form_however_it_is_written(value: UUID) -> None:
    for written in (value, str(value), str(value).upper(), value.hex, f"{{{value}}}", value.urn):
        assert check_id(written) == str(value)


@pytest.mark.parametrize(
    "value", ["", "1", None, 5, "x" * 500, "0190b6a2-7c5e-7e3a-9b1f-2d1c0a4b5c6d\n", "\ud800"]
)
def test_what_is_no_uuid_is_refused(value: object) -> None:
    with pytest.raises(InvalidJob) as raised:
        check_id(value)
    assert raised.value.field == "id"
    assert str(raised.value).isascii()
    assert known_id(value) is None
