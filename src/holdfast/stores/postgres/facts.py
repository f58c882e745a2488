"""What an operator should know about a database."""

from holdfast.stores.postgres.address import Address
from holdfast.stores.postgres.driver import Connection
from holdfast.stores.postgres.schema import stored_version

_LONG_SECONDS = 300
_MANY_DEAD = 200_000
_OLDEST = 130000


async def facts(connection: Connection, address: Address) -> dict[str, str]:
    """Read-only and cheap."""
    version, _ = await stored_version(connection, address)
    number = connection.get_server_version()
    commit, fsync = await _setting(connection, "synchronous_commit"), await _setting(connection, "fsync")
    found = {
        "engine": "postgresql",
        "version": await _setting(connection, "server_version"),
        "place": address.place,
        "schema": f"{address.schema}, version {version}" if version else "none: run holdfast migrate",
        "durability": _durability(commit, fsync),
        "wake-ups": "LISTEN and NOTIFY" if address.notify else "off: workers poll",
    }
    if fsync == "off":
        found["warning fsync"] = "fsync is off: a crash of the machine may destroy the database"
    if commit == "off":
        found["warning synchronous_commit"] = (
            "synchronous_commit is off: a crash of the server loses what was just told"
        )
    if number.major * 10000 < _OLDEST:
        found["warning version"] = "PostgreSQL 13 or newer is needed"
    if await connection.fetchval("SELECT pg_is_in_recovery()"):
        found["warning standby"] = "this server is a standby and cannot be written to"
    held = await connection.fetchval(
        "SELECT max(extract(epoch FROM clock_timestamp() - xact_start))::integer FROM pg_stat_activity "
        "WHERE backend_xmin IS NOT NULL AND pid <> pg_backend_pid()"
    )
    if held is not None and held > _LONG_SECONDS:
        found["warning old transaction"] = (
            f"a transaction has been open for {held} s and keeps dead rows of every table from being removed"
        )
    if version:
        found |= await _tables(connection, address)
    return found


async def _tables(connection: Connection, address: Address) -> dict[str, str]:
    row = await connection.fetchrow(
        "SELECT n_live_tup, n_dead_tup, pg_size_pretty(pg_total_relation_size(relid)) "
        "FROM pg_stat_user_tables WHERE schemaname = $1 AND relname = $2",
        address.schema,
        f"{address.prefix}job",
    )
    found: dict[str, str] = {}
    if row is not None:
        found["live jobs"] = f"about {row[0]}, {row[1]} dead rows, {row[2]}"
        if row[1] > _MANY_DEAD and row[1] > row[0]:
            found["warning dead rows"] = (
                f"{row[1]} dead rows: autovacuum does not keep up, or an old transaction holds it back"
            )
    return found


async def _setting(connection: Connection, name: str) -> str:
    text: str = await connection.fetchval("SELECT current_setting($1)", name)
    return text


def _durability(commit: str, fsync: str) -> str:
    if fsync == "off" or commit == "off":
        return f"fsync={fsync}, synchronous_commit={commit}: commits can be lost"
    return f"synchronous_commit={commit}: every commit is on the disk before it is answered"
