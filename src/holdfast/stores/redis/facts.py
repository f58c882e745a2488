"""What an operator should know about a server, and what is refused at start."""

from typing import Any

from holdfast.model.errors import ConfigurationError
from holdfast.stores.redis.address import Address
from holdfast.stores.redis.wire import ReplyError, Wire

OLDEST = (6, 2)
SAFE = "noeviction"


def told(info: bytes) -> dict[str, str]:
    """What the server tells about itself."""
    lines = (line.partition(":") for line in info.decode().splitlines())
    return {name: text for name, colon, text in lines if colon}


def check(known: dict[str, str], address: Address) -> None:
    """Refuses a server that would lose jobs, or cannot run the scripts."""
    version = known.get("redis_version", "0")
    if tuple(int(part) for part in version.split(".")[:2]) < OLDEST:
        raise ConfigurationError(
            f"{address.place}: Redis {version} is too old; 6.2 or newer, or Valkey, is needed",
            setting="store",
        )
    policy = known.get("maxmemory_policy", SAFE)
    if policy != SAFE:
        raise ConfigurationError(
            f"{address.place}: its maxmemory-policy is {policy}, so it may drop jobs when memory is short. "
            f"Set it to {SAFE} (CONFIG SET maxmemory-policy {SAFE}, and in the server's configuration)",
            setting="store",
        )


async def facts(wire: Wire, address: Address) -> dict[str, str]:
    """Read-only and cheap."""
    known = told(await wire.ask("INFO"))
    fsync = await _setting(wire, "appendfsync")
    has_log = known.get("aof_enabled") == "1"
    save = await _setting(wire, "save")
    found = {
        "engine": "valkey" if known.get("server_name") == "valkey" else "redis",
        "version": known.get("valkey_version") or known.get("redis_version", "unknown"),
        "place": address.place,
        "mode": known.get("redis_mode", "standalone"),
        "durability": _durability(has_log, fsync, save),
        "memory": f"{known.get('used_memory_human', '?')} of {_limit(known)}",
        "wake-ups": "PUBLISH and SUBSCRIBE" if address.notify else "off: workers poll",
    }
    replicas = known.get("connected_slaves", "0")
    if replicas != "0":
        found["replicas"] = f"{replicas}, asynchronous: a failover may lose what was written just before it"
    return found | _warnings(known, has_log, fsync, save)


def _warnings(known: dict[str, str], has_log: bool, fsync: str | None, save: str | None) -> dict[str, str]:
    found: dict[str, str] = {}
    if not has_log:
        found["warning appendonly"] = (
            "appendonly is off: a crash loses every job since the last snapshot"
            if save
            else "appendonly is off and there are no snapshots: a restart loses every job"
        )
    elif fsync == "no":
        found["warning appendfsync"] = "appendfsync is no: a crash of the machine may lose half a minute"
    if known.get("maxmemory_policy", SAFE) != SAFE:
        found["warning maxmemory-policy"] = f"{known['maxmemory_policy']}: jobs may be dropped; set {SAFE}"
    if known.get("role") == "slave":
        found["warning replica"] = "this server is a replica and cannot be written to"
    if known.get("rdb_last_bgsave_status", "ok") != "ok" or known.get("aof_last_write_status", "ok") != "ok":
        found["warning persistence"] = "the last save failed: the server may refuse to write"
    return found


def _durability(has_log: bool, fsync: str | None, save: str | None) -> str:
    snapshots = "unknown snapshots" if save is None else f'save "{save}"' if save else "no snapshots"
    if not has_log:
        lost = "everything is" if save == "" else "what came after the last snapshot is"
        return f"appendonly no, {snapshots}: {lost} lost with the process"
    lost = {
        "always": "every write is on the disk before it is answered",
        "everysec": "a crash of the machine may lose the last second",
    }.get(fsync or "", "how much a crash may lose is up to the operating system")
    return f"appendonly yes, appendfsync {fsync or 'unknown'}, {snapshots}: {lost}"


def _limit(known: dict[str, str]) -> str:
    return known.get("maxmemory_human", "?") if known.get("maxmemory", "0") != "0" else "no limit"


async def _setting(wire: Wire, name: str) -> str | None:
    """The setting, or None where it may not be read, as at most hosting services."""
    try:
        answer: list[Any] = await wire.ask("CONFIG", "GET", name)
    except ReplyError:
        return None
    return answer[1].decode() if len(answer) > 1 else None
