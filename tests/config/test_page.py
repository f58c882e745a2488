import re
from pathlib import Path

import msgspec

from holdfast.model.settings import Settings

PAGE = Path(__file__).resolve().parents[2] / "docs" / "configuration.md"
ROW = re.compile(r"^\| `(?P<name>\w+)` \| (?P<default>[^|]+) \|", re.MULTILINE)


def test_the_page_lists_every_setting_with_its_default() -> None:
    rows = {row["name"]: row["default"].strip() for row in ROW.finditer(PAGE.read_text(encoding="utf-8"))}
    fields = {field.name: field.default for field in msgspec.structs.fields(Settings)}
    assert list(rows) == list(fields)
    for name, default in fields.items():
        if default is not None:
            shown = f"{default:g}" if isinstance(default, float) else str(default)
            assert rows[name].startswith(f"`{shown}`"), name
