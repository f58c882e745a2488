"""Writes the scripts of `deploy/sqlserver` from the store itself: `python -m tools.write_sqlserver`.

A test holds them equal.
"""

from pathlib import Path

import msgspec

from holdfast import every
from holdfast.model.plan import JobTemplate, Plan
from holdfast.model.presets import JOBS
from holdfast.model.schedule import Schedule, ScheduleState
from holdfast.stores.mssql import MssqlStore

FOLDER = Path(__file__).resolve().parents[1] / "deploy" / "sqlserver"
INTERVAL = JOBS.get("interval_seconds") or 0.0

_CREATE = """-- The tables and procedures of Holdfast, as `holdfast migrate` makes them. Run it in your
-- database: sqlcmd -b -S SERVER -d DATABASE -G -i create.sql
-- -b stops at the first error, -G signs in with Entra ID. It is safe to run again: what is there is passed
-- over. READ_COMMITTED_SNAPSHOT must be on, else heartbeats wait for transactions of handlers. In Azure SQL
-- it is; elsewhere run this once, while nobody else is connected:
--   ALTER DATABASE CURRENT SET READ_COMMITTED_SNAPSHOT ON;
"""
_SEED = """-- A first recurring job, after create.sql: sqlcmd -b -S SERVER -d DATABASE -G -i seed.sql
-- It makes the namespace `default`, and in it the schedule `{name}`: the task `{name}` of the queue
-- `default` without arguments, {minutes:g} minutes after the start of its last run, as in the preset `jobs`.
-- It is due at once. Change the names to those of your task. It is safe to run again: what is there is left
-- as it is. The same is stored by
--   app.schedules.put("{name}", every(minutes={minutes:g}, anchor="start"), {name}.call())
-- but is first due after an interval.
SET NOCOUNT ON;
SET XACT_ABORT ON;
DECLARE @ns int;
DECLARE @now bigint = holdfast.now_v1();
DECLARE @definition varchar(max) = '{definition}';
DECLARE @state varchar(max) = CONCAT('{state}');
DECLARE @bytes varbinary(max) = CAST(CONCAT(@definition, @state) AS varbinary(max));
DECLARE @writes nvarchar(max) = CONCAT(
    N'[{{"place":1,"name":"{name}","version":0,"mark":"seed","waits":false,"look_at":', @now,
    N',"definition_at":1,"definition_size":', DATALENGTH(@definition),
    N',"state_at":', DATALENGTH(@definition) + 1, N',"state_size":', DATALENGTH(@state), N'}}]');
EXEC holdfast.namespace_v1 N'default', @ns OUTPUT;
EXEC holdfast.schedule_write_v1 @ns, NULL, NULL, NULL, @writes, NULL, NULL, @bytes, 0;
GO
"""


def create_sql() -> str:
    return _CREATE + MssqlStore.from_url("mssql://localhost/holdfast").migrations.as_sql()


def plan() -> Plan:
    """The schedule of the seed."""
    recurrence = every(seconds=INTERVAL, anchor="start")
    return Plan(
        schedule=Schedule(name="tidy", recurrence=recurrence),
        fires=JobTemplate(task="tidy", queue="default", payload=b"{}"),
    )


def seed_sql() -> str:
    state = msgspec.json.encode(ScheduleState(origin=0, next_due=0)).decode()
    return _SEED.format(
        name=plan().schedule.name,
        minutes=INTERVAL / 60,
        definition=plan().encode().decode(),
        state=state.replace(":0", ":', @now, '", 2),
    )


def main() -> None:
    (FOLDER / "create.sql").write_text(create_sql(), encoding="utf-8")
    (FOLDER / "seed.sql").write_text(seed_sql(), encoding="utf-8")


if __name__ == "__main__":
    main()
