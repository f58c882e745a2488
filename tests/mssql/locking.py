"""Which rows a procedure of ours waits for, and in which order, as far as its text tells."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

from tests.mssql.tsql import Call, batches, calls, procedures, split

FLOW = "the flow lock"

_WRITE = re.compile(r"\b(UPDATE|DELETE)(?: TOP \([^)]*\))?(?: FROM)? ([\w.#]+)([^;]*);")
_INSERT = re.compile(r"\bINSERT INTO holdfast\.(\w+)")
_TABLE = re.compile(r"CREATE TABLE holdfast\.(\w+) \((.*?)\n\);", re.DOTALL)
_KEY = re.compile(r"(?:PRIMARY KEY CLUSTERED|UNIQUE) \(([^)]+)\)")
_STEP = re.compile(r"\b(?:BEGIN TRANSACTION|EXEC holdfast\.\w+[^;]*|(?:UPDATE|DELETE|INSERT)\b[^;]*;)")
_OF_ITS_OWN = re.compile(r"IF @waits = 1[^;]*;")
"""What an addition does that is no part of something else."""

_BLOCK = re.compile(r"\b(BEGIN(?! TRANSACTION)|CASE|END)\b")
_NUMBERED = frozenset({"tally", "note", "outbox", "flowing"})
"""Tables whose keys are counted: whoever adds a row there meets nobody."""


@dataclass(frozen=True)
class Write:
    """An UPDATE or DELETE of rows that others can have."""

    table: str
    text: str

    @property
    def is_of_one_row(self) -> bool:
        """Whether it names all columns of a key, each by one value."""
        named = {
            found[1]
            for part in _conditions(self.text)
            if (found := re.fullmatch(r"(?:\w+\.)?(\w+) = (?:@\w+|\?)", part))
        }
        return any(set(key) <= named for key in keys()[self.table])

    @property
    def passes_over(self) -> bool:
        """Whether it leaves alone what others have."""
        hints = re.findall(r"WITH \(([A-Z, ]+)\)", self.text.partition("WHERE")[0])
        return any("READPAST" in found for found in hints)


@cache
def keys() -> dict[str, list[list[str]]]:
    """The columns of each key of each table."""
    found = (made for batch in batches() for made in _TABLE.findall(batch))
    return {table: [split(names) for names in _KEY.findall(rest)] for table, rest in found}


def writes(sql: str) -> Iterator[Write]:
    """What the text changes or removes in tables that are shared."""
    for _, target, rest in _WRITE.findall(sql):
        text = f"{target}{rest}"
        if target.startswith("holdfast."):
            yield Write(target.removeprefix("holdfast."), text)
        elif not target.startswith("#"):
            named = re.search(rf"\bFROM (holdfast\.|#)(\w+) AS {target}\b", rest)
            assert named is not None, text
            if named[1] != "#":
                yield Write(named[2], text)


def loops(sql: str) -> Iterator[str]:
    """The bodies of the loops that stand in no other, with their conditions."""
    rest = sql
    while "WHILE " in rest:
        rest = rest[rest.index("WHILE ") :]
        end = _end_of_block(rest)
        yield rest[:end]
        rest = rest[end:]


def waited_for(sql: str, *, joined: bool = False) -> list[str]:
    """What the text waits for, step by step, with all that it calls, from where its last transaction begins.

    `joined` if jobs that it adds are part of something else.
    """
    found: list[str] = []
    for step in _STEP.findall(_OF_ITS_OWN.sub("", sql) if joined else sql):
        if step == "BEGIN TRANSACTION":
            found.clear()
        elif called := calls(step):
            found += _waited_by(called[0], joined=joined)
        else:
            found += [table for table in _INSERT.findall(step) if table not in _NUMBERED]
            found += [write.table for write in writes(step) if not write.passes_over]
    return found


def _waited_by(call: Call, *, joined: bool) -> list[str]:
    if call.name == "take_flow_v1":
        return [FLOW] if call.arguments[2] == "1" else []
    return waited_for(procedures()[call.name].body, joined=joined or call.name == "add_children_v1")


def _conditions(text: str) -> list[str]:
    """What all must be true of a row, each condition by itself, without what stands in parentheses."""
    flat = re.sub(r"COALESCE\(@\w+, @\w+\)", "@either", text)
    while flat != (flat := re.sub(r"\([^()]+\)", "()", flat)):
        pass
    return " ".join(flat.rpartition("WHERE")[2].split()).split(" AND ")


def _end_of_block(text: str) -> int:
    depth = 0
    for found in _BLOCK.finditer(text):
        depth += -1 if found[1] == "END" else 1
        if not depth and found[1] == "END" and "BEGIN" in text[: found.start()]:
            return found.end()
    raise AssertionError(text)
