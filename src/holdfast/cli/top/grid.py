"""A table on the screen: fitted to its width, with one row selected that stays selected when rows move."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from rich.text import Text
from textual.binding import Binding, BindingType
from textual.events import Resize
from textual.widgets import DataTable

from holdfast.cli.output import cell
from holdfast.cli.top.fitting import Fitted, fit
from holdfast.cli.top.picture import Part
from holdfast.cli.top.tables import GAP, Table

TITLES = {Part.RUNNING: "running jobs"}


class Grid(DataTable[Text]):
    """Rows of one part of the picture."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("left", "app.step(-1)", show=False),
        Binding("right", "app.step(1)", show=False),
        Binding("k", "cursor_up", show=False),
        Binding("j", "cursor_down", show=False),
        Binding("g", "scroll_top", show=False),
        Binding("G", "scroll_bottom", show=False),
    ]

    def __init__(self, part: Part, *, id: str) -> None:
        super().__init__(id=id, cursor_type="row", zebra_stripes=False, cell_padding=0)
        self.part = part
        self.heading = TITLES.get(part, part.value)
        self._table: Table | None = None
        self._fitted: Fitted | None = None
        self._keys: Sequence[str] = ()

    @property
    def chosen(self) -> str | None:
        """The key of the selected row."""
        return self._keys[self.cursor_row] if 0 <= self.cursor_row < len(self._keys) else None

    def show(self, table: Table) -> None:
        """Shows these rows instead; the selected one stays so, wherever it has gone."""
        self._table = table
        self._lay_out()

    def on_resize(self, event: Resize) -> None:
        self._lay_out()

    def _lay_out(self) -> None:
        width = self.scrollable_content_region.width
        if self._table is None or not width:
            return
        # Two columns are left for the scroll bar, so that rows need not be laid out anew when it comes.
        fitted = fit(self._table, width - 2)
        chosen, place = self.chosen, self.cursor_row
        before, self._fitted = self._fitted, fitted
        self._keys = [key for key, _ in self._table.rows]
        if before is None or (before.widths, before.titles) != (fitted.widths, fitted.titles):
            offset = self.scroll_y
            self.clear(columns=True)
            for title, each in zip(fitted.titles, fitted.widths, strict=True):
                self.add_column(Text(title), width=each + GAP)
            for row in fitted.rows:
                self.add_row(*row)
            self.scroll_to(y=offset, animate=False)
        else:
            self._update(before.rows, fitted.rows)
        if chosen in self._keys:
            place = self._keys.index(chosen)
        self.move_cursor(
            row=min(place, max(0, len(self._keys) - 1)), animate=False, scroll=chosen is not None
        )
        said = self.heading if self._table.rows else f"{self.heading}: {self._table.nothing}"
        self.border_title = cell(f" {said} ").markup

    def _update(self, before: Sequence[Sequence[Text]], after: Sequence[Sequence[Text]]) -> None:
        for row, (olds, news) in enumerate(zip(before, after, strict=False)):
            for column, (old, new) in enumerate(zip(olds, news, strict=True)):
                if old != new or old.style != new.style:
                    self.update_cell_at((row, column), new)  # type: ignore[arg-type]
        for added in after[len(before) :]:
            self.add_row(*added)
        for _ in before[len(after) :]:
            self.remove_row(self.ordered_rows[-1].key)
