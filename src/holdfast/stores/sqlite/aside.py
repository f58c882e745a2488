"""Short blocking work beside the event loop."""

import asyncio
from collections.abc import Callable
from threading import Thread
from typing import TypeVar

T = TypeVar("T")


async def aside(work: Callable[[], T]) -> T:
    """What the work gives, done on a thread of its own.

    Not on the loop's executor: that is gone when the interpreter ends, and a file must be let go even then.
    From Python 3.12 on no thread can be started then either: the work is done here, and the loop waits.
    """
    loop = asyncio.get_running_loop()
    done: asyncio.Future[T] = loop.create_future()

    def settle(result: T | None, error: BaseException | None) -> None:
        if done.cancelled():
            return
        if error is not None:
            done.set_exception(error)
        else:
            done.set_result(result)  # type: ignore[arg-type]  # without an error there is a result

    def run() -> None:
        try:
            result = work()
        except BaseException as error:  # noqa: BLE001  handed to the one who waits
            loop.call_soon_threadsafe(settle, None, error)
        else:
            loop.call_soon_threadsafe(settle, result, None)

    try:
        Thread(target=run, name="holdfast-aside", daemon=True).start()
    except RuntimeError:
        return work()
    return await done
