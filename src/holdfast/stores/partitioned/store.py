"""The factory of sessions of several stores."""

import asyncio
from collections.abc import Callable, Mapping
from types import MappingProxyType

from holdfast.model.errors import ConfigurationError, HoldfastError
from holdfast.model.partition import Layout, Partition, parse
from holdfast.store import Store, Transactions
from holdfast.stores.partitioned.branch import Branch, PartStore
from holdfast.stores.partitioned.crowd import PATIENCE, gathered
from holdfast.stores.partitioned.schema import migrations_of
from holdfast.stores.partitioned.session import PartitionedSession
from holdfast.stores.partitioned.transactions import PartitionedTransactions

Opener = Callable[[str], Store]


class PartitionedStore:
    """Several stores as one, each a partition of the jobs."""

    def __init__(self, layout: Layout, stores: Mapping[str, Store]) -> None:
        self.layout = layout
        self._stores = {each.name: PartStore(each, stores[each.name]) for each in layout.partitions}
        self.parts: Mapping[str, Store] = MappingProxyType(self._stores)
        self.migrations = migrations_of({name: each.migrations for name, each in self._stores.items()})
        transactions = {name: each.transactions for name, each in self._stores.items()}
        self.transactions: Transactions | None = (
            PartitionedTransactions(layout, transactions) if any(transactions.values()) else None
        )

    @classmethod
    def from_url(cls, url: str, opener: Opener) -> "PartitionedStore":
        """The store that a `partition://?name=URL&…` URL names; `holdfast.model.partition.parse` reads it."""
        layout = parse(url)
        return cls(layout, {each.name: _opened(each, opener) for each in layout.partitions})

    async def connect(self, namespace: str) -> PartitionedSession:
        branches = {
            name: Branch(each.partition, each.inner, namespace) for name, each in self._stores.items()
        }
        session = PartitionedSession(self.layout, branches)
        try:
            await session.connect()
        except BaseException:
            await session.close()
            raise
        return session

    async def facts(self) -> dict[str, str]:
        """Those of each partition, with its name before them; of one that does not answer, why."""
        found: dict[str, str] = {"engine": "partitioned", "partitions": ", ".join(self._stores)}
        found |= {"home": self.layout.home, "version": "see each", "durability": "that of each partition"}
        told = await gathered([_facts(each.inner) for each in self._stores.values()])
        for name, facts in zip(self._stores, told, strict=True):
            found[f"{name}.state"] = "open" if name in self.layout.open else "draining"
            for fact, value in facts.items():
                is_warning = fact.startswith("warning")
                found[f"warning.{name}.{fact}" if is_warning else f"{name}.{fact}"] = (
                    f"partition {name}: {value}" if is_warning else value
                )
        return found

    async def close(self) -> None:
        await gathered([each.inner.close() for each in self._stores.values()])


def _opened(partition: Partition, opener: Opener) -> Store:
    try:
        return opener(partition.url)
    except ConfigurationError as error:
        raise ConfigurationError(f"partition {partition.name}: {error}", setting=None) from error


async def _facts(store: Store) -> dict[str, str]:
    try:
        async with asyncio.timeout(PATIENCE):
            return await store.facts()
    except TimeoutError:
        return {"warning": f"it does not answer within {PATIENCE:g} s"}
    except HoldfastError as error:
        return {"warning": f"it does not answer: {error}"}
