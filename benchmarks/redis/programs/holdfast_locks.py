"""Locks of Holdfast: waited for in line, renewed while held."""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager

from benchmarks.redis.programs.locking import run_async
from holdfast import Holdfast


async def make(url: str) -> Callable[[str], AbstractAsyncContextManager[object]]:
    app = Holdfast(url, log_level="error")
    await app.__aenter__()
    return app.lock


if __name__ == "__main__":
    run_async(make)
