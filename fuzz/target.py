"""One parser under attack."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

from holdfast.model.errors import HoldfastError


class Target(NamedTuple):
    """`attack` gives the parser some bytes, and raises if what must hold does not.

    `seeds` are what it is meant to be given: a fuzzer begins with them.
    """

    name: str
    attack: Callable[[bytes], None]
    seeds: tuple[bytes, ...]


class Targets:
    """The targets of one kind, in the order in which they are declared."""

    def __init__(self) -> None:
        self._targets: list[Target] = []

    def __iter__(self) -> Iterator[Target]:
        return iter(self._targets)

    def add(self, *seeds: bytes | str) -> Callable[[Callable[[bytes], None]], Callable[[bytes], None]]:
        given = tuple(seed.encode() if isinstance(seed, str) else seed for seed in seeds)

        def declare(attack: Callable[[bytes], None]) -> Callable[[bytes], None]:
            self._targets.append(Target(attack.__name__, attack, given))
            return attack

        return declare


@contextmanager
def refusals(*more: type[Exception]) -> Iterator[None]:
    """Errors of ours are fine, and those that a function says it raises; their text can be shown."""
    fine: tuple[type[Exception], ...] = (HoldfastError, *more)
    try:
        yield
    except fine as error:
        str(error).encode("utf-8", "backslashreplace")


def text_of(data: bytes) -> str:
    """The bytes as text, as a command line would give it: what is no UTF-8 becomes lone surrogates."""
    return data.decode("utf-8", "surrogateescape")
