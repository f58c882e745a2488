"""An application with something to see, and its display on a terminal that is only in memory."""

import asyncio
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from uuid import uuid4

from textual.pilot import Pilot
from textual.widgets import Input

from holdfast import Context, Holdfast, Never, every
from holdfast.cli.top.display import Display
from holdfast.cli.top.grid import Grid
from holdfast.cli.top.watcher import Watcher

HOSTILE = "\x1b]0;owned\x07\x1b[2J[bold red]x[/]\r\n\u202edlq\u200b{0}"


class Shop:
    """Tasks that end well, badly, or when they are told."""

    def __init__(self, url: str = "") -> None:
        self.url = url or f"memory://{uuid4()}"
        self.app = app = Holdfast(self.url, namespace=uuid4().hex)
        self.may_end = asyncio.Event()

        @app.task(queue="mail", retry=Never())
        async def send(to: str) -> None:
            if "@" not in to:
                raise ValueError(to)

        @app.task(queue="long")
        async def wait(ctx: Context) -> None:
            ctx.progress(0.5, HOSTILE)
            await self.may_end.wait()

        self.send, self.wait = send, wait

    async def fill(self) -> None:
        """A job done, one dead, one that waits, and a schedule."""
        await self.app.schedules.put("nightly", every(3600), self.send.call("a@example.org"))
        await self.send.enqueue("a@example.org")
        await self.send.enqueue(HOSTILE)
        await self.app.worker().run(until_idle=True)
        await self.send.using(delay=3600).enqueue("late@example.org")

    @asynccontextmanager
    async def shown(
        self, size: tuple[int, int] = (80, 24), interval: float = 0.2, patience: float = 5.0
    ) -> AsyncGenerator["Screen"]:
        own = Holdfast(self.url, namespace=self.app.settings.namespace)
        display = Display(Watcher(own, interval, patience))
        async with display.run_test(size=size) as pilot:
            yield Screen(display, pilot)
        if display.failure is not None:
            raise display.failure


class Screen:
    """What is seen, and the keys."""

    def __init__(self, display: Display, pilot: Pilot[None]) -> None:
        self.display = display
        self._pilot = pilot

    @property
    def text(self) -> str:
        strips = self.display.screen._compositor.render_strips()
        return "\n".join("".join(segment.text for segment in strip) for strip in strips)

    async def until(self, *parts: str) -> str:
        """Waits until all of these are seen; then all that is seen."""
        return await self.holds(lambda text: all(part in text for part in parts), parts)

    async def without(self, part: str) -> str:
        return await self.holds(lambda text: part not in text, f"no {part}")

    async def holds(self, is_so: Callable[[str], bool], what: object) -> str:
        end = time.monotonic() + 20
        while not is_so(text := self.text):
            assert time.monotonic() < end, f"{what} was not seen, but this:\n{text}"
            await self._pilot.pause(0.02)
        assert "\x1b" not in text
        assert "\x07" not in text
        assert "\u202e" not in text
        return text

    async def press(self, *keys: str) -> None:
        await self._pilot.press(*keys)

    async def find(self, text: str) -> None:
        """Types what to look for."""
        await self.press("slash")
        self.display.screen.query_one(Input).value = text
        await self.press("enter")

    async def resize(self, width: int, height: int) -> None:
        await self._pilot.resize_terminal(width, height)

    def choose(self, table: str, row: str) -> None:
        """Selects the row of that key."""
        grid = self.display.query_one(f"#{table}", Grid)
        grid.focus()
        grid.move_cursor(row=list(grid._keys).index(row))
