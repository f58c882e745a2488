"""Finds the fenced code blocks of a Markdown page, and the comment that says what to do with one."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from textwrap import dedent

FENCE = re.compile(r"^\s*(?P<fence>`{3,}|~{3,})\s*(?P<info>[^`]*)$")
COMMENT = re.compile(r"^\s*<!--\s*(?P<word>file|until):\s*(?P<value>.+?)\s*-->\s*$")


class PageError(Exception):
    """A page is written in a way that cannot be checked; the message begins with its place."""


@dataclass(frozen=True)
class Block:
    """One fenced block; `line` is that of its first line of text."""

    page: str
    line: int
    language: str
    text: str
    file: str | None = None
    until: str | None = None

    @property
    def place(self) -> str:
        return f"{self.page}:{self.line}"


def blocks_of(page: Path, root: Path) -> list[Block]:
    """All blocks of one page, in order."""
    name = page.relative_to(root).as_posix()
    found: list[Block] = []
    notes: dict[str, str] = {}
    lines = iter(enumerate(page.read_text(encoding="utf-8").splitlines(), start=1))
    for number, line in lines:
        if note := COMMENT.match(line):
            notes[note["word"]] = note["value"]
        elif opened := FENCE.match(line):
            text = _read_until_closed(lines, opened, f"{name}:{number}")
            language = opened["info"].partition(" ")[0].strip()
            found.append(Block(name, number + 1, language, text, notes.get("file"), notes.get("until")))
            notes = {}
        elif line.strip():
            notes = {}
    return found


def _read_until_closed(lines: Iterator[tuple[int, str]], opened: re.Match[str], place: str) -> str:
    body: list[str] = []
    for _, line in lines:
        closed = FENCE.match(line)
        if closed and not closed["info"].strip() and closed["fence"].startswith(opened["fence"]):
            return dedent("\n".join(body)) + "\n"
        body.append(line)
    raise PageError(f"{place}: the code block is never closed")
