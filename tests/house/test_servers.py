import asyncpg


async def test_a_server_answers(postgres_url: str) -> None:
    connection = await asyncpg.connect(postgres_url)
    assert await connection.fetchval("SELECT 1") == 1
    await connection.close()
