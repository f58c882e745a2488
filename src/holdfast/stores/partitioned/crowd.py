"""Asking all partitions at once."""

import asyncio
from collections.abc import Awaitable, Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from types import MappingProxyType
from typing import TypeVar

from holdfast.model.errors import OutcomeUnknown, StoreError, StoreUnavailable
from holdfast.model.partition import Layout
from holdfast.model.records import JobRecord
from holdfast.stores.partitioned.branch import Branch

T = TypeVar("T")

_tolerated: ContextVar[Mapping[int, dict[str, str]]] = ContextVar("tolerated", default=MappingProxyType({}))
"""What is missing, for each crowd whose reader does without it. Others, in other tasks, may not."""

PATIENCE = 5.0
"""How long one who can do without a partition waits for it, in seconds."""


class Crowd:
    """The branches of one session, by name, and whether some of them may be missing."""

    def __init__(self, layout: Layout, branches: Mapping[str, Branch]) -> None:
        self.layout = layout
        self.branches = branches

    @property
    def home(self) -> Branch:
        return self.branches[self.layout.home]

    @contextmanager
    def tolerating(self) -> Generator[Mapping[str, str]]:
        """Inside the block partitions that do not answer are left out; gives their names, and why."""
        found: dict[str, str] = {}
        before = _tolerated.set({**_tolerated.get(), id(self): found})
        try:
            yield found
        finally:
            _tolerated.reset(before)

    async def read(self, ask: Callable[[Branch], Awaitable[T]]) -> list[tuple[Branch, T]]:
        """All answers, with their branches, in the order of the partitions. StoreError if one is missing.

        While that is tolerated, those that there are; StoreError if there is none.
        """
        missing = _tolerated.get().get(id(self))
        branches = list(self.branches.values())
        if missing is None:
            return list(zip(branches, await gathered([ask(each) for each in branches]), strict=True))
        answers = await asyncio.gather(
            *(_patiently(each.name, ask(each)) for each in branches), return_exceptions=True
        )
        found: list[tuple[Branch, T]] = []
        faults: list[StoreError] = []
        for branch, answer in zip(branches, answers, strict=True):
            if isinstance(answer, StoreError):
                missing[branch.name] = str(answer)
                faults.append(answer)
            elif isinstance(answer, BaseException):
                raise answer
            else:
                found.append((branch, answer))
        if not found:
            raise faults[0]
        return found

    async def write(self, what: str, do: Callable[[Branch], Awaitable[T]]) -> list[T]:
        """Does it in every partition that answers. Then, if one did not: OutcomeUnknown; do it again."""
        branches = list(self.branches.values())
        answers = await asyncio.gather(*(do(each) for each in branches), return_exceptions=True)
        done: list[T] = []
        faults: list[BaseException] = []
        for answer in answers:
            if isinstance(answer, BaseException):
                faults.append(answer)
            else:
                done.append(answer)
        for fault in faults:
            if not isinstance(fault, StoreError):
                raise fault
        if faults and not done:
            raise faults[0]
        if faults:
            outcomes = zip(branches, answers, strict=True)
            well = [each.name for each, answer in outcomes if not isinstance(answer, BaseException)]
            raise OutcomeUnknown(f"{what} in {', '.join(well)} only; {faults[0]}") from faults[0]
        return done

    async def states(self, job_ids: Sequence[str]) -> dict[str, tuple[Branch, JobRecord]]:
        """Those of the jobs that are stored, and where.

        The partition that an id tells is asked first, then the others, for it may tell one by chance.
        StoreError if a job that was not found may be in a partition that does not answer.
        """
        wanted = list(dict.fromkeys(job_ids))
        told: dict[str, list[str]] = {}
        for job_id in wanted:
            if (name := self.layout.of_id(job_id)) is not None:
                told.setdefault(name, []).append(job_id)
        found: dict[str, tuple[Branch, JobRecord]] = {}

        async def look(branch: Branch, some: Sequence[str]) -> None:
            for record in await branch.jobs.states(some):
                if record is not None:
                    found[record.id] = branch, record

        await gathered([look(self.branches[name], some) for name, some in told.items()])
        if rest := [job_id for job_id in wanted if job_id not in found]:
            looks = [look(branch, rest) for branch in self.branches.values()]
            for fault in await asyncio.gather(*looks, return_exceptions=True):
                if fault is not None and (
                    not isinstance(fault, StoreError) or any(job_id not in found for job_id in rest)
                ):
                    raise fault
        return found

    async def locate(self, job_ids: Sequence[str]) -> dict[str, str]:
        """The partitions of those of the jobs that are stored."""
        return {job_id: branch.name for job_id, (branch, _) in (await self.states(job_ids)).items()}

    async def branch_of(self, job_id: str) -> Branch | None:
        """The partition of a job; None if it is not stored."""
        name = (await self.locate([job_id])).get(job_id)
        return None if name is None else self.branches[name]


async def gathered(asked: Sequence[Awaitable[T]]) -> list[T]:
    """All answers. The first error is raised when all have ended, so that nothing goes on by itself."""
    if len(asked) == 1:
        return [await asked[0]]
    answers = await asyncio.gather(*asked, return_exceptions=True)
    found: list[T] = []
    for answer in answers:
        if isinstance(answer, BaseException):
            raise answer
        found.append(answer)
    return found


async def _patiently(name: str, asked: Awaitable[T]) -> T:
    try:
        async with asyncio.timeout(PATIENCE):
            return await asked
    except TimeoutError:
        raise StoreUnavailable(f"partition {name}: no answer within {PATIENCE:g} s") from None
