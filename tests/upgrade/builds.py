"""Another release of Holdfast: a copy of this one with one step more in its schema."""

import re
import shutil
from pathlib import Path

from holdfast.stores.postgres import schema as postgres_schema
from holdfast.stores.redis.flow import LAYOUT
from holdfast.stores.sqlite import schema as sqlite_schema

SOURCE = Path(__file__).resolve().parents[2] / "src" / "holdfast"
_SQLITE = """-- min-client: {least}
ALTER TABLE holdfast_job ADD COLUMN addition TEXT DEFAULT 'x';
ALTER TABLE holdfast_done ADD COLUMN addition TEXT DEFAULT 'x';
CREATE INDEX holdfast_job_addition ON holdfast_job (addition, id);
"""
_POSTGRES = """-- min-client: {least}
ALTER TABLE holdfast.job ADD COLUMN addition text DEFAULT 'x';
ALTER TABLE holdfast.done ADD COLUMN addition text DEFAULT 'x';
CREATE INDEX job_addition ON holdfast.job (addition, id);
CREATE FUNCTION holdfast.namespace_v2(p_name text) RETURNS integer LANGUAGE sql
AS $$ SELECT holdfast.namespace_v1(p_name) $$;
"""


def make_newer(folder: Path, *, breaks: bool) -> Path:
    """Where to find it, as PYTHONPATH takes it. One that `breaks` does not work beside this one."""
    made = folder / "newer" / "holdfast"
    shutil.copytree(SOURCE, made, ignore=shutil.ignore_patterns("__pycache__"))
    for name, schema, sql in (
        ("sqlite", sqlite_schema, _SQLITE),
        ("postgres", postgres_schema, _POSTGRES),
    ):
        newer = schema.CLIENT + 1
        store = made / "stores" / name
        change(store / "schema.py", rf"^CLIENT = {schema.CLIENT}$", f"CLIENT = {newer}")
        step = store / "migrations" / f"{newer:04}_addition.sql"
        step.write_text(sql.format(least=newer if breaks else schema.CLIENT), encoding="utf-8")
    # What the older release does not have: who sends it without the step is told.
    change(made / "stores" / "postgres" / "queries.py", r"namespace_v1\(\$1\)", "namespace_v2($1)")
    change(
        made / "stores" / "redis" / "flow.py", rf"^LAYOUT: Final = {LAYOUT}$", f"LAYOUT: Final = {LAYOUT + 1}"
    )
    return made.parent


def change(file: Path, pattern: str, replacement: str) -> None:
    """Changes the one place of the file that fits."""
    text, count = re.subn(
        pattern, replacement.replace("\\", r"\\"), file.read_text("utf-8"), flags=re.MULTILINE
    )
    assert count == 1, f"{file.name}: {pattern} is there {count} times"
    file.write_text(text, encoding="utf-8")
