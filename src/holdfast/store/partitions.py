"""A store that is made of several."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Protocol, TypeVar, runtime_checkable

from holdfast.model.partition import Layout
from holdfast.model.records import NewJob
from holdfast.store.session import Session, Store

T = TypeVar("T")


@runtime_checkable
class Partitioned(Protocol):
    """What a partitioned store has beside what every store has.

    Its promises hold for each partition; over several of them a batch is one write per partition, and
    PartlyStored says what is stored if some of them failed. A job is found by its id wherever it is. A key
    is held in its partition only.
    """

    @property
    def layout(self) -> Layout: ...

    @property
    def parts(self) -> Mapping[str, Store]:
        """Each partition as a store of its own, by name. Workers serve each by itself."""
        ...


@runtime_checkable
class PartitionedSession(Protocol):
    """What a session of a partitioned store has beside what every session has."""

    @property
    def layout(self) -> Layout: ...

    @property
    def parts(self) -> Mapping[str, Session]:
        """Each partition by name, connected when it is first asked for something."""
        ...

    async def each(self, ask: Callable[[Session], Awaitable[T]]) -> dict[str, T]:
        """The answers of the partitions, by name. StoreError if one is missing, unless that is tolerated."""
        ...

    def placed(self, jobs: Sequence[NewJob]) -> list[NewJob]:
        """The jobs as they are to be added: those whose ids are fresh with ids that tell their partition."""
        ...

    async def sorted_out(self, jobs: Sequence[NewJob]) -> dict[str, list[int]]:
        """The places of the jobs by the partition that each is to be added to."""
        ...

    async def locate(self, job_ids: Sequence[str]) -> dict[str, str]:
        """The partitions of those of the jobs that are stored."""
        ...

    def tolerating(self) -> AbstractContextManager[Mapping[str, str]]:
        """Inside the block, find, counts and lists leave out partitions that do not answer, and say why."""
        ...
