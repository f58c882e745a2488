"""The table `[partitions]` of a settings file, as the URL that it stands for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from holdfast.model.errors import ConfigurationError
from holdfast.model.partition import DRAINING, HOME, SCHEME, as_url, layout

PARTITIONED = f"{SCHEME}://"
"""The store that is meant by the table of a file."""

TABLE = "partitions"
_QUEUES, _TOPICS = "queues", "topics"


def with_partitions(table: Mapping[str, object], source: str) -> dict[str, object]:
    """The settings, with the URL of all partitions as `store` if the file has a table of them.

    The table has a URL for each name, and may have `home`, a list `draining`, and tables `queues` and
    `topics` from names or patterns to partitions.
    """
    settings = dict(table)
    if TABLE not in settings:
        return settings
    where = f"{source}: [{TABLE}]"
    partitions = _converted(settings.pop(TABLE), dict[str, object], where, "a table of names and URLs")
    if settings.get("store", PARTITIONED) != PARTITIONED:
        raise ConfigurationError(f"{source}: store: there are [{TABLE}] too; keep one of both")
    home = _converted(partitions.pop(HOME, None), str | None, f"{where} {HOME}", "a name")
    draining = _converted(partitions.pop(DRAINING, []), list[str], f"{where} {DRAINING}", "a list of names")
    rules = {
        kind: _converted(
            partitions.pop(kind, {}), dict[str, str], f"{where} {kind}", "a table of names or patterns"
        )
        for kind in (_QUEUES, _TOPICS)
    }
    urls = {
        name: _converted(url, str, f"{where} {name}", "the URL of a store")
        for name, url in partitions.items()
    }
    try:
        found = layout(
            urls,
            home=home,
            draining=draining,
            queues=tuple(rules[_QUEUES].items()),
            topics=tuple(rules[_TOPICS].items()),
        )
    except ConfigurationError as error:
        raise ConfigurationError(f"{where} {str(error).removeprefix('store: ')}") from None
    return {**settings, "store": as_url(found)}


def _converted(value: object, kind: Any, where: str, wanted: str) -> Any:
    """The value, if it is of that kind. What it is instead is not shown: it may be a password."""
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError:
        raise ConfigurationError(f"{where}: expected {wanted}") from None
