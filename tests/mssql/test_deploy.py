"""The scripts for those who make the tables by hand."""

import re

import msgspec

from holdfast import Holdfast, every
from holdfast.model.plan import ScheduleInfo, decode
from holdfast.model.scheduling import ScheduleRecord
from holdfast.stores.mssql.schema import steps
from tests.mssql.tsql import calls, procedures, unparsable
from tools.write_sqlserver import FOLDER, create_sql, seed_sql

WRITE_THEM = "run: python -m tools.write_sqlserver"


def script(name: str) -> str:
    return (FOLDER / name).read_text(encoding="utf-8")


def batches_of(text: str) -> list[str]:
    return [part.strip() for part in re.split(r"^GO$", text, flags=re.MULTILINE) if part.strip()]


def seeded(now: int) -> ScheduleRecord:
    """The schedule that the seed stores when the server's clock says so."""
    found = re.findall(r"@(definition|state) varchar\(max\) = (?:CONCAT\()?'(.*)'\)?;", script("seed.sql"))
    said = {name: value.replace("', @now, '", str(now)) for name, value in found}
    [name] = re.findall(r'"name":"(\w+)","version":0', script("seed.sql"))
    return ScheduleRecord(
        name=name,
        version=1,
        mark="seed",
        definition=said["definition"].encode(),
        state=said["state"].encode(),
        look_at=now,
        job=None,
        waits=False,
    )


def test_they_are_what_the_store_itself_would_do() -> None:
    assert script("create.sql") == create_sql(), WRITE_THEM
    assert script("seed.sql") == seed_sql(), WRITE_THEM


def test_they_say_how_to_run_them_and_what_must_be_on() -> None:
    assert "sqlcmd -b" in script("create.sql").partition("\nSET ")[0]
    assert "SET READ_COMMITTED_SNAPSHOT ON" in script("create.sql").partition("\nSET ")[0]
    assert "sqlcmd -b" in script("seed.sql").partition("\nSET ")[0]


def test_tables_are_made_with_the_settings_that_their_indexes_need() -> None:
    """`sqlcmd` begins without QUOTED_IDENTIFIER, and a procedure keeps what held when it was made."""
    opening, *_ = batches_of(script("create.sql"))
    assert re.search(r"^SET ANSI_NULLS, QUOTED_IDENTIFIER, XACT_ABORT ON;\Z", opening, re.MULTILINE)


def test_sqlcmd_finds_no_variables_of_its_own_in_them() -> None:
    assert "$(" not in script("create.sql") + script("seed.sql")


def test_what_was_applied_is_passed_over() -> None:
    parts = batches_of(script("create.sql"))
    guards = [part for part in parts if part.endswith("SET NOEXEC ON;")]
    assert parts.count("SET NOEXEC OFF;") == len(guards) == len(steps())
    is_on = False
    for part in parts:
        is_on = (is_on or part.endswith("SET NOEXEC ON;")) and part != "SET NOEXEC OFF;"
        makes = re.match(r"(?:--[^\n]*\n)*(?:CREATE|EXEC|INSERT)\b", part)
        assert is_on or not makes, part[:100]


def test_a_run_that_is_cut_short_leaves_no_step_half_done() -> None:
    """`sqlcmd -b` leaves at the first error, and the server then rolls back what is not committed."""
    parts = batches_of(script("create.sql"))
    guards = [place for place, part in enumerate(parts) if part.endswith("SET NOEXEC ON;")]
    ends = [place for place, part in enumerate(parts) if part == "SET NOEXEC OFF;"]
    for guard, end, step in zip(guards, ends, steps(), strict=True):
        begin, *inside, note, commit = parts[guard + 1 : end]
        assert (begin, commit) == ("BEGIN TRANSACTION;", "COMMIT TRANSACTION;")
        assert tuple(inside) == step.batches
        assert note == step.note


def test_the_seed_is_t_sql_that_calls_what_is_there() -> None:
    [seed] = batches_of(script("seed.sql"))
    assert unparsable(seed) == ()
    assert [(call.name, len(call.arguments)) for call in calls(seed)] == [
        (name, len(procedures()[name].parameters)) for name in ("namespace_v1", "schedule_write_v1")
    ]


async def test_the_seed_is_the_schedule_that_the_preset_would_store() -> None:
    app = Holdfast("memory://", preset="jobs")

    @app.task
    def tidy() -> None:
        pass

    async with app:
        put = await app.schedules.put("tidy", every(minutes=10, anchor="start"), tidy.call())
    found = ScheduleInfo.of(seeded(1_800_000_000_000_000))
    assert msgspec.structs.replace(found, next_due=put.next_due) == put
    plan, state = decode(seeded(7))
    assert (state.origin, state.next_due, state.waiting) == (7, 7, False)
    assert plan.schedule.name == "tidy"
