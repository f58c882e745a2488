"""Orders and jobs in one SQLite file: stored in one transaction, and completed in one transaction.

An order and its job are committed together or not at all. The handler's own writes are committed together
with the job's completion: exactly once, whatever happens to workers. Run it: python transactional.py
"""

import asyncio
import sqlite3

from holdfast import Context, Holdfast

DATABASE = "transactional.db"
app = Holdfast(f"sqlite:///{DATABASE}")


@app.task
def ship(ctx: Context[None], order: int) -> str:
    with ctx.sync_transaction() as tx:
        tx.connection.execute("UPDATE orders SET shipped = shipped + 1 WHERE id = ?", (order,))
        tx.complete(f"order {order} shipped")
    return f"order {order} shipped"


@app.task
async def bill(ctx: Context[None], order: int) -> None:
    async with ctx.transaction() as tx:
        await tx.connection.execute("INSERT INTO bills VALUES (?)", (order,))


def connect() -> sqlite3.Connection:
    # On a SQLite before 3.51.3, leave checkpoints to Holdfast: see docs/decisions/0002-sqlite-binding.md.
    connection = sqlite3.connect(DATABASE, isolation_level=None)
    connection.execute("PRAGMA wal_autocheckpoint = 0")
    return connection


def place(connection: sqlite3.Connection, order: int, *, fails: bool = False) -> None:
    """Stores an order with its jobs, or, if something goes wrong in between, nothing."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        connection.execute("INSERT INTO orders VALUES (?, 0)", (order,))
        ship.enqueue_in_sync(connection, order)
        bill.enqueue_in_sync(connection, order)
        if fails:
            raise RuntimeError("the card was refused")
    except BaseException:
        connection.execute("ROLLBACK")
        raise
    connection.execute("COMMIT")


def main() -> None:
    with app:
        app.sync.stats()  # opens the store once, which makes its tables
    connection = connect()
    connection.execute("CREATE TABLE IF NOT EXISTS orders (id INTEGER PRIMARY KEY, shipped INTEGER)")
    connection.execute("CREATE TABLE IF NOT EXISTS bills (id INTEGER)")

    place(connection, 1)
    try:
        place(connection, 2, fails=True)
    except RuntimeError as error:
        print("order 2 was not placed:", error)

    asyncio.run(app.worker().run(until_idle=True))
    print("orders:", connection.execute("SELECT id, shipped FROM orders").fetchall())
    print("bills:", connection.execute("SELECT id FROM bills").fetchall())
    connection.close()


if __name__ == "__main__":
    main()
