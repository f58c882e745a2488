"""Namespaces as small numbers."""

from holdfast.stores.sqlite.transaction import Transaction


def find_namespace(tx: Transaction, name: str) -> int | None:
    row = tx.run("namespace", name=name).fetchone()
    return None if row is None else int(row[0])


def make_namespace(tx: Transaction, name: str) -> int:
    """The number of the namespace, which is made if it was not there."""
    found = find_namespace(tx, name)
    if found is None:
        tx.run("namespace_add", name=name)
        return int(tx.row("namespace", name=name)[0])
    return found
