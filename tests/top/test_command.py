"""The command: on a terminal and without one, once and live, and how it ends."""

import json
import os
import pty
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import pytest

from tests.cli.steering import Shop

TOP = ("-m", "holdfast", "top", "--store", "memory://")
ENTERED, LEFT = b"\x1b[?1049h", b"\x1b[?1049l"


class Terminal:
    """A program on a terminal of its own, and what it wrote."""

    def __init__(self, process: "subprocess.Popen[bytes]", ours: int) -> None:
        self.process = process
        self.shown = b""
        self._ours = ours

    def press(self, keys: bytes) -> None:
        os.write(self._ours, keys)

    def until(self, text: bytes) -> None:
        end = time.monotonic() + 30
        while text not in self.shown:
            assert time.monotonic() < end, self.shown
            self.shown += os.read(self._ours, 65536)

    def ended(self) -> int:
        """The exit code; and all that was shown is known."""
        with suppress(OSError):  # Linux answers so when the last writer has gone
            while part := os.read(self._ours, 65536):
                self.shown += part
        return self.process.wait()


@contextmanager
def terminal(*arguments: str, **environ: str) -> Iterator[Terminal]:
    ours, theirs = pty.openpty()
    own = {name: value for name, value in os.environ.items() if name not in {"NO_COLOR", "COLORTERM"}}
    process = subprocess.Popen(
        [sys.executable, *arguments],
        env={**own, "TERM": "xterm-256color", **environ},
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
    )
    os.close(theirs)
    try:
        yield Terminal(process, ours)
    finally:
        process.kill()
        process.wait()
        os.close(ours)


@pytest.mark.process
def test_a_key_ends_it_and_leaves_the_terminal_as_it_was() -> None:
    with terminal(*TOP) as top:
        top.until(b"answers in")
        top.press(b"\x03")
        assert top.ended() == 0
        assert top.shown.rindex(LEFT) > top.shown.rindex(ENTERED)
        assert b"?1000h" not in top.shown  # the mouse is the terminal's own
        assert any(map(is_colour, styles(top.shown)))


@pytest.mark.process
def test_a_signal_ends_it_and_leaves_the_terminal_as_it_was() -> None:
    with terminal(*TOP) as top:
        top.until(b"answers in")
        top.process.send_signal(signal.SIGTERM)
        assert top.ended() == 128 + signal.SIGTERM
        assert LEFT in top.shown


@pytest.mark.process
def test_no_color_is_honoured() -> None:
    with terminal(*TOP, NO_COLOR="1") as top:
        top.until(b"answers in")
        top.press(b"q")
        assert top.ended() == 0
        used = styles(top.shown)
        assert 7 in used, "what is selected is reversed instead"
        assert not [style for style in used if is_colour(style)]


def styles(shown: bytes) -> set[int]:
    """The numbers of all orders for colours and weights."""
    orders: list[bytes] = re.findall(rb"\x1b\[([\d;]*)m", shown)
    return {int(number) for order in orders for number in order.split(b";") if number}


def is_colour(style: int) -> bool:
    return 30 <= style <= 38 or 40 <= style <= 48 or 90 <= style <= 107


@pytest.mark.process
def test_without_textual_the_extra_is_named() -> None:
    program = (
        f"import sys; sys.modules['textual'] = None; from holdfast.cli.main import main; main({TOP[2:]!r})"
    )
    with terminal("-c", program) as top:
        assert top.ended() == 2
        assert b"pip install 'holdfast[top]'" in top.shown
        assert b"Traceback" not in top.shown


def test_it_needs_a_terminal_unless_once() -> None:
    shop = Shop()
    code, line = shop.refused("top")
    assert (code, line) == (2, "top needs a terminal; --once prints the same as plain text.")
    for options in (["--json"], ["--over", "3"], ["--interval", "0"]):
        assert shop.refused("top", *options)[0] == 2


def test_once_prints_the_whole() -> None:
    shop = Shop()
    shop.do(lambda: shop.work.enqueue(fail=True))
    shop.drain()
    shown = shop.done("top", "--once")
    for part in (
        "1 dead",
        "nobody leads",
        "QUEUES",
        "WORKERS",
        "RUNNING",
        "DEAD LETTERS",
        "SCHEDULES",
        "LOCKS",
    ):
        assert part in shown
    assert "out of paper" in shown


def test_once_gives_a_document() -> None:
    shop = Shop()
    shop.do(lambda: shop.work.enqueue(fail=True))
    shop.drain()
    document = json.loads(shop.done("top", "--once", "--json"))
    assert document["counts"]["failed"] == 1
    assert document["rates"] is None
    (dead,) = document["dead_letters"]
    assert dead["reason"] == "ValueError: out of paper"
    assert [queue["name"] for queue in document["queues"]] == ["default"]


def test_once_tells_a_store_that_is_away() -> None:
    shop = Shop()
    shop.url = "redis://127.0.0.1:1/0"
    code, line = shop.refused("top", "--once")
    assert code == 1
    assert "127.0.0.1:1" in line
