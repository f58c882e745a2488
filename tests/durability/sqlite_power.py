"""Power that fails while a SQLite file is written to."""

import random
import signal
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from tests.durability.acknowledged import Acknowledged
from tests.durability.aftermath import Aftermath
from tests.durability.disk import Disk
from tests.durability.load import environ_of, run_under_load
from tests.durability.options import Options
from tests.durability.power import ANSWERS, fail_often
from tests.durability.reboot import HOUR, reopen
from tests.durability.recording import Record, Recorder
from tests.durability.tally import Line, Tally

FILE = "jobs.db"
LOG = f"{FILE}-wal"
INDEX = f"{FILE}-shm"


def record(place: Path, jobs: int, synchronous: str) -> list[Record]:
    """All that happens to the files while jobs are added and done, twice: to a good end, and to a kill."""
    folder = (place / synchronous).resolve()
    folder.mkdir(parents=True)
    recorder = Recorder(place, folder)
    url = f"sqlite:///{folder / FILE}?synchronous={synchronous}"
    environ = environ_of(url, folder / ANSWERS, recorder)
    for ending in (signal.SIGTERM, signal.SIGKILL):
        run_under_load(environ, jobs, ending)
    records = list(recorder.records())
    check_complete(records, folder)
    return records


def check_complete(records: Sequence[Record], folder: Path) -> None:
    """Done again, the recording gives the very files that are there: nothing was overlooked."""
    disk = Disk()
    for each in records:
        disk.take(each)
    for name in (FILE, LOG):
        assert disk.content(name) == (folder / name).read_bytes(), f"{name} was written to by unseen hands"


def lose_power(
    place: Path,
    records: Sequence[Record],
    points: int,
    seed: int,
    *,
    honest: bool = True,
    behind: float = HOUR,
) -> Tally:
    """What is left at so many points, for a machine whose clock is then so many seconds behind."""

    def reopen_image(image: Path, known: Acknowledged, draw: random.Random) -> Aftermath:
        # The index of the log is written through memory, so anything may be left of it.
        index = draw.choice((None, bytes(32_768), draw.randbytes(32_768)))
        if index is not None:
            (image / INDEX).write_bytes(index)
        return reopen(image / FILE, known, behind)

    return fail_often(place, records, points, seed, reopen_image, disk=Disk(honest=honest))


def checkpoints(records: Sequence[Record]) -> int:
    """How often the log was brought back into the file: what is synced after it was written to."""
    found, is_written = 0, False
    for each in records:
        if each.name == FILE:
            found += is_written and each.kind == "s"
            is_written = each.kind == "w" or (is_written and each.kind != "s")
    return found


def measure(options: Options) -> Iterator[Line]:
    """The choices that people have, and a disk that says of every flush that it is done at once."""
    for synchronous, honest in (("full", True), ("normal", True), ("full", False)):
        with tempfile.TemporaryDirectory(prefix="holdfast-durability-") as name:
            records = record(Path(name), options.jobs, synchronous)
            # What was lost may be the last instant that was seen: only a clock that is right is after it.
            behind = 0 if synchronous == "normal" else HOUR
            found = lose_power(
                Path(name), records, options.points, options.seed, honest=honest, behind=behind
            )
        fault = "power is lost" if honest else "power is lost, and the disk ignored flushes"
        yield Line(f"SQLite, synchronous={synchronous}", fault, found, synchronous == "full" and honest)
