"""Every statement is T-SQL that a parser reads, and keeps the rules of the house."""

import re

import pytest

from holdfast.azure.users import role_sql, user_sql
from holdfast.model.lifecycle import State
from holdfast.model.records import Query
from holdfast.stores.mssql.address import parse
from holdfast.stores.mssql.queries import Queries, found, rendered
from holdfast.stores.mssql.schema import MssqlMigrations, Step, steps
from tests.mssql.tsql import (
    Parameter,
    Procedure,
    batches,
    calls,
    overlooked,
    procedures,
    sent,
    split,
    tables,
    unparsable,
    without_comments,
)

ELSEWHERE = parse("mssql://localhost/jobs?schema=another_one")
FIND = Query(
    states=frozenset({State.DLQ}),
    queue="q",
    task="t",
    tag="x",
    worker="w",
    due_after=1,
    due_before=2,
    cursor="c",
    limit=3,
)
ANOTHER_LANGUAGE = [
    "SELECT id FROM holdfast.job ORDER BY id LIMIT 5",
    "UPDATE holdfast.job SET state = 1 RETURNING id",
    "INSERT INTO holdfast.queue (ns, name) VALUES (1, 'x') ON CONFLICT DO NOTHING",
    "SELECT now() AT TIME ZONE 'UTC' FROM holdfast.job FOR UPDATE SKIP LOCKED",
    "CREATE PROCEDURE holdfast.x_v1 @ns int AS BEGIN SELECT 1",
]
UNWELCOME = {
    "MERGE": r"\bMERGE\b",
    "WAITFOR": r"\bWAITFOR\b",
    "rowversion": r"\b(?:rowversion|timestamp)\b",
    "CREATE OR ALTER": r"\bCREATE\s+OR\s+ALTER\b",
    "a common table expression": r"(?:^|;|\bBEGIN\b|\bAS\b)\s*WITH\s+\w+\s*(?:\([^)]*\)\s*)?AS\s*\(",
    "INSERT ... EXEC": r"\bINSERT\s+(?:INTO\s+)?[\w.#@]+\s*(?:\([^)]*\)\s*)?EXEC\b",
    "a (max) for OUTPUT": r"\(max\)\s+OUTPUT\b",
}
SIZES = {"int": 4, "bigint": 8, "bit": 1, "tinyint": 1, "float": 8, "datetime2": 8}

each_procedure = pytest.mark.parametrize("procedure", procedures().values(), ids=lambda found: found.name)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("step", steps(), ids=lambda step: step.name)
def test_a_parser_reads_each_batch_of_a_migration_in_any_schema(step: Step) -> None:
    for batch in step.batches:
        assert unparsable(rendered(batch, ELSEWHERE)) == ()


def test_rendering_changes_the_schema_and_nothing_else() -> None:
    text = "\n".join(batch for step in steps() for batch in step.batches)
    elsewhere = rendered(text, ELSEWHERE)
    assert "holdfast." not in elsewhere
    assert "another_one" not in text
    assert elsewhere.replace("[another_one].", "holdfast.") == text
    assert rendered(text, parse("mssql://localhost/jobs")) == text


@pytest.mark.parametrize("place", sent())
def test_a_parser_reads_what_python_sends(place: str) -> None:
    assert unparsable(sent()[place]) == ()


def test_no_statement_is_overlooked() -> None:
    [condition] = overlooked()
    sql, args = found(Queries(), 1, FIND)
    assert condition.endswith(
        "EXISTS (SELECT 1 FROM OPENJSON(tags) WHERE value COLLATE Latin1_General_BIN2 = ?)"
    )
    assert condition.split(": ", 1)[1] in sql
    assert sql.count("?") == len(args) == 9
    assert unparsable(sql) == ()


def test_a_parser_reads_what_the_script_has_beside_the_migrations() -> None:
    known = {batch for step in steps() for batch in step.batches}
    script = MssqlMigrations(parse("mssql://localhost/jobs")).as_sql()
    others = {part.strip() for part in re.split(r"^GO$", script, flags=re.MULTILINE)} - known - {""}
    assert len(others) > len(steps())
    assert [problem for part in others for problem in unparsable(part)] == []


def test_a_parser_reads_what_azure_is_told() -> None:
    assert unparsable(role_sql() + user_sql("jobs-worker")) == ()


@pytest.mark.parametrize("sql", ANOTHER_LANGUAGE)
def test_another_language_is_refused(sql: str) -> None:
    assert unparsable(sql) != ()


@pytest.mark.parametrize("what", UNWELCOME)
def test_what_some_servers_do_not_know_is_not_used(what: str) -> None:
    pattern = re.compile(UNWELCOME[what], re.IGNORECASE)
    texts = [*batches(), *sent().values()]
    assert [text for text in texts if pattern.search(text)] == []


