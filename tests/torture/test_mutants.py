"""Each mutant really lacks its guard, and a sound build has them all."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.torture.mutants.catalogue import MUTANTS
from tests.torture.probes import PROBES, let_through
from tests.torture.sensitivity import MUTANT, ROOT, path_of_mutants


@pytest.mark.parametrize("name", PROBES)
def test_a_sound_build_lets_nothing_through(tmp_path: Path, name: str) -> None:
    assert not let_through(tmp_path, name)


@pytest.mark.process
@pytest.mark.parametrize("name", MUTANTS)
def test_a_mutant_lets_through_what_its_guard_forbids(tmp_path: Path, name: str) -> None:
    environ = {**os.environ, "PYTHONPATH": path_of_mutants(), MUTANT: name}
    command = [sys.executable, "-m", "tests.torture.probes", str(tmp_path), name]
    told = subprocess.run(command, cwd=ROOT, env=environ, capture_output=True, text=True, check=False)

    assert told.stdout == name, told.stderr


def test_there_is_a_mutant_for_each_guard() -> None:
    assert len(MUTANTS) == 12
    assert MUTANTS.keys() == PROBES.keys()
