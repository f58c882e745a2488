"""Handlers whose effects are rows of the same PostgreSQL database, committed with their completion."""

import os

import asyncpg
import psycopg

from holdfast import Context, Fixed, Holdfast
from tests.chaos.program import leave

app = Holdfast()

AGAIN = Fixed(max_retries=10_000, wait=0.01)
"""A transaction that was cut off is a failure of its attempt."""


@app.task(retry=AGAIN)
async def pay(ctx: Context) -> None:
    leave("began", ctx)
    async with ctx.transaction() as tx:
        await tx.connection.execute("INSERT INTO ledger VALUES ($1, $2)", ctx.job.id, ctx.token)
    leave("ended", ctx)


@app.task(retry=AGAIN)
def pay_blocking(ctx: Context) -> None:
    leave("began", ctx)
    with ctx.sync_transaction() as tx:
        tx.connection.execute("INSERT INTO ledger VALUES (%s, %s)", (ctx.job.id, ctx.token))
    leave("ended", ctx)


@app.task(retry=AGAIN)
async def pay_by_own_connection(ctx: Context) -> None:
    leave("began", ctx)
    connection = await asyncpg.connect(os.environ["HOLDFAST_STORE"], timeout=5, command_timeout=5)
    try:
        async with connection.transaction():
            await connection.execute("INSERT INTO ledger VALUES ($1, $2)", ctx.job.id, ctx.token)
            await ctx.complete_in(connection)
    finally:
        connection.terminate()
    leave("ended", ctx)


@app.task(retry=AGAIN)
def pay_by_own_blocking_connection(ctx: Context) -> None:
    leave("began", ctx)
    with psycopg.connect(os.environ["HOLDFAST_STORE"]) as connection:
        connection.execute("INSERT INTO ledger VALUES (%s, %s)", (ctx.job.id, ctx.token))
        ctx.complete_in_sync(connection)
    leave("ended", ctx)


WAYS = (pay, pay_blocking, pay_by_own_connection, pay_by_own_blocking_connection)
