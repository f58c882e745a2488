"""The statements of `sql/`, by name, for one table prefix."""

import re
from functools import lru_cache
from importlib.resources import files
from typing import NamedTuple

from holdfast.stores.sqlite.columns import FLOW, PARTS, PLAIN_PARTS, STATEMENTS, flow_array

PREFIX = "holdfast_"
_FILES = ("add", "tick", "extend", "read", "change", "fleet", "lock", "schedule", "event", "flow", "gate")
_NAME = re.compile(r"^-- name: (\w+)$", re.MULTILINE)
_COMMENT = re.compile(r"^ *--.*\n", re.MULTILINE)
_PARAMETER = re.compile(r":([a-z]\w*)")
_WITHOUT_FLOW = {"{flow_columns}": "", "{flow_values}": "", "{flow}": ""}
_WITH_FLOW = {
    "{flow_columns}": "".join(f", {name}" for name in ("rank", *FLOW)),
    "{flow_values}": "".join(f", j.{name}" for name in ("rank", *FLOW)),
    "{flow}": f", {flow_array('NULL')}",
    "{unless_flow}": "",
}


class Statement(NamedTuple):
    """SQL with a question mark for each parameter, and their names in that order.

    Python gives up the interpreter for each parameter that it has to look up by name, and some versions of it
    take numbered ones for named.
    """

    sql: str
    names: tuple[str, ...]


class Statements:
    """Every statement, its tables under the prefix.

    One that gives jobs is there twice: `name` gives all in one row, `name:plain` a row for each. Those on the
    way of every job are there once more for namespaces in which flows are in use: `name:flow`.
    """

    def __init__(self, prefix: str) -> None:
        found = _read()
        situation = {"{situation}": found["situation"]}
        whole = {name: _filled(sql, {**PARTS, **situation}) for name, sql in found.items()}
        plain = {
            f"{name}:plain": _filled(sql, {**PLAIN_PARTS, ", {situation}": "", **situation})
            for name, sql in found.items()
        }
        unless = {"{unless_flow}": " " + found["unless_flow"]}
        texts = {name: _filled(sql, _WITHOUT_FLOW | unless) for name, sql in (whole | plain).items()}
        texts |= {
            f"{name}:flow": _filled(whole[name], _WITH_FLOW) for name in ("complete", "claim", "claimed")
        }
        self._texts = {name: prefixed(sql, prefix) for name, sql in texts.items()}
        self._ready: dict[tuple[str, str], Statement] = {}
        self._claims: dict[tuple[int, str], Statement] = {}

    def get(self, name: str, conditions: str = "") -> Statement:
        """A statement; `conditions` narrow it, if it is one that can be narrowed."""
        found = self._ready.get((name, conditions))
        if found is None:
            found = unnamed(self._texts[name].replace("{conditions}", conditions))
            self._ready[name, conditions] = found
        return found

    def claim(self, queues: int, name: str = "claim") -> Statement:
        """The claim from so many queues, which it calls queue0, queue1 and so on."""
        if (queues, name) not in self._claims:
            turns = [
                _filled(self._texts["chosen"], {"{turn}": str(place), "{queue}": f":queue{place}"})
                for place in range(queues)
            ]
            if queues == 1:
                chosen = f"SELECT pk FROM ({turns[0]})"
            else:
                one_by_one = " UNION ALL ".join(f"SELECT * FROM ({turn})" for turn in turns)
                chosen = _filled(self._texts["chosen_of_many"], {"{turns}": one_by_one})
            self._claims[queues, name] = unnamed(_filled(self._texts[name], {"{chosen}": chosen}))
        return self._claims[queues, name]


@lru_cache(maxsize=16)
def statements(prefix: str) -> Statements:
    return Statements(prefix)


def prefixed(sql: str, prefix: str) -> str:
    return sql if prefix == PREFIX else sql.replace(PREFIX, prefix)


def unnamed(sql: str) -> Statement:
    return Statement(_PARAMETER.sub("?", sql), tuple(_PARAMETER.findall(sql)))


def _read() -> dict[str, str]:
    found = dict(STATEMENTS)
    folder = files("holdfast.stores.sqlite") / "sql"
    for name in _FILES:
        pieces = _NAME.split((folder / f"{name}.sql").read_text(encoding="utf-8"))
        for title, body in zip(pieces[1::2], pieces[2::2], strict=True):
            found[title] = _COMMENT.sub("", body).strip().rstrip(";")
    return found


def _filled(sql: str, parts: dict[str, str]) -> str:
    for name, part in parts.items():
        sql = sql.replace(name, part)
    return sql
