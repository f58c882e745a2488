"""Mutants of the SQLite store: its statements with a guard left out."""

from __future__ import annotations

from typing import Any

from holdfast.engine.keeper import Keeper
from holdfast.stores.sqlite import editing, statements
from tests.torture.mutants.workload import doom_many

CLAIM = ("token = max(token + 1, :now)", "token = token + 1")
GUARD = (
    "AND h.token = json_extract(f.value, '$[1]')\n      AND h.worker = :worker AND h.lease_until > :now",
    "AND h.state IN (0, 1, 2, 5)",
)
RENEWAL = (
    "SET lease_until = max(j.lease_until, :now + e.lease),",
    "SET lease_until = :now + e.lease, worker = :worker, token = e.token, ready = NULL,",
)
STATE = (
    "state = CASE WHEN e.elapsed IS NOT NULL AND j.state = 1 THEN 2 ELSE j.state END",
    "state = CASE WHEN e.elapsed IS NOT NULL THEN 2 ELSE 1 END",
)
FORGET = "UPDATE holdfast_job SET token = 0 WHERE ns = :ns AND id = :id"
WISH = ("SELECT h.pk, ", "SELECT h.pk, json_extract(f.value, '$[1]') AS token, ")


def _rewrite(*changes: tuple[str, str]) -> None:
    """Has the statements read with other words in them; each change must find its place."""
    read: Any = statements._read

    def mutated() -> dict[str, str]:
        texts: dict[str, str] = dict(read())
        for before, after in changes:
            found = [name for name, text in texts.items() if before in text]
            assert found, f"no statement has: {before}"
            for name in found:
                texts[name] = texts[name].replace(before, after)
        return texts

    statements._read = mutated


def reuse_tokens() -> None:
    """Tokens only count up, and a replayed job begins at nought."""
    doom_many()
    _rewrite(CLAIM)
    module: Any = editing
    rewrite = module.rewrite

    def forgetful(tx: Any, records: Any, *, were_finished: bool) -> None:
        rewrite(tx, records, were_finished=were_finished)
        for record in records if were_finished else ():
            tx.run_statement(statements.unnamed(FORGET), {"id": record.id})

    module.rewrite = forgetful


def revive_leases() -> None:
    """A heartbeat goes on whatever the time, and makes its attempt the holder again, whoever has the job."""
    _rewrite(GUARD, RENEWAL, STATE, WISH)
    Keeper.give_up_untrusted = lambda self: None  # type: ignore[method-assign]
