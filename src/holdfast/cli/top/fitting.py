"""Makes a table fit a width: less needed columns go, then the widest are cut short."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rich.text import Text

from holdfast.cli.top.tables import GAP, Column, Table

TAIL = 4


@dataclass(frozen=True, slots=True)
class Fitted:
    """Titles and cells, every one as wide as its column."""

    widths: tuple[int, ...]
    titles: tuple[str, ...]
    rows: tuple[tuple[Text, ...], ...]


def fit(table: Table, width: int) -> Fitted:
    """The table in so many columns of a terminal, with a gap after each column but the last."""
    natural = [
        max(len(column.title), 1, *(cells[place].cell_len for _, cells in table.rows))
        for place, column in enumerate(table.columns)
    ]
    empty = {place for place, column in enumerate(table.columns) if column.drop and _is_empty(table, place)}
    kept = [place for place in range(len(natural)) if place not in empty]
    droppable = sorted(
        (place for place in kept if table.columns[place].drop), key=lambda at: table.columns[at].drop
    )
    while droppable and _least(table.columns, natural, kept) > width:
        kept.remove(droppable.pop())
    widths = {place: natural[place] for place in kept}
    while (excess := sum(widths.values()) + GAP * (len(kept) - 1) - width) > 0:
        shrinkable = [place for place in kept if widths[place] > _floor(table.columns[place], natural[place])]
        if not shrinkable:
            break
        widest = max(shrinkable, key=lambda place: widths[place])
        room = widths[widest] - _floor(table.columns[widest], natural[widest])
        second = max((widths[place] for place in shrinkable if place != widest), default=0)
        is_whole = table.columns[widest].whole
        widths[widest] -= room if is_whole else max(1, min(excess, room, widths[widest] - second))
    return Fitted(
        widths=tuple(widths.values()),
        titles=tuple(
            _padded(Text(table.columns[at].title), widths[at], table.columns[at]).plain for at in kept
        ),
        rows=tuple(
            tuple(_padded(cells[at], widths[at], table.columns[at]) for at in kept) for _, cells in table.rows
        ),
    )


def _floor(column: Column, natural: int) -> int:
    return natural if column.right else min(natural, max(column.least, len(column.title)))


def _least(columns: Sequence[Column], natural: Sequence[int], kept: Sequence[int]) -> int:
    return sum(_floor(columns[at], natural[at]) for at in kept) + GAP * (len(kept) - 1)


def _is_empty(table: Table, place: int) -> bool:
    """Whether a column has nothing to say in any row."""
    return bool(table.rows) and all(cells[place].plain == "-" for _, cells in table.rows)


def _padded(text: Text, width: int, column: Column) -> Text:
    copy = text.copy()
    copy.no_wrap = True
    if column.whole and copy.cell_len > width:
        # Ids that were drawn together begin alike, and others end alike.
        copy = Text.assemble(copy[: width - TAIL - 1], "…", copy[-TAIL:])
    copy.truncate(width, overflow="ellipsis")
    missing = width - copy.cell_len
    if missing > 0 and column.right:
        copy.pad_left(missing)
    elif missing > 0:
        copy.pad_right(missing)
    return copy
