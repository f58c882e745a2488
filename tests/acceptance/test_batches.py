from collections.abc import Sequence

import pytest

from holdfast import Holdfast, OutcomeUnknown, StoreError, StoreFull
from holdfast.model.records import Added, NewJob


@pytest.mark.parametrize(("healthy", "expected", "stored"), [(0, StoreFull, 0), (2, OutcomeUnknown, 20)])
async def test_many_jobs_of_which_some_were_stored_are_not_said_to_be_refused(
    healthy: int, expected: type[StoreError], stored: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = Holdfast("memory://", batch=10)

    @app.task
    async def work() -> None: ...

    async with app:
        jobs = app.client.session.jobs
        add, left = jobs.add, healthy

        async def failing(new: Sequence[NewJob]) -> list[Added]:
            nonlocal left
            if not left:
                raise StoreFull("the disk is full; nothing was written")
            left -= 1
            return await add(new)

        monkeypatch.setattr(jobs, "add", failing)
        with pytest.raises(expected, match="the disk is full") as caught:
            await app.enqueue_many(work.call() for _ in range(35))
        assert type(caught.value) is expected
        assert (await app.stats()).queued == stored
