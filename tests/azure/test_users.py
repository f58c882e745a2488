"""The T-SQL for users: whatever a name is made of, it stays a name."""

from pathlib import Path

import pytest
from sqlfluff.core import Linter

from holdfast.azure.users import literal, quoted, role_sql, user_sql

NASTY = ["plain", "it's", "a]b", "]; DROP USER x; --", "[x]", "]]", "'", "ünï", "a b"]


def unquoted(text: str) -> str:
    """Reads one identifier as SQL Server does: it ends at the first bracket that is not doubled."""
    assert text.startswith("[")
    name, rest = "", text[1:]
    while rest:
        if rest.startswith("]]"):
            name, rest = name + "]", rest[2:]
        elif rest[0] == "]":
            return name if rest == "]" else f"ends early, before {rest[1:]!r}"
        else:
            name, rest = name + rest[0], rest[1:]
    return "never ends"


@pytest.mark.parametrize("name", NASTY)
def test_a_name_is_one_identifier_and_nothing_more(name: str) -> None:
    assert unquoted(quoted(name)) == name


@pytest.mark.parametrize("text", NASTY)
def test_a_text_is_one_constant_and_nothing_more(text: str) -> None:
    constant = literal(text)
    assert constant[:2] == "N'"
    assert constant[-1] == "'"
    assert constant[2:-1].replace("''", "") == text.replace("'", "")
    assert constant[2:-1].count("'") == 2 * text.count("'")


# The parser does not know doubled brackets; that they are right is shown above.
@pytest.mark.parametrize("name", [name for name in NASTY if "]" not in name])
def test_the_statements_are_t_sql_for_every_name(name: str) -> None:
    parsed = Linter(dialect="tsql").parse_string(role_sql() + user_sql(name))
    assert parsed.violations == []


def test_a_wrong_statement_would_be_seen() -> None:
    wrong = user_sql("plain").replace("FROM EXTERNAL", "FROM OUTSIDE")
    assert Linter(dialect="tsql").parse_string(wrong).violations != []


def test_a_user_gets_the_tables_and_nothing_that_changes_them() -> None:
    rights = role_sql()
    assert (
        "GRANT SELECT, INSERT, UPDATE, DELETE, EXECUTE ON SCHEMA::[holdfast] TO [holdfast_worker];" in rights
    )
    assert not {"ALTER", "CONTROL", "db_owner"} & set(rights.replace(";", " ").split())
    assert user_sql("jobs-worker") == (
        "IF DATABASE_PRINCIPAL_ID(N'jobs-worker') IS NULL\n"
        "    CREATE USER [jobs-worker] FROM EXTERNAL PROVIDER;\n"
        "ALTER ROLE [holdfast_worker] ADD MEMBER [jobs-worker];\n"
    )
    assert "password" not in (rights + user_sql("x")).lower()


def test_the_page_shows_what_is_run() -> None:
    page = (Path(__file__).resolve().parents[2] / "docs" / "azure.md").read_text()
    assert f"```sql\n{role_sql()}{user_sql('NAME')}```" in page
