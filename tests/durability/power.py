"""Power that fails while a SQLite file is written to: what is left, at many points of a recording."""

import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from tests.durability.acknowledged import SETTING, Acknowledged
from tests.durability.disk import Disk, Loss, fill
from tests.durability.options import Options
from tests.durability.reboot import reopen
from tests.durability.recording import Record, Recorder
from tests.durability.tally import Line, Tally

ROOT = Path(__file__).resolve().parents[2]
FILE = "jobs.db"
LOG = f"{FILE}-wal"
INDEX = f"{FILE}-shm"
ANSWERS = "acknowledged"
_PATIENCE = 120


def record(place: Path, jobs: int, synchronous: str) -> list[Record]:
    """All that happens to the files while jobs are added and done, twice: to a good end, and to a kill."""
    folder = (place / synchronous).resolve()
    folder.mkdir(parents=True)
    recorder = Recorder(place, folder)
    environ = {
        **{name: value for name, value in os.environ.items() if not name.startswith("HOLDFAST_")},
        **recorder.environ,
        SETTING: str(folder / ANSWERS),
        "HOLDFAST_STORE": f"sqlite:///{folder / FILE}?synchronous={synchronous}",
        "PYTHONPATH": str(ROOT),
    }
    for ending in (signal.SIGTERM, signal.SIGKILL):
        run_under_load(environ, jobs, ending)
    records = list(recorder.records())
    check_complete(records, folder)
    return records


def run_under_load(environ: dict[str, str], jobs: int, ending: signal.Signals) -> None:
    """A producer until it has added all, beside a worker that is then ended."""
    program = [sys.executable, "-m", "tests.durability.program"]
    with subprocess.Popen([*program, "work"], env=environ) as worker:
        try:
            subprocess.run([*program, "produce", str(jobs)], env=environ, check=True, timeout=_PATIENCE)
        finally:
            worker.send_signal(ending)


def check_complete(records: Sequence[Record], folder: Path) -> None:
    """Done again, the recording gives the very files that are there: nothing was overlooked."""
    disk = Disk()
    for each in records:
        disk.take(each)
    for name in (FILE, LOG):
        assert disk.content(name) == (folder / name).read_bytes(), f"{name} was written to by unseen hands"


def fail_often(
    place: Path, records: Sequence[Record], points: int, seed: int, *, honest: bool = True
) -> Tally:
    """Lets the power fail at so many points of a recording, and examines each time what is left."""
    draw = random.Random(seed)
    wanted = choose(records, points, draw)
    disk, known, tally = Disk(honest=honest), Acknowledged(), Tally()
    for position, each in enumerate(records):
        if each.name != ANSWERS:
            disk.take(each)
        elif each.kind == "w":
            known.read(each.data.decode())
        for _ in range(wanted[position]):
            loss = draw.choice(list(Loss))
            image = place / "image"
            fill(image, {**disk.remains(loss, draw), **old_index(draw)})
            tally.count(known, reopen(image / FILE, known), f"seed {seed}, record {position}, {loss}")
            shutil.rmtree(image)
    return tally


def choose(records: Sequence[Record], points: int, draw: random.Random) -> Counter[int]:
    """Half of the points anywhere, half right after an answer was given."""
    answers = [position for position, each in enumerate(records) if each.name == ANSWERS]
    half = points // 2
    return Counter([*draw.choices(range(len(records)), k=points - half), *draw.choices(answers, k=half)])


def old_index(draw: random.Random) -> dict[str, bytes]:
    """The index of the log is written through memory, so anything may be left of it."""
    left = draw.choice((None, bytes(32_768), draw.randbytes(32_768)))
    return {} if left is None else {INDEX: left}


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
            found = fail_often(Path(name), records, options.points, options.seed, honest=honest)
        fault = "power is lost" if honest else "power is lost, and the disk ignored flushes"
        yield Line(f"SQLite, synchronous={synchronous}", fault, found, synchronous == "full" and honest)
