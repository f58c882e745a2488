"""The whole transition table: every state with every path, by moves and by edits."""

import asyncio
from itertools import pairwise, product

import pytest

from holdfast.model.lifecycle import (
    CANCELLED_RUNNING,
    CANCELLED_UNSTARTED,
    DEAD_LETTERED,
    FAILED_FOR_GOOD,
    INTERRUPTED,
    LEASED,
    RELEASED_AT_ONCE,
    REPLAYED,
    RETRIED,
    RETURNED,
    STARTED,
    SUCCEEDED,
    TRANSITIONS,
    Ending,
    Path,
    State,
)
from holdfast.model.records import Edit, JobRecord, Move, Verdict
from holdfast.testing.conformance.case import LONG, Case, Promises, ended, new_job, promise

NAMED: list[Path] = [
    STARTED,
    SUCCEEDED,
    RETRIED,
    RELEASED_AT_ONCE,
    DEAD_LETTERED,
    FAILED_FOR_GOOD,
    RETURNED,
    INTERRUPTED,
    CANCELLED_UNSTARTED,
    CANCELLED_RUNNING,
    REPLAYED,
]
PAIRS: list[Path] = list(product(State, repeat=2))
TRIPLES: list[Path] = list(product(State, repeat=3))
PATHS: list[Path] = list(dict.fromkeys([*NAMED, *PAIRS, *TRIPLES]))

WAYS: dict[State, tuple[Path, Ending]] = {
    State.SUCCESS: (SUCCEEDED, Ending.SUCCESS),
    State.FAILED: (FAILED_FOR_GOOD, Ending.FAILED),
    State.RETRY: (RETRIED, Ending.RETRY),
    State.DLQ: (DEAD_LETTERED, Ending.FAILED),
    State.CANCELLED: (CANCELLED_RUNNING, Ending.CANCELLED),
}


def is_legal(path: Path) -> bool:
    return all(after in TRANSITIONS[before] for before, after in pairwise(path))


def may_move(state: State, path: Path, ends: bool) -> bool:
    """What the table allows a holder: legal steps from a leased state, out of the lease only at the end."""
    leased = [step in LEASED for step in path]
    shape = leased == sorted(leased, reverse=True) and leased[0] and leased[-1] is not ends
    return state in LEASED and state in path[:-1] and shape and is_legal(path)


def may_edit(state: State, path: Path) -> bool:
    return path[0] is state and is_legal(path) and LEASED.isdisjoint(path)


async def jobs_in(case: Case, state: State, number: int) -> list[JobRecord]:
    """As many jobs of the state, last held by ann."""
    jobs = [new_job() for _ in range(number)]
    await case.jobs.add(jobs)
    if state is not State.SCHEDULED:
        claimed = await case.claim(limit=number)
        if state is State.RUNNING:
            moves = [Move(job=job.id, token=job.token, path=STARTED, elapsed=0) for job in claimed]
            await case.tick("ann", moves)
        elif state in WAYS:
            path, outcome = WAYS[state]
            await case.tick("ann", [ended(job, path, outcome, delay=LONG) for job in claimed])
    stored = [job for job in await case.jobs.states([job.id for job in jobs]) if job is not None]
    assert {job.state for job in stored} == {state}
    return stored


class TransitionPromises(Promises):
    """Allowed paths apply; all others are refused and change nothing."""

    @pytest.mark.parametrize("state", State)
    @promise
    async def test_a_holder_goes_along_allowed_paths_only(self, case: Case, state: State) -> None:
        jobs = await jobs_in(case, state, len(PATHS))
        moves = [ended(job, path, Ending.RELEASED, delay=LONG) for job, path in zip(jobs, PATHS, strict=True)]
        verdicts = (await case.tick("ann", moves)).verdicts
        after = await case.jobs.states([job.id for job in jobs])
        for job, path, verdict, stored in zip(jobs, PATHS, verdicts, after, strict=True):
            assert stored is not None
            if may_move(state, path, ends=True):
                assert (verdict, stored.state) == (Verdict.ACCEPTED, path[-1]), path
            else:
                assert (verdict, stored) == (Verdict.REFUSED, job), path

    @pytest.mark.parametrize("state", State)
    @promise
    async def test_a_start_goes_from_claimed_to_running_only(self, case: Case, state: State) -> None:
        paths = [*NAMED, *PAIRS]
        jobs = await jobs_in(case, state, len(paths))
        moves = [
            Move(job=job.id, token=job.token, path=path, elapsed=0)
            for job, path in zip(jobs, paths, strict=True)
        ]
        verdicts = (await case.tick("ann", moves)).verdicts
        after = await case.jobs.states([job.id for job in jobs])
        for job, path, verdict, stored in zip(jobs, paths, verdicts, after, strict=True):
            assert stored is not None
            if may_move(state, path, ends=False):
                assert (verdict, stored.state) == (Verdict.ACCEPTED, State.RUNNING), path
            else:
                stands = state is State.RUNNING and path == STARTED
                assert verdict is (Verdict.ACCEPTED if stands else Verdict.REFUSED), path
                assert stored == job, path

    @pytest.mark.parametrize("state", State)
    @promise
    async def test_an_edit_goes_along_allowed_paths_only(self, case: Case, state: State) -> None:
        legal = [path for path in TRIPLES if is_legal(path)]
        paths = [*NAMED, *PAIRS, *legal]
        jobs = await jobs_in(case, state, len(paths))
        answers = await asyncio.gather(
            *(
                case.jobs.edit(job.id, job.version, Edit(path=path))
                for job, path in zip(jobs, paths, strict=True)
            )
        )
        after = await case.jobs.states([job.id for job in jobs])
        for job, path, answer, stored in zip(jobs, paths, answers, after, strict=True):
            if may_edit(state, path):
                assert answer is not None, path
                assert (answer.state, answer.version) == (path[-1], job.version + 1), path
                assert stored == answer, path
            else:
                assert (answer, stored) == (None, job), path

    @promise
    async def test_a_path_of_one_state_or_none_is_refused(self, case: Case) -> None:
        job = await case.add_and_claim()
        paths: list[Path] = [(), (State.CLAIMED,), (State.SUCCESS,)]
        verdicts = (await case.tick("ann", [ended(job, path) for path in paths])).verdicts
        assert verdicts == [Verdict.REFUSED] * 3
        assert await case.reload(job) == job
