"""The files of the dashboard: complete, small, and without what could turn data into code."""

import re
from pathlib import Path

import holdfast.web

STATIC = Path(holdfast.web.__file__).parent / "static"
SCRIPTS = sorted((STATIC / "js").rglob("*.js"))
LIMIT = 300

_FORBIDDEN = re.compile(
    r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|DOMParser|createContextualFragment|srcdoc|\beval\(|"
    r"new Function|setAttribute\(\"(?:style|on)|https?://(?!www\.w3\.org/2000/svg)"
)


def test_nothing_turns_text_into_markup() -> None:
    found = {
        f"{script.name}: {match[0]}"
        for script in SCRIPTS
        for match in _FORBIDDEN.finditer(script.read_text("utf-8"))
    }
    assert found == set()


def test_page_has_nothing_inline_and_nothing_from_elsewhere() -> None:
    page = (STATIC / "index.html").read_text("utf-8")
    assert not re.search(
        r"<style|\sstyle=|\son\w+=|<script(?![^>]* src=)|//", page.replace("<!doctype html>", "")
    )
    named = re.findall(r'(?:src|href)="static/([^"]+)"', page)
    assert named
    assert [name for name in named if not (STATIC / name).is_file()] == []


def test_every_import_is_there_and_every_module_is_used() -> None:
    used = {STATIC / "js" / "main.js", STATIC / "js" / "early.js"}
    for script in SCRIPTS:
        for name in re.findall(r'from "(\.[^"]+)"', script.read_text("utf-8")):
            target = (script.parent / name).resolve()
            assert target.is_file(), f"{script.name} imports {name}"
            used.add(target)
    assert set(SCRIPTS) - used == set()


def test_modules_stay_small() -> None:
    long = {script.name for script in SCRIPTS if len(script.read_text("utf-8").splitlines()) > LIMIT}
    assert long == set()
