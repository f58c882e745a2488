"""How much is measured."""

from typing import NamedTuple


class Options(NamedTuple):
    """Power fails at so many `points` of SQLite, to which `jobs` are added; `trials` are of servers."""

    points: int = 1_000
    jobs: int = 600
    trials: int = 10
    seed: int = 1
