"""Which partition new jobs go to, and storing them there."""

import asyncio
from collections.abc import Sequence

from msgspec.structs import replace

from holdfast.model.errors import InvalidJob
from holdfast.model.partition import partly, stamped, tag_of
from holdfast.model.records import Added, NewJob
from holdfast.stores.partitioned.crowd import Crowd


def placed(crowd: Crowd, jobs: Sequence[NewJob]) -> list[NewJob]:
    """The jobs, with ids that tell their partition where the ids are fresh."""
    of_queue = crowd.layout.of_queue
    return [
        replace(job, id=stamped(job.id, tag_of(of_queue(job.queue))))
        if job.fresh and not _linked(job)
        else job
        for job in jobs
    ]


async def sorted_out(crowd: Crowd, jobs: Sequence[NewJob]) -> dict[str, list[int]]:
    """The places of the jobs by the partition that each goes to.

    A job whose id may be known goes to the job of that id, wherever that is; one that waits for others goes
    to them; all others go where their queue does.
    """
    doubtful = [job.id for job in jobs if not job.fresh]
    links = {job.id: linked for job in jobs if (linked := _linked(job))}
    here = {job.id for job in jobs}
    wanted = [*doubtful, *(each for linked in links.values() for each in linked if each not in here)]
    known = await crowd.locate(wanted) if wanted else {}
    chosen: dict[str, str] = {}
    places: dict[str, list[int]] = {}
    for place, job in enumerate(jobs):
        name = chosen.get(job.id) or known.get(job.id)
        if name is None and job.id in links:
            name = _beside(job, links[job.id], {**known, **chosen})
        chosen[job.id] = name = name or crowd.layout.of_queue(job.queue)
        places.setdefault(name, []).append(place)
    return places


def _linked(job: NewJob) -> tuple[str, ...]:
    """The jobs that a job waits for, or that shall wait for it."""
    flow = job.flow
    if flow is None:
        return ()
    return (*flow.after, *(() if flow.before is None else (flow.before,)))


def _beside(job: NewJob, linked: tuple[str, ...], known: dict[str, str]) -> str | None:
    names = {known[each] for each in linked if each in known}
    if len(names) > 1:
        raise InvalidJob(
            "after",
            f"job {job.id} is linked to jobs of the partitions {', '.join(sorted(names))}; jobs that wait "
            "for each other must be in one, so map their queues to it",
        )
    return next(iter(names), None)


async def add(crowd: Crowd, jobs: Sequence[NewJob]) -> list[Added]:
    """Stores jobs, in one write for each partition that they belong to."""
    places = await sorted_out(crowd, jobs)
    if len(places) == 1:
        [name] = places
        return await crowd.branches[name].jobs.add(jobs)
    answers = await asyncio.gather(
        *(crowd.branches[name].jobs.add([jobs[each] for each in some]) for name, some in places.items()),
        return_exceptions=True,
    )
    added: dict[int, Added] = {}
    faults: list[BaseException] = []
    for some, answer in zip(places.values(), answers, strict=True):
        if isinstance(answer, BaseException):
            faults.append(answer)
        else:
            added.update(zip(some, answer, strict=True))
    if faults:
        raise partly(faults, [jobs[each].id for each in sorted(added)], [job.id for job in jobs])
    return [added[place] for place in range(len(jobs))]
