"""Every model, as it is and weakened: what must hold does, and every weaker guard is refuted."""

import os
from collections import Counter

import pytest

from proofs.cases import CASES, Case
from proofs.spin import FOLDER, SpinFailed, search
from tests.servers.spin import find_spin


@pytest.fixture(autouse=True)
def _spin(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", f"{find_spin().parent}{os.pathsep}{os.environ['PATH']}")


def _name(case: Case) -> str:
    return "-".join((case.model, *case.switches, *(["eventually"] if case.eventually else [])))


@pytest.mark.timeout(300)
@pytest.mark.parametrize("case", CASES, ids=_name)
def test_a_model_holds_as_it_is_and_is_refuted_when_it_is_weakened(case: Case) -> None:
    found = search(case)
    if case.must_hold:
        assert found.violated is None
        assert found.states > 300, "the search went somewhere"
    else:
        assert found.violated is not None
        assert "assertion violated" in found.violated, "a promise was broken, not the search"


def test_each_model_has_a_case_that_holds_and_weaker_ones() -> None:
    held = Counter(case.model for case in CASES if case.must_hold)
    weaker = Counter(case.model for case in CASES if not case.must_hold)
    assert held.keys() == weaker.keys() == {path.stem for path in FOLDER.glob("*.pml")}


def test_a_model_that_is_not_there_is_told() -> None:
    with pytest.raises(SpinFailed, match="ended with"):
        search(Case("nothing", "there is no such file"))
