"""What is broken, and the records that show it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import msgspec

from holdfast.torture.history import FOLDER, SUFFIX, Line, read_file

LONGEST = 300


@dataclass(frozen=True, slots=True)
class Violation:
    """One broken promise, in a sentence, and the records that show it; text is evidence from elsewhere."""

    sentence: str
    evidence: tuple[Line | str, ...] = ()


class Exhibit(msgspec.Struct, frozen=True):
    """A piece of evidence: what it says, and where it stands if that is a record."""

    text: str
    file: str | None = None
    line: int | None = None

    def __str__(self) -> str:
        place = self.file if self.line is None else f"{self.file}:{self.line}"
        return self.text if place is None else f"{place}: {self.text}"


class Finding(msgspec.Struct, frozen=True):
    """A violation with its evidence as people read it."""

    sentence: str
    evidence: tuple[Exhibit, ...]


def shorten(text: str) -> str:
    """A record that names a whole batch is told by its beginning; the line number leads to the rest."""
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}…"


def find_places(out: Path | None, violations: Iterable[Violation]) -> list[Finding]:
    """The violations with file and line of their records; each file is read once."""
    kept = list(violations)
    lines = {} if out is None else _lines_of(out, kept)
    return [
        Finding(violation.sentence, tuple(_exhibit(each, lines) for each in violation.evidence))
        for violation in kept
    ]


def _lines_of(out: Path, violations: list[Violation]) -> dict[bytes, int]:
    wanted: defaultdict[str, set[bytes]] = defaultdict(set)
    for violation in violations:
        for each in violation.evidence:
            if not isinstance(each, str):
                wanted[each.who].add(msgspec.json.encode(each))
    found: dict[bytes, int] = {}
    for who, texts in wanted.items():
        for number, record in enumerate(read_file(_path(out, who)), start=1):
            if (text := msgspec.json.encode(record)) in texts:
                found.setdefault(text, number)
    return found


def _path(out: Path, who: str) -> Path:
    return out / FOLDER / f"{who}{SUFFIX}"


def _exhibit(each: Line | str, lines: dict[bytes, int]) -> Exhibit:
    if isinstance(each, str):
        return Exhibit(each)
    text = msgspec.json.encode(each)
    return Exhibit(shorten(text.decode()), f"{FOLDER}/{each.who}{SUFFIX}", lines.get(text))
