"""Texts that try to be more than text, and answers of the API that are full of them."""

from collections.abc import Iterator
from typing import Any

MARK = "window.pwned=1"
TEXTS = (
    f"<script>{MARK}</script>",
    f'"><script>{MARK}</script>',
    f"<img src=x onerror={MARK}>",
    f"'><img src=x onerror='{MARK}'>",
    f"<svg onload={MARK}>",
    f"<svg><script>{MARK}</script></svg>",
    f"<iframe srcdoc='<script>parent.{MARK}</script>'></iframe>",
    f"<body onload={MARK}>",
    f"<details open ontoggle={MARK}>",
    f"<input autofocus onfocus={MARK}>",
    f"<a href='javascript:{MARK}'>click</a>",
    f"javascript:{MARK}",
    f"data:text/html,<script>{MARK}</script>",
    "<style>*{display:none}</style>",
    "<link rel=stylesheet href=//evil.example/x.css>",
    "<meta http-equiv=refresh content='0;url=//evil.example'>",
    "<base href=//evil.example/>",
    "<form action=//evil.example><button>ok</button></form>",
    "<object data=//evil.example></object>",
    f"</title><script>{MARK}</script>",
    f"--><script>{MARK}</script><!--",
    f"]]><script>{MARK}</script>",
    f"${{{MARK}}}",
    f"{{{{constructor.constructor('{MARK}')()}}}}",
    f"`${{{MARK}}}`",
    f"\\u003cscript\\u003e{MARK}\\u003c/script\\u003e",
    f"&lt;script&gt;{MARK}&lt;/script&gt;",
    f"%3Cscript%3E{MARK}%3C/script%3E",
    "%",
    "%00%ff",
    "../../../etc/passwd",
    "__proto__",
    "constructor",
    "' OR 1=1; DROP TABLE jobs; --",
    "line one\r\nline two\u2028line three",
    "\u202egnp.exe\u202c",
    "\x00\x07\x1b[31mred",
    "Z\u0351\u036b\u0343\u036a\u0342\u036b\u033d\u034f\u0334\u0319\u0324\u031e\u0349\u035aal\u0348go",
    "\ud800 half a pair",
    "wide" * 500,
)
assert len(TEXTS) == 40

_FREE = frozenset({"arguments", "result", "data", "facts"})
_NAMED = frozenset(
    [
        "id",
        "task",
        "queue",
        "key",
        "worker",
        "reason",
        "error",
        "progress_note",
        "limit_key",
        "fair_key",
        "sequence_key",
        "parked",
        "name",
        "owner",
        "topic",
        "type",
        "aggregate",
        "group",
        "event",
        "host",
        "version",
        "namespace",
        "user",
        "store",
        "sentence",
        "partition",
        "misfire",
        "overlap",
        "expression",
        "tz",
        "message",
        "waits_for",
        "on_failure",
        "term",
        "token",
        "job",
    ]
)
_LISTS = frozenset({"tags", "queues_served", "tasks", "ids"})


def poisoned(value: Any, text: str, key: str = "") -> Any:
    """The value with the text wherever a text could stand."""
    if key in _FREE:
        return {text: text, "list": [text], "deep": {text: {text: text}}}
    if isinstance(value, dict):
        changed = {name: poisoned(each, text, name) for name, each in value.items()}
        return (
            dict.fromkeys([text], *changed.values()) if key == "by_queue" and len(changed) == 1 else changed
        )
    if isinstance(value, list):
        if key in _LISTS or (value and isinstance(value[0], str) and key == "queues"):
            return [text]
        return [poisoned(each, text, key) for each in value]
    return text if key in _NAMED and (value is None or isinstance(value, str)) else value


def multiplied(answer: Any) -> Any:
    """A list of an answer with one row for each text; other answers as they are."""
    if not isinstance(answer, dict):
        return answer
    return {name: _rows(each) if _is_rows(each) else each for name, each in answer.items()}


def _is_rows(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and isinstance(value[0], dict) and "at" not in value[0]


def _rows(rows: list[Any]) -> list[Any]:
    return list(_each(rows[0]))


def _each(row: Any) -> Iterator[Any]:
    for at, text in enumerate(TEXTS):
        changed = poisoned(row, text)
        # Rows are told apart by these.
        for name in ("id", "name", "event", "run", "task"):
            if name in changed:
                changed[name] = at if isinstance(changed[name], int) else f"{text} {at}"
        yield changed
