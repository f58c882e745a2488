"""SIGTERM and SIGINT for the workers of this process."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any

CAUGHT = (signal.SIGTERM, signal.SIGINT)

Listener = Callable[[signal.Signals], None]
_listeners: list[Listener] = []
_before: list[tuple[signal.Signals, Any]] = []
_forking = threading.local()


@contextmanager
def listening(listener: Listener) -> Generator[None]:
    """Calls the listener on the running loop for each signal, as every other one that is listening.

    On another thread than the main one, where no signal arrives, it does nothing. What handled the signals
    before does so again when the last listener has gone.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    loop = asyncio.get_running_loop()
    if not _listeners:
        for number in CAUGHT:
            _before.append((number, signal.getsignal(number)))
            loop.add_signal_handler(number, _tell, number)
    _listeners.append(listener)
    try:
        yield
    finally:
        _listeners.remove(listener)
        while not _listeners and _before:
            number, handler = _before.pop()
            loop.remove_signal_handler(number)
            signal.signal(number, signal.SIG_DFL if handler is None else handler)


def _tell(number: signal.Signals) -> None:
    for listener in tuple(_listeners):
        listener(number)


# A fork of this process has its signals to itself: what is sent to it must not be heard by the event loop of
# this one, through the pipe that both have, and it must end the fork. None may come before that is arranged.


def _hold_back() -> None:
    _forking.mask = signal.pthread_sigmask(signal.SIG_BLOCK, CAUGHT) if _before else None


def _let_in() -> None:
    if _forking.mask is not None:
        signal.pthread_sigmask(signal.SIG_SETMASK, _forking.mask)


def _forget() -> None:
    if _before:
        signal.set_wakeup_fd(-1)
        for number, _ in _before:
            signal.signal(number, signal.SIG_DFL)
        _before.clear()
        _listeners.clear()
    _let_in()


os.register_at_fork(before=_hold_back, after_in_parent=_let_in, after_in_child=_forget)
