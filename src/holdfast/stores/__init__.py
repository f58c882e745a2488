"""The stores: memory (the reference, read it first), SQLite, PostgreSQL, SQL Server, Redis, and others.

Each is opened by its URL; `open_store` imports it when it is asked for. `partition://` makes one of several.
Two wrap others: resilient, for those behind a network, and sealed, where keys of encryption are given.
What a store must do is written in `holdfast.store`, and checked by `holdfast.testing.conformance`.
"""

import re
from functools import partial
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from typing import cast

from holdfast.model.encryption import EncryptionKeys
from holdfast.model.errors import ConfigurationError
from holdfast.model.partition import SCHEME
from holdfast.store import Store

__all__ = ["open_store", "seal"]

GROUP = "holdfast.stores"
_REDIS = [
    name + way
    for name in ("redis", "rediss", "valkey", "valkeys")
    for way in ("", "+sentinel", "+cluster", "+unix")
]
_MSSQL = ("mssql", "mssql+mssqlpython", "mssql+pytds")
_BUILT_IN = {
    "memory": ("holdfast.stores.memory", "MemoryStore"),
    "sqlite": ("holdfast.stores.sqlite", "SqliteStore"),
    "postgresql": ("holdfast.stores.postgres", "PostgresStore"),
    "postgres": ("holdfast.stores.postgres", "PostgresStore"),
    **dict.fromkeys(_MSSQL, ("holdfast.stores.mssql", "MssqlStore")),
    **dict.fromkeys(_REDIS, ("holdfast.stores.redis", "RedisStore")),
}
_NETWORKED = {
    "postgresql": "postgres",
    "postgres": "postgres",
    **dict.fromkeys(_MSSQL, "sqlserver"),
    **dict.fromkeys(_REDIS, "redis"),
}
"""Those between whom and us much can happen, with the extra that installs what they need."""


def open_store(url: str, *, auto_migrate: bool | None = None, keys: EncryptionKeys | None = None) -> Store:
    """The store that the URL names; no I/O yet. With `keys`, what jobs and events carry is encrypted.

    A scheme that is not built in is looked up among the entry points of the group `holdfast.stores`: the
    name is the scheme, the value a callable that takes the URL and `auto_migrate`.
    """
    scheme, separator, _ = url.partition("://")
    if not url.isascii() and _has_surrogates(url):
        raise ConfigurationError(f"{_masked(url)!a} is no UTF-8 text", setting="store")
    if not separator:
        raise ConfigurationError(
            f"{_masked(url)!r} is not a store URL, such as {_example()}", setting="store"
        )
    if scheme == SCHEME:
        partitioned = import_module("holdfast.stores.partitioned").PartitionedStore
        opener = partial(open_store, auto_migrate=auto_migrate, keys=keys)
        return cast(Store, partitioned.from_url(url, opener))
    return seal(_opened(scheme, url, auto_migrate), keys)


def seal(store: Store, keys: EncryptionKeys | None) -> Store:
    """The store with what jobs and events carry encrypted by these keys, if there are any."""
    if keys is None:
        return store
    try:
        sealed = import_module("holdfast.stores.sealed")
    except ModuleNotFoundError as error:
        raise ConfigurationError(
            f"encryption needs the package {error.name}: pip install 'holdfast[crypto]'",
            setting="encryption_keys",
        ) from error
    return cast(Store, sealed.SealedStore(store, keys))


def _has_surrogates(url: str) -> bool:
    """As a command line or the environment gives what is no UTF-8."""
    return any("\ud800" <= letter <= "\udfff" for letter in url)


def _opened(scheme: str, url: str, auto_migrate: bool | None) -> Store:
    if scheme in _BUILT_IN:
        return _open_built_in(scheme, url, auto_migrate)
    found = {point.name: point for point in entry_points(group=GROUP)}
    if scheme not in found:
        known = ", ".join(f"{name}://" for name in sorted({*_BUILT_IN, *found, SCHEME}))
        raise ConfigurationError(
            f"no store is known for {_masked(url)!r}; known are {known}. "
            "A store of another package must be installed in this environment",
            setting="store",
        )
    return _open_registered(found[scheme], url, auto_migrate)


def _open_built_in(scheme: str, url: str, auto_migrate: bool | None) -> Store:
    module, name = _BUILT_IN[scheme]
    try:
        store = cast(Store, getattr(import_module(module), name).from_url(url, auto_migrate))
        if scheme not in _NETWORKED:
            return store
        resilient = import_module("holdfast.stores.resilient")
    except ModuleNotFoundError as error:
        raise ConfigurationError(
            f"{scheme}:// needs the package {error.name}: "
            f"pip install 'holdfast[{_NETWORKED.get(scheme, scheme)}]'",
            setting="store",
        ) from error
    return cast(Store, resilient.ResilientStore(store))


def _open_registered(point: EntryPoint, url: str, auto_migrate: bool | None) -> Store:
    try:
        opener = point.load()
    except (ImportError, AttributeError) as error:
        raise ConfigurationError(
            f"the store for {point.name}:// is registered as {point.value} but cannot be imported: {error}",
            setting="store",
        ) from error
    return cast(Store, opener(url, auto_migrate))


def _masked(url: str) -> str:
    """The URL without what may be secret: user, password and query."""
    plain, question, _ = url.partition("?")
    return re.sub(r"^([^/@]*//)?.*@", r"\1***@", plain, flags=re.DOTALL) + (question and "?***")


def _example() -> str:
    return "sqlite:///jobs.db, postgresql://host/database or memory://"
