"""The screen: views, keys, and what is asked before something is done."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import ClassVar

from rich.text import Text
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Container
from textual.widgets import ContentSwitcher, Static

from holdfast.cli.access import resolve
from holdfast.cli.errors import Failure, WrongUse
from holdfast.cli.output import cell
from holdfast.cli.top import deeds, lines
from holdfast.cli.top.dialogs import Help, Line, Question
from holdfast.cli.top.grid import Grid
from holdfast.cli.top.job_page import JobPage
from holdfast.cli.top.picture import Part, Picture
from holdfast.cli.top.search import EVERYTHING, Search, is_id_start, parse
from holdfast.cli.top.tables import TABLES
from holdfast.cli.top.watcher import SHOWN, Watcher
from holdfast.model.errors import HoldfastError

PATIENCE = 15.0
"""So many seconds may a deed take before it is given up as unknown."""
SHOWN_FOR = 8.0
OVERVIEW = (Part.QUEUES, Part.WORKERS, Part.RUNNING, Part.DEAD, Part.SCHEDULES)


@dataclass(frozen=True, slots=True)
class View:
    """What is shown at once, and what must be asked for it."""

    name: str
    parts: tuple[Part, ...]
    asks: frozenset[Part]


VIEWS = (
    View("overview", OVERVIEW, frozenset(OVERVIEW)),
    View("queues", (Part.QUEUES,), frozenset()),
    View("jobs", (Part.JOBS,), frozenset({Part.JOBS})),
    View("workers", (Part.WORKERS,), frozenset({Part.RUNNING})),
    View("schedules", (Part.SCHEDULES,), frozenset({Part.SCHEDULES})),
    View("dlq", (Part.DEAD,), frozenset({Part.DEAD})),
    View("locks", (Part.LOCKS,), frozenset({Part.LOCKS})),
)


class Display(App[None]):
    """Shows what the watcher tells. `failure` is what ended it, if something did."""

    CSS_PATH = "display.tcss"
    TITLE = "holdfast"
    ENABLE_COMMAND_PALETTE = False
    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (120, "-wide")]  # noqa: RUF012  as Textual declares them
    VERTICAL_BREAKPOINTS = [(0, "-short"), (40, "-tall")]  # noqa: RUF012
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("q", "leave"),
        Binding("ctrl+c", "leave", priority=True),
        Binding("ctrl+z", "suspend_process"),
        Binding("question_mark", "help"),
        Binding("slash", "find"),
        Binding("u", "look"),
        Binding("f", "group"),
        Binding("less_than_sign", "page(-1)"),
        Binding("greater_than_sign", "page(1)"),
        Binding("escape", "retreat"),
        *(Binding(str(place + 1), f"view('{view.name}')") for place, view in enumerate(VIEWS)),
        *(Binding(key, f"deed('{key}')") for key in "pcrxRX"),
    ]

    def __init__(self, watcher: Watcher) -> None:
        super().__init__(ansi_color=True)
        self.watcher = watcher
        self.failure: Exception | None = None
        self.view = VIEWS[0]
        self._watching: asyncio.Task[None] | None = None

    def compose(self) -> ComposeResult:
        yield Static(id="head")
        yield Static(id="views")
        yield Static(id="troubles")
        yield Static(id="totals")
        with ContentSwitcher(id="body", initial="overview"):
            with Container(id="overview"):
                for part in OVERVIEW:
                    yield Grid(part, id=f"overview-{part.name.lower()}")
            for view in VIEWS[1:]:
                yield Grid(view.parts[0], id=view.name)
        yield Static(id="message")
        yield Static(id="keys")

    def on_mount(self) -> None:
        self.theme = "ansi-dark"
        self._tell("")
        self.action_view("overview")
        self._show(self.watcher.picture)
        self._watching = asyncio.create_task(self._watch())

    async def on_unmount(self) -> None:
        if self._watching is not None:
            self._watching.cancel()
            await asyncio.wait([self._watching])

    async def _watch(self) -> None:
        try:
            await self.watcher.run(self._show)
        except Exception as error:  # noqa: BLE001  the command tells it, once the terminal is as it was
            self._end(error)

    def _fatal_error(self) -> None:
        """Instead of a traceback with the values of all variables, in which secrets could be."""
        error = self._exception
        self._end(error if isinstance(error, Exception) else RuntimeError("the display failed"))
        self._close_messages_no_wait()

    def _end(self, error: Exception) -> None:
        self.failure = self.failure or error
        self.exit()

    @property
    def grid(self) -> Grid | None:
        """The table that has the focus."""
        focused = self.screen_stack[0].focused
        return focused if isinstance(focused, Grid) else None

    def _show(self, picture: Picture) -> None:
        screen = self.screen_stack[0]
        if not screen.query("#keys"):
            return  # it is being taken down

        def put(id: str, *texts: Text) -> None:
            widget = screen.query_one(f"#{id}", Static)
            widget.update(Text("\n").join(texts))
            widget.display = bool(texts)

        with self.batch_update():
            put("head", lines.head(picture))
            put("troubles", *lines.troubles(picture))
            put("totals", *lines.totals(picture))
            screen.query_one("#jobs", Grid).heading = self._jobs_heading(picture)
            for grid in screen.query(Grid):
                if grid.part in self.view.parts:
                    grid.show(TABLES[grid.part](picture))

    def _jobs_heading(self, picture: Picture) -> str:
        search = self.watcher.search
        page = f", page {len(search.cursors) + 1}" if search.cursors or picture.more_jobs else ""
        return f"jobs: {search}{page}"

    def _tell(self, message: str, style: str = "") -> None:
        for screen in self.screen_stack:
            for widget in screen.query("#message").results(Static):
                widget.update(cell(message, style))
                widget.display = bool(message)
        if message:
            self.set_timer(SHOWN_FOR, lambda: self._tell_no_more(message))

    def _tell_no_more(self, message: str) -> None:
        shown = self.screen_stack[0].query_one("#message", Static)
        if str(shown.content) == cell(message).plain:
            self._tell("")

    def on_descendant_focus(self) -> None:
        self._show_keys()

    def _show_keys(self) -> None:
        names = (f" {place + 1} {view.name} " for place, view in enumerate(VIEWS))
        styles = ("reverse" if view is self.view else "" for view in VIEWS)
        screen = self.screen_stack[0]
        tabs = Text(" ").join(Text(name, style) for name, style in zip(names, styles, strict=True))
        screen.query_one("#views", Static).update(tabs)
        offers = {} if self.grid is None else deeds.KEYS[self.grid.part]
        if self.view.name == "overview":
            offers = {"tab": "next table", **offers}
        hints = {**offers, "/": "find", "?": "help", "q": "quit"}
        shown = Text("   ").join(Text.assemble((key, "bold"), f" {what}") for key, what in hints.items())
        screen.query_one("#keys", Static).update(shown)

    def action_view(self, name: str) -> None:
        self.view = next(view for view in VIEWS if view.name == name)
        self.watcher.wanted = self.view.asks
        self.query_one("#body", ContentSwitcher).current = name
        grid = f"overview-{Part.QUEUES.name.lower()}" if name == "overview" else name
        self.query_one(f"#{grid}", Grid).focus()
        self._show_keys()
        self._show(self.watcher.picture)
        self.watcher.poke()

    def action_step(self, by: int) -> None:
        self.action_view(VIEWS[(VIEWS.index(self.view) + by) % len(VIEWS)].name)

    def action_retreat(self) -> None:
        if self.view.name == "jobs" and self.watcher.search != EVERYTHING:
            self._search(EVERYTHING)
        else:
            self.action_view("overview")

    def action_leave(self) -> None:
        self.exit()

    def action_help(self) -> None:
        self.push_screen(Help())

    def action_look(self) -> None:
        self.watcher.poke()

    def _search(self, search: Search) -> None:
        self.watcher.search = search
        self.action_view("jobs")

    def action_group(self) -> None:
        if self.view.name == "jobs":
            self._search(self.watcher.search.next_group())

    def action_page(self, by: int) -> None:
        picture, search = self.watcher.picture, self.watcher.search
        if self.view.name != "jobs":
            return
        if by < 0 and search.cursors:
            self._search(search.page_before())
        elif by > 0 and picture.more_jobs and len(picture.jobs) == SHOWN:
            self._search(search.next_page(picture.jobs[-1].id))

    def action_find(self) -> None:
        def found(text: str | None) -> None:
            if text:
                self.run_worker(self._find(text))
            elif text is not None:
                self._search(EVERYTHING)

        search = self.watcher.search
        value = "" if search == EVERYTHING else str(search)
        self.push_screen(
            Line("find: the start of an id; or queue:… task:… tag:… worker:… and a state", value), found
        )

    async def _find(self, text: str) -> None:
        try:
            if is_id_start(text):
                async with asyncio.timeout(PATIENCE):
                    self._open((await resolve(self.watcher.app, text)).id)
            else:
                self._search(parse(text))
        except (HoldfastError, Failure, WrongUse) as error:
            self._tell(str(error), "red")
        except TimeoutError:
            self._tell("the store does not answer", "red")

    def _open(self, job_id: str) -> None:
        if isinstance(self.screen, JobPage):
            self.pop_screen()
        self.push_screen(JobPage(self.watcher, job_id))

    def on_data_table_row_selected(self) -> None:
        grid = self.grid
        if grid is None or grid.chosen is None:
            return
        match grid.part:
            case Part.QUEUES:
                self._search(Search(queue=grid.chosen))
            case Part.WORKERS:
                self._search(Search(worker=grid.chosen))
            case Part.SCHEDULES:
                fired = next(
                    (each.job for each in self.watcher.picture.schedules if each.name == grid.chosen), None
                )
                if fired is None:
                    self._tell("It has fired no job yet.")
                else:
                    self._open(fired)
            case Part.LOCKS | Part.LEADERS:
                pass
            case _:
                self._open(grid.chosen)

    def action_deed(self, key: str) -> None:
        if isinstance(self.screen, JobPage):
            deed = self.screen.offered(key)
        else:
            grid = self.grid
            chosen = None if grid is None else grid.chosen
            if grid is None or chosen is None:
                return
            deed = deeds.offered(key, grid.part, chosen, self.watcher.picture)
        if deed is not None:
            self.push_screen(Question(deed), lambda yes: self._answered(deed, yes))

    def _answered(self, deed: deeds.Deed, yes: bool | None) -> None:
        if yes:
            self.run_worker(self._do(deed))

    async def _do(self, deed: deeds.Deed) -> None:
        try:
            async with asyncio.timeout(PATIENCE):
                message = await deed.do(self.watcher.app)
        except HoldfastError as error:
            self._tell(str(error), "bold red")
        except TimeoutError:
            self._tell("no answer from the store: it may or may not be done", "bold red")
        else:
            self._tell(message, "green")
        self.watcher.poke()
        if isinstance(self.screen, JobPage):
            self.screen.look()