@pytest.mark.parametrize(
    ("what", "sql"),
    [
        ("MERGE", "MERGE holdfast.job AS j USING #new AS n ON 1 = 1"),
        ("WAITFOR", "WAITFOR DELAY '00:00:01'"),
        ("rowversion", "CREATE TABLE holdfast.x (v rowversion NOT NULL)"),
        ("CREATE OR ALTER", "CREATE OR ALTER PROCEDURE holdfast.x_v1"),
        ("a common table expression", "BEGIN\n    WITH q AS (SELECT 1 AS n) UPDATE q SET n = 2"),
        ("INSERT ... EXEC", "INSERT INTO #new (n, id) EXEC holdfast.x_v1 1"),
        ("a (max) for OUTPUT", "CREATE PROCEDURE holdfast.x_v1 @a nvarchar(max) OUTPUT"),
    ],
)
def test_it_would_be_seen(what: str, sql: str) -> None:
    assert re.search(UNWELCOME[what], sql, re.IGNORECASE)


def test_every_procedure_was_read() -> None:
    named = re.findall(r"CREATE (?:PROCEDURE|FUNCTION) \S+?(\w+)(?=[\s(])", "\n".join(batches()))
    assert set(named) - set(procedures()) == {"now_v1"}
    assert len(named) == len(set(named)) > 80


def test_the_name_of_a_procedure_or_function_ends_with_its_version() -> None:
    named = re.findall(r"CREATE\s+(?:PROCEDURE|FUNCTION)\s+holdfast\.(\w+)", "\n".join(batches()))
    assert [name for name in named if not re.fullmatch(r"[a-z_]+_v[1-9][0-9]*", name)] == []


@each_procedure
def test_a_procedure_counts_no_rows_aloud(procedure: Procedure) -> None:
    assert procedure.body.lstrip().startswith("SET NOCOUNT ON;")


@each_procedure
def test_whoever_begins_a_transaction_ends_it_on_every_error(procedure: Procedure) -> None:
    if "BEGIN TRANSACTION" in procedure.body:
        opening = procedure.body.partition("BEGIN TRANSACTION")[0]
        assert "SET XACT_ABORT ON;" in opening
        assert procedure.body.count("COMMIT TRANSACTION") > 0


@each_procedure
def test_whoever_begins_a_transaction_goes_on_after_no_error(procedure: Procedure) -> None:
    """What it calls may have turned off that an error ends everything."""
    if "BEGIN TRANSACTION" in procedure.body:
        assert re.search(r"BEGIN CATCH\s+THROW;\s+END CATCH", procedure.body)


@each_procedure
def test_no_error_is_swallowed(procedure: Procedure) -> None:
    """But for those that a procedure looks for by their numbers."""
    caught = re.findall(r"BEGIN CATCH(.*?)END CATCH", procedure.body, re.DOTALL)
    assert len(caught) == procedure.body.count("BEGIN TRY")
    for block in caught:
        opening = block.split()
        is_whole = opening[0] == "THROW;"
        is_chosen = re.match(r"\s*IF ERROR_NUMBER\(\) (?:NOT IN \([\d, ]+\)|<> \d+)[^;]*?\s+THROW;", block)
        assert is_whole or is_chosen, block


@each_procedure
def test_whoever_goes_on_after_an_error_has_not_lost_the_transaction_by_it(procedure: Procedure) -> None:
    if re.search(r"BEGIN CATCH\s+IF ERROR_NUMBER", procedure.body):
        assert "SET XACT_ABORT OFF;" in procedure.body


@each_procedure
def test_every_variable_is_declared_and_used(procedure: Procedure) -> None:
    declared = {parameter.name for parameter in procedure.parameters}
    for name in re.findall(r"DECLARE (@\w+) ", procedure.body):
        assert name not in declared, f"{name} twice"
        declared.add(name)
    rest = re.sub(r"DECLARE @\w+ ", "", procedure.body)
    used = set(re.findall(r"(?<!@)@\w+", rest))
    assert used <= declared
    assert declared - used == set()


@each_procedure
def test_a_procedure_calls_what_is_there_with_what_it_takes(procedure: Procedure) -> None:
    types = declared_types(procedure)
    for call in calls(procedure.body):
        called = procedures()[call.name].parameters
        assert fits(call.arguments, called), call
        for argument, parameter in zip(call.arguments, called, strict=False):
            assert argument.endswith(" OUTPUT") == parameter.is_output, call
            name = argument.removesuffix(" OUTPUT")
            if name.startswith("@"):
                assert types[name] == parameter.type, f"{call}: {name} is no {parameter.type}"


