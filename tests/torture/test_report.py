"""The report: what machines read, and a page that cannot be made to do anything."""

import re
from html.parser import HTMLParser
from pathlib import Path

import msgspec

from holdfast.torture.checker.case import Case
from holdfast.torture.checker.judging import judge
from holdfast.torture.dump import Dump
from holdfast.torture.history import Fault
from holdfast.torture.report import write_report
from holdfast.torture.report.document import Document
from holdfast.torture.report.timeline import draw_up, lane_of
from tests.torture.breaches.attempts import complete_twice
from tests.torture.world import World, make_world

HOSTILE = '"><script>alert(1)</script><img src=x onerror=alert(1)>'


def report(world: World, out: Path, dump: Dump | None = None) -> tuple[Document, str]:
    case = Case(world.history(), dump or world.dump())
    write_report(out, case, judge(case))
    document = msgspec.json.decode((out / "report.json").read_bytes(), type=Document)
    return document, (out / "report.html").read_text()


class Tags(HTMLParser):
    """All tags and attributes of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.names: set[str] = set()
        self.attributes: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.names.add(tag)
        self.attributes |= {name for name, _ in attrs}


def test_a_clean_campaign_is_told_with_its_bound(tmp_path: Path) -> None:
    document, page = report(make_world(1), tmp_path)

    assert document.word == "passed"
    assert "With 95 % confidence fewer than" in document.sentence
    assert "No promise was seen broken" in page
    assert all(f"<td>I{number}</td>" in page for number in range(1, 16))


def test_a_violation_is_told_with_its_evidence(tmp_path: Path) -> None:
    world = make_world(1, jobs=100)
    complete_twice(world)
    document, page = report(world, tmp_path)

    assert document.word == "violated"
    (finding,) = document.rulings[1].findings
    assert "was completed 2 times" in finding.sentence
    assert finding.sentence in page
    assert page.index("Invariants") < page.index("Figures")


def test_names_cannot_become_code(tmp_path: Path) -> None:
    world = make_world(1)
    world.jobs[0].id = world.jobs[0].task = HOSTILE
    world.write("nemesis", 5, Fault(name=HOSTILE, target=HOSTILE, phase="once"))
    dump = world.dump()
    dump.store.kind = dump.commit = HOSTILE
    _, page = report(world, tmp_path, dump)

    tags = Tags(page)
    assert tags.names.isdisjoint({"script", "img", "link", "iframe", "a"})
    assert not {name for name in tags.attributes if name.startswith("on") or name in {"src", "href"}}
    assert not re.search(r"url\(|@import|https?://", page)


def test_faults_and_take_overs_stand_in_the_lanes_of_their_processes() -> None:
    world = make_world(2, jobs=200)
    world.write("nemesis", 1_000_000, Fault(name="crash store", target="store", phase="begin"))
    world.write("nemesis", 3_000_000, Fault(name="crash store", target="store", phase="end"))
    timeline = draw_up(Case(world.history(), world.dump()))

    lanes = {lane.name: lane for lane in timeline.lanes}
    assert timeline.lanes[0].name == "store"
    assert [
        (span.name, span.ended - span.begun) for span in lanes["store"].spans if span.sort == "world"
    ] == [("crash store", 2_000_000)]
    assert {lane_of(each.before) for each in timeline.takeovers} <= lanes.keys()
    assert lane_of("worker-2-5") == "worker-2"
    assert lane_of("nemesis") == "nemesis"
