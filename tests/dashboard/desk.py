"""A browser and an event loop, each on a thread of its own.

Playwright leaves a running event loop on the thread that drives it, on which no `async def` test could run.
"""

import asyncio
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

from playwright.sync_api import Browser, sync_playwright

T = TypeVar("T")

_FLAGS = (
    "--no-sandbox",  # the tests may run as root, and show only pages of their own
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
)


class Desk:
    """Drives the browser: whatever touches it is run on one thread."""

    def __init__(self, program: Path, environ: dict[str, str]) -> None:
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="browser")
        self._driver = self.run(lambda: sync_playwright().start())
        self.browser: Browser = self.run(
            lambda: self._driver.chromium.launch(
                executable_path=program, args=list(_FLAGS), env=None if not environ else {**environ}
            )
        )

    def run(self, work: Callable[[], T]) -> T:
        return self._thread.submit(work).result()

    def close(self) -> None:
        self.run(self.browser.close)
        self.run(self._driver.stop)
        self._thread.shutdown()


class Loop:
    """An event loop on a thread, for the server and the store."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self.loop.run_forever, name="site")
        self._thread.start()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(30)

    def close(self) -> None:
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join()
        self.loop.close()
