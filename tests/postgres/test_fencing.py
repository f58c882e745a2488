"""The statements that the manual shows refuse an old token on PostgreSQL."""

import pytest

from holdfast.fencing import StaleToken, check_written
from tests.postgres.test_locks import connection

TABLE = "CREATE TABLE account (id text PRIMARY KEY, balance bigint, fence bigint NOT NULL DEFAULT 0)"
UPDATE = "UPDATE account SET balance = $2, fence = $3 WHERE id = $1 AND fence <= $3 RETURNING 1"
UPSERT = """
    INSERT INTO account (id, balance, fence) VALUES ($1, $2, $3)
    ON CONFLICT (id) DO UPDATE SET balance = excluded.balance, fence = excluded.fence
    WHERE account.fence <= excluded.fence
    RETURNING 1
"""
OLD, NEW = 1_800_000_000_000_000, 1_800_000_000_000_001


@pytest.mark.parametrize("statement", [UPDATE, UPSERT])
async def test_an_old_token_writes_nothing(postgres_database: str, statement: str) -> None:
    async with connection(postgres_database) as ours:
        await ours.execute(TABLE)

        async def write(sql: str, balance: int, token: int) -> None:
            check_written(len(await ours.fetch(sql, "ann", balance, token)), token)

        await write(UPSERT, 100, OLD)
        await write(statement, 110, OLD)
        await write(statement, 120, NEW)
        with pytest.raises(StaleToken):
            await write(statement, 130, OLD)
        assert await ours.fetchval("SELECT balance FROM account") == 120
