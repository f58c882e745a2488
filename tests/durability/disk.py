"""A disk that lost power: what may be left of files whose last writes were not synced."""

import random
from collections.abc import Iterable, Mapping
from enum import StrEnum
from itertools import groupby, pairwise
from pathlib import Path
from typing import NamedTuple

from tests.durability.recording import Record


class Loss(StrEnum):
    """What happens to writes that were not synced."""

    NOTHING = "nothing is lost"
    ALL = "all are lost"
    TAIL = "the last are lost"
    SOME = "some are lost"
    TORN = "some of their sectors are lost"
    MIXED = "some of their sectors are lost, the others overtake each other"


class Write(NamedTuple):
    """Bytes at a place, or, without bytes, a new end of the file."""

    at: int
    data: bytes | None

    def apply(self, content: bytearray) -> None:
        if self.data is None:
            del content[self.at :]
            content.extend(bytes(self.at - len(content)))
        else:
            content.extend(bytes(max(0, self.at - len(content))))
            content[self.at : self.at + len(self.data)] = self.data

    def pieces(self, sector: int) -> list["Write"]:
        """The write as the disk makes it: sector by sector."""
        if self.data is None:
            return [self]
        ends = [*range(self.at // sector * sector + sector, self.at + len(self.data), sector)]
        cuts = [self.at, *ends, self.at + len(self.data)]
        return [Write(start, self.data[start - self.at : end - self.at]) for start, end in pairwise(cuts)]


class File:
    """The content that lasts, and the writes that may not."""

    def __init__(self, content: bytes = b"") -> None:
        self.lasting = bytearray(content)
        self.pending: list[Write] = []
        self._settled = 0

    @property
    def position(self) -> int:
        """How many writes there were in all."""
        return self._settled + len(self.pending)

    def settle(self, position: int) -> None:
        """Makes the first writes last."""
        count = max(0, position - self._settled)
        for write in self.pending[:count]:
            write.apply(self.lasting)
        del self.pending[:count]
        self._settled += count

    def content(self) -> bytes:
        """As programs see it."""
        content = bytearray(self.lasting)
        for write in self.pending:
            write.apply(content)
        return bytes(content)

    def remains(self, loss: Loss, draw: random.Random) -> bytes:
        """As the disk may have it when the power comes back."""
        content = bytearray(self.lasting)
        for write in _left(self.pending, loss, draw):
            write.apply(content)
        return bytes(content)


def _left(pending: list[Write], loss: Loss, draw: random.Random) -> Iterable[Write]:
    if loss is Loss.NOTHING:
        return pending
    if loss is Loss.ALL:
        return []
    share = draw.choice((0.05, 0.5, 0.95))
    sector = draw.choice((512, 4096))
    pieces = pending
    if loss is not Loss.SOME:
        pieces = [piece for write in pending for piece in write.pieces(sector)]
    if loss is Loss.TAIL:
        return pieces[: draw.randint(0, len(pieces))]
    left = [piece for piece in pieces if draw.random() < share]
    if loss is Loss.MIXED:
        draw.shuffle(left)
    return left


class Naming(NamedTuple):
    """A name that was given to a file, or taken away."""

    name: str
    file: File | None


class Disk:
    """The files of a folder, as a recording fills them. `honest` is whether a sync does what it says.

    `files` are there, and last, from the beginning.
    """

    def __init__(self, files: Mapping[str, bytes] | None = None, *, honest: bool = True) -> None:
        self._honest = honest
        self._names = {name: File(content) for name, content in (files or {}).items()}
        self._lasting = dict(self._names)
        self._pending: list[Naming] = []
        self._named = 0
        self._begun: dict[int, tuple[File | None, int]] = {}

    def take(self, record: Record) -> None:
        """Does what was recorded."""
        match record.kind:
            case "c":
                # Two that open it at once may both believe to have made it.
                if record.name not in self._names:
                    self._name(record.name, File())
            case "u":
                self._name(record.name, None)
            case "w" | "t":
                file = self._names.get(record.name)
                assert file is not None, f"{record.name} was written to, and nobody has made it"
                file.pending.append(Write(record.number, record.data if record.kind == "w" else None))
            case "b":
                self._begin(record)
            case "s":
                self._end(*self._begun.pop(record.number))
            case kind:
                raise ValueError(kind)

    def content(self, name: str) -> bytes | None:
        """A file as programs see it."""
        file = self._names.get(name)
        return None if file is None else file.content()

    def remains(self, loss: Loss, draw: random.Random) -> dict[str, bytes]:
        """Which files may be there when the power comes back, and what is in them."""
        found = dict(self._lasting)
        by_name = sorted(self._pending, key=lambda naming: naming.name)
        for name, group in groupby(by_name, key=lambda naming: naming.name):
            after = [found.get(name), *(naming.file for naming in group)]
            chosen = {Loss.NOTHING: after[-1], Loss.ALL: after[0]}.get(loss, draw.choice(after))
            if chosen is None:
                found.pop(name, None)
            else:
                found[name] = chosen
        return {name: file.remains(loss, draw) for name, file in found.items()}

    def _name(self, name: str, file: File | None) -> None:
        self._pending.append(Naming(name, file))
        if file is None:
            del self._names[name]
        else:
            self._names[name] = file

    def _begin(self, record: Record) -> None:
        file = self._names.get(record.name)  # or it is a folder
        reached = self._named + len(self._pending) if file is None else file.position
        self._begun[record.number] = (file, reached)

    def _end(self, file: File | None, reached: int) -> None:
        if not self._honest:
            return
        if file is not None:
            file.settle(reached)
            return
        count = max(0, reached - self._named)
        for name, named in self._pending[:count]:
            if named is None:
                self._lasting.pop(name, None)
            else:
                self._lasting[name] = named
        del self._pending[:count]
        self._named += count


def fill(folder: Path, files: dict[str, bytes]) -> None:
    """Writes an image of the disk."""
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
