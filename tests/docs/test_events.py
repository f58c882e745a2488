"""The table of log events in the operator's page names what workers really write."""

import ast
import re
from collections.abc import Iterator

from tests.docs.page import ROOT

PAGE = ROOT / "docs/operating.md"
LEVELS = {
    "debug": "debug",
    "info": "info",
    "warning": "warning",
    "error": "error",
    "exception": "error",
    "critical": "critical",
}
SAYING = {"_say": "info", "say": "warning"}
"""Methods that log what they are given first, and how."""
ROW = re.compile(r"^\| (?P<events>`[^|]+`) \| (?P<levels>[a-z, ]+) \|", re.MULTILINE)


def nodes() -> Iterator[tuple[str, ast.AST]]:
    """All of the engine's source, each part with the name of its module."""
    for path in (ROOT / "src/holdfast/engine").glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            yield path.stem, node


def duties() -> Iterator[str]:
    """With which word the lines of each kind of candidate begin."""
    for _, node in nodes():
        match node:
            case ast.Call(func=ast.Name(id="Candidate"), args=[*_, ast.Constant(value=str(duty))]):
                yield duty
            case _:
                continue


def written() -> Iterator[tuple[str, str]]:
    """Event and level of every line that the engine can log."""
    for module, node in nodes():
        match node:
            case ast.Call(
                func=ast.Attribute(value=ast.Name(id="log"), attr=level),
                args=[ast.Constant(value=str(event)), *_],
            ) if level in LEVELS:
                yield event, LEVELS[level]
            case ast.Call(
                func=ast.Attribute(attr="_say" | "say" as method),
                args=[ast.Constant(value=str(event)), *_],
            ):
                said = [f"{duty} {event}" for duty in duties()] if module == "candidate" else [event]
                yield from ((each, SAYING[method]) for each in said)
            case _:
                continue


def told() -> Iterator[tuple[str, str]]:
    """Event and level of every row of the table; one level may stand for all events of its row."""
    table = PAGE.read_text().partition("## Logs")[2].partition("\n## ")[0]
    for row in ROW.finditer(table):
        events, levels = re.findall(r"`([^`]+)`", row["events"]), row["levels"].split(", ")
        yield from zip(events, levels * len(events) if len(levels) == 1 else levels, strict=True)


def test_the_table_names_every_event_that_asks_for_attention() -> None:
    assert {each for each in written() if each[1] not in {"debug", "info"}} <= set(told())


def test_the_table_names_no_event_that_is_never_written() -> None:
    assert set(told()) <= set(written())
