"""Limits on keys alone are decided about by one statement, as they are one by one beside other limits."""

import random

from holdfast.model.flow import STRIDE, LimitRecord, NewFlow, Scope
from holdfast.model.timing import SECOND
from holdfast.stores.postgres.rows import rank_of
from holdfast.testing.conformance.case import QUEUE, TASK, ended, new_job, wanted
from tests.postgres.flow_support import SCHEMA, Flows, flowing, in_turn, keyed, limit

OTHER = "other"
TASKS = [TASK, OTHER]
KEYS = ("a", "b", "c", "d", "e", None)
BOTH = f"""
    WITH heads AS MATERIALIZED (
        SELECT coalesce(array_agg(ctid) FILTER (WHERE random() < $5), '{{}}') AS places
        FROM {SCHEMA}.job WHERE gate IS NOT NULL AND queue = $1
    )
    SELECT s.is_hard,
           (ARRAY(SELECT unnest(s.taken) ORDER BY 1),
            ARRAY(SELECT j.ctid FROM {SCHEMA}.job AS j
                  WHERE j.ctid = ANY (s.parked) AND j.gate IS DISTINCT FROM 'key:' || j.limit_key ORDER BY 1),
            ARRAY(SELECT unnest(s.seen) ORDER BY 1), s.size, s.looked)
           = (ARRAY(SELECT unnest(w.taken) ORDER BY 1), ARRAY(SELECT unnest(w.parked) ORDER BY 1),
              ARRAY(SELECT unnest(w.seen) ORDER BY 1), w.size, w.looked),
           cardinality(s.taken), cardinality(s.parked), cardinality(s.seen)
    FROM {SCHEMA}.namespace AS n, heads AS h,
         LATERAL {SCHEMA}.weigh_v1(n.id, 1, $1, $2, h.places, $3, $4, true) AS w,
         LATERAL {SCHEMA}.sift_v1(n.id, 1, $1, $2, h.places, $3, $4) AS s
"""


async def is_hard(at: Flows) -> bool:
    return bool((await at.connection.fetchrow(BOTH, QUEUE, TASKS, 100, 100, 1))[0])


async def test_both_ways_take_and_park_the_same_jobs(postgres_database: str) -> None:
    draw = random.Random(6)
    taken = parked = seen = 0
    async with flowing(postgres_database) as at:
        await at.flow.put([limit(3, Scope.EACH_KEY, task) for task in TASKS])
        await at.flow.put([limit(1, Scope.KEY, "b"), LimitRecord(scope=Scope.KEY, name="c", paused=True)])
        await at.flow.put([LimitRecord(scope=Scope.KEY, name="d", weight=2)])
        for _ in range(12):
            await at.add(
                *(
                    new_job(
                        task=draw.choice(TASKS),
                        priority=draw.randrange(2),
                        flow=NewFlow(limit_key=draw.choice(KEYS)),
                    )
                    for _ in range(draw.randrange(4, 20))
                )
            )
            for _ in range(8):
                asked, left = draw.randrange(1, 40), draw.randrange(1, 12)
                row = await at.connection.fetchrow(BOTH, QUEUE, TASKS, asked, left, draw.random())
                assert list(row)[:2] == [False, True], (asked, left, row)
                taken, parked, seen = taken + row[2], parked + row[3], seen + row[4]
            claimed = (await at.tick(want=wanted(tasks=TASKS, limit=draw.randrange(1, 9)))).claimed
            await at.tick([ended(job) for job in claimed if draw.random() < 0.6])
    assert min(taken, parked, seen) > 100


async def test_what_other_things_decide_about_as_well_is_left_to_the_other_way(
    postgres_database: str,
) -> None:
    async with flowing(postgres_database) as at:
        await at.flow.put([limit(3, Scope.EACH_KEY)])
        jobs = await at.add(keyed("a"), new_job(task=OTHER))
        assert not await is_hard(at)
        # Another task with the same keys, which has no limit on them.
        [mixed] = await at.add(keyed("a", task=OTHER))
        assert await is_hard(at)
        await at.flow.put([limit(3, Scope.EACH_KEY, OTHER)])
        assert not await is_hard(at)
        await at.jobs.delete(mixed.id)
        [sequenced] = await at.add(in_turn())
        assert await is_hard(at)
        await at.jobs.delete(sequenced.id)
        assert not await is_hard(at)
        await at.flow.put([LimitRecord(scope=Scope.KEY, name="a", rate=1, period=SECOND)])
        assert await is_hard(at)
        await at.jobs.delete(jobs[0].id)
        assert not await is_hard(at)


async def test_a_job_that_stands_already_uses_up_no_rank(postgres_database: str) -> None:
    async with flowing(postgres_database) as at:
        first = new_job(flow=NewFlow(fair_key="a"))
        [stored] = await at.add(first)
        again, second = await at.add(first, new_job(flow=NewFlow(fair_key="a")))
        assert again == stored
        assert rank_of(second) == rank_of(stored) + STRIDE
