"""The checker accepts what keeps the promises, and refuses every way to break one."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.torture.checker.case import Case
from holdfast.torture.checker.judging import INVARIANTS, Judgement, judge
from holdfast.torture.dump import Dump, Lock
from holdfast.torture.dump import write as write_dump
from holdfast.torture.history import Fault, Recorder, Verdict
from tests.torture.breaches import BREACHES
from tests.torture.breaches.breach import Breach
from tests.torture.world import World, make_world

SEEDS = st.integers(0, 2**32 - 1)


def judged(world: World) -> Judgement:
    return judge(Case(world.history(), world.dump()))


def write(world: World, out: Path) -> None:
    for record in world.history():
        folder = out / "history"
        folder.mkdir(exist_ok=True)
        with (folder / f"{record.who}.jsonl").open("ab") as file:
            file.write(msgspec.json.encode(record) + b"\n")
    write_dump(out, world.dump())


@settings(max_examples=40, deadline=None)
@given(SEEDS)
def test_a_campaign_that_keeps_every_promise_is_accepted(seed: int) -> None:
    judgement = judged(make_world(seed, jobs=60))

    assert judgement.broken == ()


@pytest.mark.parametrize("breach", BREACHES, ids=str)
@settings(max_examples=4, deadline=None)
@given(seed=SEEDS)
def test_every_breach_is_noticed_by_its_invariant(breach: Breach, seed: int) -> None:
    world = make_world(seed, jobs=100)
    breach.do(world)

    assert breach.invariant in judged(world).broken


def slow(dump: Dump) -> None:
    dump.settled_after = dump.limits.settle + 1


def never_settled(dump: Dump) -> None:
    dump.settled_after = None


def held(dump: Dump) -> None:
    dump.locks = [Lock(name="l", token=1)]


def drifted(dump: Dump) -> None:
    dump.stats["success"] += 1


@pytest.mark.parametrize(
    ("invariant", "harm"), [("I12", slow), ("I12", never_settled), ("I13", held), ("I13", drifted)]
)
def test_what_is_left_in_the_store_is_noticed(invariant: str, harm: Callable[[Dump], None]) -> None:
    world = make_world(1)
    dump = world.dump()
    harm(dump)

    assert judge(Case(world.history(), dump)).broken == (invariant,)


@pytest.mark.parametrize(
    "line",
    [
        "worker started with canary-4711",
        "connecting to postgresql://app:hunter2@localhost/jobs",
        "Task exception was never retrieved",
        "Traceback (most recent call last):\n  File x\nValueError: wrong",
        '{"level":"error","error":"Traceback (most recent call last):\\n  File x\\nKeyError: 1\\n"}',
    ],
)
def test_what_no_log_may_show_is_noticed(tmp_path: Path, line: str) -> None:
    world = make_world(1)
    write(world, tmp_path)
    (tmp_path / "logs").mkdir()
    log = tmp_path / "logs" / "worker-1-1.log"
    harmless = (
        "to postgresql://app:***@localhost/jobs\nTraceback (most recent call last):\n  x\nTortureFailure: 1\n"
    )

    log.write_text(harmless)
    assert judge(Case(world.history(), world.dump(), tmp_path)).broken == ()
    log.write_text(f"{harmless}{line}\n")
    judgement = judge(Case(world.history(), world.dump(), tmp_path))

    assert judgement.broken == ("I15",)
    assert "logs/worker-1-1.log:5" in judgement.rulings[14].findings[0].sentence


def test_every_invariant_can_be_broken() -> None:
    shown = {breach.invariant for breach in BREACHES} | {"I12", "I13", "I15"}

    assert shown == {invariant.name for invariant in INVARIANTS}


def test_evidence_is_told_with_file_and_line(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path, "worker-1-1")
    recorder.write(Verdict(job="a", token=1, outcome="released", accepted=False))
    recorder.write(Verdict(job="j", token=7, outcome="success", accepted=True))
    recorder.write(Verdict(job="j", token=8, outcome="success", accepted=True))
    write_dump(tmp_path, World(make_world(1).random).dump())

    program = [sys.executable, "-m", "holdfast.torture.checker", str(tmp_path)]
    told = subprocess.run(program, capture_output=True, text=True, check=False)

    assert told.returncode == 1, told.stderr
    assert "job j was completed 2 times: success by token 7, success by token 8" in told.stdout
    assert "history/worker-1-1.jsonl:2: " in told.stdout


def test_a_clean_campaign_in_which_nothing_happened_is_vacuous(tmp_path: Path) -> None:
    write(World(make_world(1).random), tmp_path)

    program = [sys.executable, "-m", "holdfast.torture.checker", str(tmp_path)]
    told = subprocess.run(program, capture_output=True, text=True, check=False)

    assert told.returncode == 3, told.stdout
    assert "too few take-overs: 0 of 1" in told.stdout


def test_a_folder_that_is_none_is_refused(tmp_path: Path) -> None:
    program = [sys.executable, "-m", "holdfast.torture.checker", str(tmp_path / "none")]
    told = subprocess.run(program, capture_output=True, text=True, check=False)

    assert told.returncode == 2
    assert "cannot be judged" in told.stderr


def test_take_overs_are_timed_from_the_end_of_the_holder() -> None:
    figures = judged(make_world(3, jobs=200)).figures

    assert figures.takeover is not None
    assert 2_000_000 <= figures.takeover.p50 <= figures.takeover.p99 <= figures.takeover.longest < 3_500_000
    assert figures.bound == 3 / figures.jobs


def test_a_floor_may_name_a_fault() -> None:
    world = make_world(1)
    dump = world.dump()
    dump.floors = {"clock jump": 2}
    world.write("nemesis", 1, Fault(name="clock jump", target="worker-1-1", phase="begin"))
    world.write("nemesis", 2, Fault(name="clock jump", target="worker-1-1", phase="end"))

    assert judge(Case(world.history(), dump)).word == "vacuous"
    world.write("nemesis", 3, Fault(name="clock jump", target="worker-1-1", phase="once"))
    assert judge(Case(world.history(), dump)).word == "passed"
