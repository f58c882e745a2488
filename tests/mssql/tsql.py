"""The T-SQL that is shipped, and what can be told of it without a server."""

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass, fields
from functools import cache
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from typing import Any

from sqlfluff.core import Linter

import holdfast.stores.mssql as package
from holdfast.stores.mssql.queries import Queries
from holdfast.stores.mssql.schema import steps

_COMMENT = re.compile(r"--[^\n]*")
_PROCEDURE = re.compile(r"CREATE PROCEDURE holdfast\.(\w+)(.*?)\nAS\nBEGIN\n(.*)\nEND\Z", re.DOTALL)
_PARAMETER = re.compile(r"(@\w+) ([a-z]+(?:\([\w, ]+\))?)( = \w+)?( OUTPUT)?")
_CALL = re.compile(r"EXEC(?:UTE)? (?:@\w+ = )?holdfast\.(\w+)([^;]*)")
_COLUMN = re.compile(r"^    \[?(\w+)\]? ([a-z]\w*(?:\(\w+\))?)", re.MULTILINE)
_BEGINS = re.compile(
    r"\s*(?:EXEC|SELECT|UPDATE|DELETE|INSERT|DECLARE|IF|SET|BEGIN|COMMIT|ROLLBACK|CREATE|ALTER|GRANT|WITH)\s"
)
_SQL = re.compile(r"\b(?:SELECT|INSERT INTO|DELETE FROM|EXEC|BEGIN TRANSACTION|UPDATE \S+ SET)\b")
_FILLED = {
    "schema": "holdfast",
    "version": "1",
    "name": "x",
    "min_client": "1",
    "source": "jobs",
    "conditions": "",
}


@dataclass(frozen=True)
class Parameter:
    name: str
    type: str
    is_optional: bool
    is_output: bool


@dataclass(frozen=True)
class Procedure:
    name: str
    parameters: tuple[Parameter, ...]
    body: str


@dataclass(frozen=True)
class Call:
    """`EXEC` of one of our procedures: its arguments as they are written."""

    name: str
    arguments: tuple[str, ...]

    @property
    def outputs(self) -> tuple[bool, ...]:
        return tuple(argument.endswith(" OUTPUT") for argument in self.arguments)


@cache
def unparsable(sql: str) -> tuple[str, ...]:
    """What a T-SQL parser cannot read of a batch; nothing if it reads all of it.

    It takes a word that it does not know for the name of a procedure, so a call must say EXEC.
    """
    parsed = Linter(dialect="tsql").parse_string(sql.replace("?", "@p"))
    found = parsed.root_variant()
    if found is None or found.tree is None:
        return tuple(map(str, parsed.violations))
    unread = [segment.raw for segment in found.tree.recursive_crawl("unparsable")]
    called = [segment.raw for segment in found.tree.recursive_crawl("execute_script_statement")]
    silent = [text for text in called if not re.match(r"EXEC(?:UTE)?\b", text, re.IGNORECASE)]
    return (*map(str, parsed.violations), *unread, *silent)


def without_comments(sql: str) -> str:
    return _COMMENT.sub("", sql)


def batches() -> list[str]:
    """All batches of all migrations, without comments."""
    return [without_comments(batch).strip() for step in steps() for batch in step.batches]


@cache
def procedures() -> dict[str, Procedure]:
    found = (_PROCEDURE.match(batch) for batch in batches())
    made = [Procedure(one[1], tuple(_parameters(one[2])), one[3]) for one in found if one is not None]
    return {procedure.name: procedure for procedure in made}


def tables() -> dict[str, dict[str, str]]:
    """The types of the columns of each table."""
    found: dict[str, dict[str, str]] = {}
    for batch in batches():
        for table in re.finditer(r"CREATE TABLE holdfast\.(\w+) \((.*?)\n\);", batch, re.DOTALL):
            found[table[1]] = dict(_COLUMN.findall(table[2]))
    return found


def calls(sql: str) -> list[Call]:
    """What the text calls."""
    return [Call(name, tuple(split(rest))) for name, rest in _CALL.findall(without_comments(sql))]


def split(text: str) -> list[str]:
    """The parts between commas that stand in no parentheses."""
    parts, depth = [""], 0
    for letter in text:
        depth += (letter == "(") - (letter == ")")
        if letter == "," and not depth:
            parts.append("")
        else:
            parts[-1] += letter
    return [" ".join(part.split()) for part in parts if part.strip()]


def _parameters(text: str) -> Iterator[Parameter]:
    for part in split(text):
        found = _PARAMETER.fullmatch(part)
        assert found is not None, part
        yield Parameter(found[1], found[2], found[3] is not None, found[4] is not None)


@cache
def sent() -> dict[str, str]:
    """What Python sends, by the places where it stands, with something in each gap."""
    found = {f"queries.{one.name}": _filled(getattr(Queries(), one.name)) for one in fields(Queries)}
    for name, line, text in _literals():
        if _BEGINS.match(text) and name != "queries":
            found[f"{name}:{line}"] = _filled(text)
    return found


def overlooked() -> list[str]:
    """Strings that have SQL in them and are no part of what is told to be sent."""
    known = "\n".join(sent().values())
    return [
        f"{name}:{line}: {text}"
        for name, line, text in _literals()
        if _SQL.search(text) and _filled(text) not in known
    ]


def _filled(text: str) -> str:
    return re.sub(r"\{(\w+)\}", lambda gap: _FILLED[gap[1]], text)


@cache
def _literals() -> tuple[tuple[str, int, str], ...]:
    """All strings of the store's modules but docstrings: module, line, text."""
    found: list[tuple[str, int, str]] = []
    for info in iter_modules(package.__path__):
        if info.name == "roles":
            continue  # it composes what it says, and is tested by itself
        module = import_module(f"{package.__name__}.{info.name}")
        tree = ast.parse(Path(module.__file__ or "").read_text(encoding="utf-8"))
        parts = {
            id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in node.values
        }
        prose = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
        for node in ast.walk(tree):
            if id(node) in parts | prose:
                continue
            if isinstance(node, ast.JoinedStr):
                found.append((info.name, node.lineno, "".join(_part(part, module) for part in node.values)))
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                found.append((info.name, node.lineno, node.value))
    return tuple(found)


def _part(part: ast.expr, module: Any) -> str:
    """A part of an f-string: what it stands for in the module, or a number in its place."""
    if isinstance(part, ast.Constant):
        return str(part.value)
    assert isinstance(part, ast.FormattedValue)
    name = part.value.id if isinstance(part.value, ast.Name) else ""
    value = getattr(module, name, None)
    return value if isinstance(value, str) else "1"
