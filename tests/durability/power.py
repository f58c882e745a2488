"""Power that fails: what a store finds on the disk afterwards, at many points of a recording."""

import random
import shutil
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

from tests.durability.acknowledged import Acknowledged
from tests.durability.aftermath import Aftermath
from tests.durability.disk import Disk, Loss, fill
from tests.durability.recording import Record
from tests.durability.tally import Tally

ANSWERS = "acknowledged"
"""Lies in the folder that is watched, so that answers are part of the recording."""

Reopen = Callable[[Path, Acknowledged, random.Random], Aftermath]
"""Starts the store on what is left in a folder, and examines it."""


def fail_often(
    place: Path,
    records: Sequence[Record],
    points: int,
    seed: int,
    reopen: Reopen,
    *,
    disk: Disk,
    losses: Sequence[Loss] = tuple(Loss),
) -> Tally:
    """Lets the power fail at so many points of a recording, and examines each time what is left."""
    draw = random.Random(seed)
    wanted = choose(records, points, draw)
    known, tally = Acknowledged(), Tally()
    for position, each in enumerate(records):
        if each.name != ANSWERS:
            disk.take(each)
        elif each.kind == "w":
            known.read(each.data.decode())
        for _ in range(wanted[position]):
            loss = draw.choice(losses)
            image = place / "image"
            image.mkdir()
            fill(image, disk.remains(loss, draw))
            tally.count(known, reopen(image, known, draw), f"seed {seed}, record {position}, {loss}")
            shutil.rmtree(image)
    return tally


def choose(records: Sequence[Record], points: int, draw: random.Random) -> Counter[int]:
    """Half of the points anywhere, half right after an answer was given."""
    answers = [position for position, each in enumerate(records) if each.name == ANSWERS]
    half = points // 2
    return Counter([*draw.choices(range(len(records)), k=points - half), *draw.choices(answers, k=half)])
