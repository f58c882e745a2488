"""What an operator should know about a database."""

from holdfast.stores.mssql.address import Address
from holdfast.stores.mssql.driver import Connection
from holdfast.stores.mssql.schema import stored

_SERVER = """SELECT CAST(SERVERPROPERTY('ProductVersion') AS nvarchar(128)),
    CAST(SERVERPROPERTY('Edition') AS nvarchar(128)), CAST(SERVERPROPERTY('EngineEdition') AS int)"""
_DATABASE = """SELECT CAST(d.is_read_committed_snapshot_on AS int), CAST(d.delayed_durability AS int),
        CAST(d.compatibility_level AS int)
    FROM sys.databases AS d WHERE d.name = DB_NAME()"""
_AZURE = 5
_OLDEST_LEVEL = 130
_ALLOWED, _FORCED = 1, 2


def facts(connection: Connection, address: Address) -> dict[str, str]:
    """Read-only and cheap."""
    version = max(stored(connection, address), default=0)
    [[[number, edition, engine]]] = connection.execute(_SERVER)
    found = {
        "engine": "azure sql" if engine == _AZURE else "sql server",
        "version": f"{number}, {edition}",
        "place": address.place,
        "driver": address.driver,
        "schema": f"{address.schema}, version {version}" if version else "none: run holdfast migrate",
        "sign-in": "SQL login" if address.user else "Entra ID",
        "wake-ups": "within a process; others poll",
    }
    if address.warning:
        found["warning sign-in"] = address.warning
    return found | _settings(connection)


def _settings(connection: Connection) -> dict[str, str]:
    [rows] = connection.execute(_DATABASE)
    found: dict[str, str] = {}
    for is_snapshot, durability, level in rows:
        if not is_snapshot:
            found["warning isolation"] = (
                "READ_COMMITTED_SNAPSHOT is off: a handler's long transaction stops the heartbeats of its "
                "worker, whose jobs are then taken by others. While nobody else is connected run: "
                "ALTER DATABASE CURRENT SET READ_COMMITTED_SNAPSHOT ON"
            )
        if level < _OLDEST_LEVEL:
            found["warning compatibility"] = (
                f"the database behaves as version {level} of the server, which lacks what is needed; run: "
                f"ALTER DATABASE CURRENT SET COMPATIBILITY_LEVEL = {_OLDEST_LEVEL}"
            )
        if durability in (_ALLOWED, _FORCED):
            found["warning durability"] = (
                "DELAYED_DURABILITY is on: a crash of the server may lose what was just told"
            )
        found["durability"] = "commits can be lost" if durability else "every commit is on the disk first"
    return found
