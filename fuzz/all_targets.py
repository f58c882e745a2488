"""All targets, by their names."""

from __future__ import annotations

from itertools import chain

from fuzz import asked, given, stored
from fuzz.target import Target

TARGETS: dict[str, Target] = {
    target.name: target for target in chain(given.targets, stored.targets, asked.targets)
}
