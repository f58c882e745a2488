import re
from pathlib import Path

from holdfast.model.lifecycle import FINISHED, LEASED, TRANSITIONS, WAITING, Ending, State
from tests.docs.page import ROOT

PAGE = ROOT / "docs/states.md"
ARROW = re.compile(r"^\s+(?P<before>\S+) --> (?P<after>\S+)(?: : .+)?$", re.MULTILINE)
ROW = re.compile(r"^\| `(?P<name>\w+)` \|", re.MULTILINE)


def drawn(page: Path) -> list[tuple[str, str]]:
    diagram = page.read_text().partition("stateDiagram-v2")[2].partition("```")[0]
    assert diagram.count("-->") == len(ARROW.findall(diagram)), "an arrow of the picture cannot be read"
    return ARROW.findall(diagram)


def test_the_picture_shows_every_transition_and_no_other() -> None:
    arrows = [arrow for arrow in drawn(PAGE) if "[*]" not in arrow]
    assert len(arrows) == len(set(arrows)), "an arrow is drawn twice"
    assert set(arrows) == {(before, after) for before, nexts in TRANSITIONS.items() for after in nexts}


def test_the_picture_begins_with_enqueue_and_ends_where_nothing_follows() -> None:
    ends = {arrow for arrow in drawn(PAGE) if "[*]" in arrow}
    assert ends == {
        ("[*]", State.SCHEDULED),
        *((state, "[*]") for state, nexts in TRANSITIONS.items() if not nexts),
    }


def test_the_page_explains_every_state_and_every_outcome() -> None:
    rows = ROW.findall(PAGE.read_text())
    assert rows[: len(State)] == sorted(State, key=rows.index)
    assert rows[len(State) :] == sorted(Ending, key=rows[len(State) :].index)


def test_the_page_groups_the_states_as_the_code_does() -> None:
    assert {State.SCHEDULED, State.RETRY} == WAITING
    assert {State.CLAIMED, State.RUNNING} == LEASED
    assert len(FINISHED) == 4
    assert "`scheduled` and `retry` are waiting, `claimed` and `running` are leased" in PAGE.read_text()