@pytest.mark.parametrize("place", [place for place, sql in sent().items() if calls(sql)])
def test_python_calls_what_is_there_with_what_it_takes(place: str) -> None:
    for call in calls(sent()[place]):
        called = procedures()[call.name].parameters
        assert len(call.arguments) == len(called) or place.startswith("transactions"), call
        assert fits(call.arguments, called), call


def declared_types(procedure: Procedure) -> dict[str, str]:
    types = {parameter.name: parameter.type for parameter in procedure.parameters}
    return types | dict(re.findall(r"DECLARE (@\w+) ([a-z]+(?:\([\w, ]+\))?)", procedure.body))


def fits(arguments: tuple[str, ...], parameters: tuple[Parameter, ...]) -> bool:
    required = sum(not parameter.is_optional for parameter in parameters)
    return required <= len(arguments) <= len(parameters)


def test_a_call_that_does_not_fit_would_be_seen() -> None:
    [call] = calls("EXEC @got = holdfast.take_flow_v1 @ns, LEFT(@mode, 1),\n    1; SELECT 1")
    assert call.arguments == ("@ns", "LEFT(@mode, 1)", "1")
    assert not fits(call.arguments, procedures()["take_flow_v1"].parameters)


def test_no_procedure_is_there_in_vain() -> None:
    texts = [*sent().values(), *(procedure.body for procedure in procedures().values())]
    assert set(procedures()) == {call.name for text in texts for call in calls(text)}


def test_rows_of_others_are_passed_over_also_where_reads_see_snapshots() -> None:
    hints = [
        {hint.strip() for hint in found.split(",")}
        for text in [*batches(), *sent().values()]
        for found in re.findall(r"\bWITH \(([A-Z, ]+)\)", text)
    ]
    passing = [found for found in hints if "READPAST" in found]
    assert len(passing) > 10
    assert [found for found in passing if "READCOMMITTEDLOCK" not in found] == []


@each_procedure
def test_the_turn_to_claim_is_waited_for_as_long_as_the_session_says(procedure: Procedure) -> None:
    before, _, found = procedure.body.partition("holdfast.enter_flow_v1")
    assert not found or "LOCK_TIMEOUT" not in before


def test_each_table_has_one_clustered_index() -> None:
    assert len(tables()) > 20
    for batch in batches():
        for name, rest in re.findall(r"CREATE TABLE holdfast\.(\w+) \((.*?)\n\);", batch, re.DOTALL):
            assert len(re.findall(r"(?<!NON)CLUSTERED", rest)) == 1, name
        assert not re.search(r"CREATE (?:UNIQUE )?CLUSTERED INDEX", batch)


def test_no_key_of_an_index_is_longer_than_the_server_allows() -> None:
    """The server would say so when a row with long names comes, not before."""
    keys: list[tuple[str, str, int]] = []
    for batch in batches():
        for table, rest in re.findall(r"CREATE TABLE holdfast\.(\w+) \((.*?)\n\);", batch, re.DOTALL):
            keys += [(table, names, 900) for names in re.findall(r"PRIMARY KEY CLUSTERED \(([^)]+)\)", rest)]
            keys += [(table, names, 1700) for names in re.findall(r"UNIQUE \(([^)]+)\)", rest)]
        found = re.findall(r"CREATE INDEX \w+ ON holdfast\.(\w+) \(([^)]+)\)", batch)
        keys += [(table, names, 1700) for table, names in found]
    assert len(keys) > 40
    for table, names, most in keys:
        assert sum(size(tables()[table][name]) for name in split(names)) <= most, (table, names)


def size(kind: str) -> int:
    """Bytes that a value of this type takes in a key."""
    found = re.fullmatch(r"(n?)(?:var)?char\((\d+)\)", kind)
    return SIZES[kind] if found is None else int(found[2]) * (2 if found[1] else 1)


@each_procedure
def test_names_in_variables_are_compared_by_code_points(procedure: Procedure) -> None:
    types = declared_types(procedure)
    for one, _, other, rest in re.findall(r"(?<!SET )(?<!@)(@\w+) (=|<>) (@\w+)( COLLATE)?", procedure.body):
        if types[one].startswith("nvarchar"):
            assert rest, f"{one} and {other}"


def test_names_are_compared_by_code_points() -> None:
    """Else the collation of the database would decide which names are the same."""
    columns = re.findall(
        r"^    (\w+) (n?(?:var)?char\(\d+\))([^,\n]*)", without_comments("\n".join(batches())), re.MULTILINE
    )
    loose = {name for name, _, rest in columns if "COLLATE Latin1_General_BIN2" not in rest}
    assert loose <= {"host", "version", "outcome", "sources", "stood_by", "verdict"}
