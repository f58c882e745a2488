"""The report of a campaign: one JSON file for machines, one HTML file for people that needs nothing else.

It shows what the checker found and decides nothing.
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from holdfast.torture.checker.case import Case
from holdfast.torture.checker.judging import Judgement
from holdfast.torture.report.document import as_document
from holdfast.torture.report.page import as_page

__all__ = ["write_report"]


def write_report(out: Path, case: Case, judgement: Judgement) -> None:
    """Writes `report.json` and `report.html` into the folder of the campaign."""
    document = as_document(case, judgement)
    text = msgspec.json.format(msgspec.json.encode(document), indent=1)
    (out / "report.json").write_bytes(text + b"\n")
    (out / "report.html").write_text(as_page(document, case), encoding="utf-8")
