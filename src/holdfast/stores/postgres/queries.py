"""The statements that are sent, with the names that they have in one database."""

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from holdfast.model.lifecycle import FINISHED, LEASED, State
from holdfast.model.records import Query
from holdfast.stores.postgres.address import Address
from holdfast.stores.postgres.rows import CODES, COLUMNS


@dataclass(frozen=True, slots=True)
class Queries:
    """What each operation sends. Parameters are in the order of the server's functions."""

    namespace: str = "SELECT holdfast.namespace_v1($1)"
    add: str = (
        "SELECT holdfast.add_v1("
        "$1, NULL, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17)"
    )
    add_fresh: str = (
        "SELECT holdfast.add_fresh_v1($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14)"
    )
    add_lone: str = "SELECT holdfast.add_lone_v1($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)"
    # A commit that has written nothing waits for no standby; this one has written something, and waits.
    assure: str = """SELECT CASE WHEN current_setting('synchronous_standby_names') <> ''
        THEN pg_logical_emit_message(true, 'holdfast', '')::text END"""
    tick_standing: str = (
        "SELECT * FROM holdfast.tick_standing_v1("
        "$1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20)"
    )
    tick: str = (
        "SELECT * FROM holdfast.tick_v1("
        "$1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16)"
    )
    tick_events: str = (
        "SELECT * FROM holdfast.tick_events_v1("
        "$1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20)"
    )
    extend: str = "SELECT holdfast.extend_v1($1, $2, $3, $4, $5, $6, $7, $8)"
    edit: str = "SELECT holdfast.edit_v1($1, $2, $3)"
    forget: str = "SELECT holdfast.forget_v1($1, $2)"
    prune: str = "SELECT holdfast.prune_v1($1, $2, $3)"
    by_id: str = f"SELECT {COLUMNS} FROM holdfast.jobs WHERE ns = $1 AND id = ANY ($2::uuid[])"
    expired: str = f"""SELECT {COLUMNS} FROM holdfast.live
        WHERE ns = $1 AND worker IS NOT NULL AND lease_until <= (SELECT holdfast.now_v1())
        ORDER BY lease_until, id LIMIT $2"""
    history: str = """
        SELECT job, run, token, worker, started, finished, outcome, reason, error FROM holdfast.attempt
        WHERE ns = $1 AND job = $2::uuid
        UNION ALL
        SELECT id, run, token, ran_by, started, finished, 'success', reason, error FROM holdfast.done
        WHERE ns = $1 AND id = $2::uuid AND ran_by IS NOT NULL
        ORDER BY token"""
    count: str = """
        SELECT queue, state, sum(jobs)::bigint, sum(due)::bigint, sum(parked)::bigint FROM (
            SELECT queue, state, count(*) AS jobs, count(*) AS due, 0 AS parked
            FROM holdfast.job WHERE ns = $1 AND ready GROUP BY 1, 2
            UNION ALL
            SELECT queue, state, count(*), count(*) FILTER (WHERE due <= (SELECT holdfast.now_v1())), 0
            FROM holdfast.job WHERE ns = $1 AND NOT ready GROUP BY 1, 2
            UNION ALL
            SELECT queue, state, count(*), 0, count(*)
            FROM holdfast.job WHERE ns = $1 AND gate IS NOT NULL GROUP BY 1, 2
            UNION ALL
            SELECT queue, state, count(*), 0, 0
            FROM holdfast.live WHERE ns = $1 AND worker IS NOT NULL GROUP BY 1, 2
            UNION ALL
            SELECT queue, state, jobs, 0, 0 FROM holdfast.tally WHERE ns = $1
        ) AS counted GROUP BY queue, state HAVING sum(jobs) <> 0 ORDER BY queue, state"""
    # The same with no more than about so many of those that wait, evenly over the queues.
    count_some: str = """
        WITH RECURSIVE
            ready (name) AS (
                (SELECT queue FROM holdfast.job WHERE ns = $1 AND ready ORDER BY queue LIMIT 1)
                UNION ALL
                SELECT (
                    SELECT queue FROM holdfast.job WHERE ns = $1 AND ready AND queue > r.name
                    ORDER BY queue LIMIT 1)
                FROM ready AS r WHERE r.name IS NOT NULL
            ),
            later (name) AS (
                (SELECT queue FROM holdfast.job WHERE ns = $1 AND NOT ready ORDER BY queue LIMIT 1)
                UNION ALL
                SELECT (
                    SELECT queue FROM holdfast.job WHERE ns = $1 AND NOT ready AND queue > l.name
                    ORDER BY queue LIMIT 1)
                FROM later AS l WHERE l.name IS NOT NULL
            ),
            bound (most) AS (
                SELECT greatest(100, $2::bigint / greatest(1, count(*)))
                FROM (SELECT name FROM ready UNION ALL SELECT name FROM later) AS n
            )
        SELECT 'ready', r.name, c.state, count(*), count(*), b.most
        FROM bound AS b CROSS JOIN ready AS r CROSS JOIN LATERAL (
            SELECT state FROM holdfast.job WHERE ns = $1 AND ready AND queue = r.name
            ORDER BY queue, priority, coalesce(rank, due), id LIMIT b.most
        ) AS c WHERE r.name IS NOT NULL GROUP BY r.name, c.state, b.most
        UNION ALL
        SELECT 'later', l.name, c.state, count(*),
            count(*) FILTER (WHERE c.due <= (SELECT holdfast.now_v1())), b.most
        FROM bound AS b CROSS JOIN later AS l CROSS JOIN LATERAL (
            SELECT state, due FROM holdfast.job WHERE ns = $1 AND NOT ready AND queue = l.name
            ORDER BY queue, due LIMIT b.most
        ) AS c WHERE l.name IS NOT NULL GROUP BY l.name, c.state, b.most
        UNION ALL
        SELECT 'parked', c.queue, c.state, count(*), 0, $2
        FROM (
            SELECT queue, state FROM holdfast.job WHERE ns = $1 AND gate IS NOT NULL
            ORDER BY gate, queue, task, priority, coalesce(rank, due), id LIMIT $2
        ) AS c GROUP BY c.queue, c.state
        UNION ALL
        SELECT 'leased', queue, state, count(*), 0, NULL
        FROM holdfast.live WHERE ns = $1 AND worker IS NOT NULL GROUP BY queue, state
        UNION ALL
        SELECT 'done', queue, state, sum(jobs)::bigint, 0, NULL
        FROM holdfast.tally WHERE ns = $1 GROUP BY queue, state"""
    job_pages: str = "SELECT pg_relation_size('holdfast.job') / current_setting('block_size')::integer"
    # The same pages each time, so that what changes is the jobs and not the sample.
    count_sample: str = """
        SELECT CASE WHEN gate IS NOT NULL THEN 'parked' WHEN ready THEN 'ready' ELSE 'later' END, queue,
            state, count(*), count(*) FILTER (WHERE gate IS NULL AND due <= (SELECT holdfast.now_v1()))
        FROM holdfast.job TABLESAMPLE SYSTEM ($2) REPEATABLE (1)
        WHERE ns = $1 AND worker IS NULL GROUP BY 1, 2, 3"""
    find: str = f"""SELECT {COLUMNS} FROM holdfast.{{source}} WHERE ns = $1{{conditions}}
        ORDER BY id DESC LIMIT {{limit}}"""
    # The newest of each are found by its own index; together they would have to be sorted, all of them.
    find_any: str = "{} ORDER BY id DESC LIMIT {limit}"
    register: str = """
        INSERT INTO holdfast.worker AS w
            (ns, id, host, pid, queues, tasks, concurrency, version, started, seen, live_until)
        SELECT $1, $2, $3, $4, $5, $6, $7, $8, n, n, n + $9 FROM holdfast.now_v1() AS n
        ON CONFLICT (ns, id) DO UPDATE SET
            host = excluded.host, pid = excluded.pid, queues = excluded.queues, tasks = excluded.tasks,
            concurrency = excluded.concurrency, version = excluded.version, seen = excluded.seen,
            live_until = excluded.live_until"""
    beat: str = """
        UPDATE holdfast.worker SET seen = n, live_until = n + $3, report = coalesce($4, report),
            reported = CASE WHEN $4 IS NULL THEN reported ELSE n END
        FROM holdfast.now_v1() AS n WHERE ns = $1 AND id = $2 RETURNING true"""
    retire: str = "DELETE FROM holdfast.worker WHERE ns = $1 AND id = $2"
    forget_workers: str = (
        "DELETE FROM holdfast.worker WHERE ns = $1 AND live_until <= holdfast.now_v1() - 86400000000"
    )
    workers: str = """
        SELECT id, host, pid, queues, tasks, concurrency, version, started, seen,
            live_until > holdfast.now_v1(), report, reported,
            live_until > holdfast.now_v1() - 86400000000
        FROM holdfast.worker WHERE ns = $1 ORDER BY id"""
    pause: str = """
        INSERT INTO holdfast.queue AS q (ns, name, paused, since) SELECT $1, $2, true, holdfast.now_v1()
        ON CONFLICT (ns, name) DO UPDATE SET paused = true, since = coalesce(q.since, excluded.since)"""
    resume: str = "UPDATE holdfast.queue SET paused = false, since = NULL WHERE ns = $1 AND name = $2"
    # Walks from name to name along the indexes, so that many jobs in few queues cost little; of what is ready
    # also from priority to priority, each with its first. Of more than a hundred the rest is left out.
    queues: str = """
        WITH RECURSIVE
            ready (name, priority, since, n) AS (
                (SELECT queue, priority, greatest(due, created), 1 FROM holdfast.job WHERE ns = $1 AND ready
                 ORDER BY queue, priority, coalesce(rank, due), id LIMIT 1)
                UNION ALL
                SELECT f.queue, f.priority, f.since, CASE WHEN f.queue = r.name THEN r.n + 1 ELSE 1 END
                FROM ready AS r CROSS JOIN LATERAL (
                    SELECT queue, priority, greatest(due, created) AS since FROM holdfast.job
                    WHERE ns = $1 AND ready AND (queue, priority)
                        > (r.name, CASE WHEN r.n < 100 THEN r.priority ELSE 9223372036854775807 END)
                    ORDER BY queue, priority, coalesce(rank, due), id LIMIT 1
                ) AS f
            ),
            later (name, due, since) AS (
                (SELECT queue, due, greatest(due, created) FROM holdfast.job WHERE ns = $1 AND NOT ready
                 ORDER BY queue, due LIMIT 1)
                UNION ALL
                SELECT f.queue, f.due, f.since FROM later AS l CROSS JOIN LATERAL (
                    SELECT queue, due, greatest(due, created) AS since FROM holdfast.job
                    WHERE ns = $1 AND NOT ready AND queue > l.name ORDER BY queue, due LIMIT 1
                ) AS f
            ),
            parked (gate, name) AS (
                (SELECT gate, queue FROM holdfast.job WHERE ns = $1 AND gate IS NOT NULL
                 ORDER BY gate, queue LIMIT 1)
                UNION ALL
                SELECT n.gate, n.queue FROM parked AS p CROSS JOIN LATERAL (
                    SELECT gate, queue FROM holdfast.job
                    WHERE ns = $1 AND gate IS NOT NULL AND (gate, queue) > (p.gate, p.name)
                    ORDER BY gate, queue LIMIT 1
                ) AS n
            ),
            known (name) AS (
                SELECT name FROM ready UNION SELECT name FROM later UNION SELECT name FROM parked
                UNION SELECT queue FROM holdfast.job WHERE ns = $1 AND worker IS NOT NULL
                UNION SELECT name FROM holdfast.queue WHERE ns = $1
            ),
            waiting (name, since) AS (
                SELECT name, min(since) FROM (
                    SELECT name, since FROM ready
                    UNION ALL SELECT name, since FROM later WHERE due <= (SELECT holdfast.now_v1())
                ) AS w GROUP BY name
            )
        SELECT k.name, coalesce(q.paused, false), q.since, holdfast.now_v1() - w.since
        FROM known AS k LEFT JOIN waiting AS w ON w.name = k.name
        LEFT JOIN holdfast.queue AS q ON q.ns = $1 AND q.name = k.name
        WHERE k.name IS NOT NULL ORDER BY k.name"""
    lock_acquire: str = "SELECT * FROM holdfast.lock_acquire_v1($1, $2, $3, $4, $5, $6)"
    lock_holder: str = """
        SELECT owner, token, until - n FROM holdfast.lock, holdfast.now_v1() AS n
        WHERE ns = $1 AND name = $2 AND until > n
    """
    locks: str = """
        SELECT k.name, k.owner, k.token, k.until - n, (
            SELECT count(*) FROM holdfast.lock_line AS l WHERE l.ns = $1 AND l.name = k.name AND l.until > n)
        FROM holdfast.lock AS k, holdfast.now_v1() AS n
        WHERE k.ns = $1 AND k.name > $2 AND k.until > n ORDER BY k.name LIMIT $3"""
    lock_renew: str = "SELECT holdfast.lock_renew_v1($1, $2, $3, $4, $5)"
    lock_release: str = "SELECT holdfast.lock_release_v1($1, $2, $3, $4, $5, $6)"
    schedule_write: str = (
        "SELECT holdfast.schedule_write_v2("
        "$1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16)"
    )
    schedule_remove: str = "DELETE FROM holdfast.schedule WHERE ns = $1 AND name = $2 RETURNING true"
    schedules: str = """
        SELECT n.now, NULL::bigint, s.* FROM holdfast.now_v1() AS n(now)
        LEFT JOIN LATERAL holdfast.schedules_v1($1, $2) AS s ON true ORDER BY s.place"""
    schedules_after: str = """
        SELECT n.now, NULL::bigint, s.* FROM holdfast.now_v1() AS n(now)
        LEFT JOIN LATERAL holdfast.schedules_v1($1, ARRAY(
            SELECT name FROM holdfast.schedule WHERE ns = $1 AND name > $2 ORDER BY name LIMIT $3)
        ) AS s ON true ORDER BY s.place"""
    schedules_due: str = """
        SELECT d.now, d.next_look, s.* FROM holdfast.schedules_due_v1($1, $2) AS d
        LEFT JOIN LATERAL holdfast.schedules_v1($1, d.names) AS s ON true ORDER BY s.place"""
    append: str = "SELECT holdfast.append_v1($1, NULL, $2, $3, $4, $5, $6, $7, $8)"
    append_jobs: str = """
        SELECT holdfast.add_v1(
                   $1, n.now, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17),
               holdfast.append_v1($1, n.now, $18, $19, $20, $21, $22, $23, NULL)
        FROM holdfast.now_v1() AS n(now)"""
    sequence: str = "SELECT holdfast.sequence_v1($1, 1000)"
    read_events: str = "SELECT * FROM holdfast.read_events_v1($1, $2, $3, $4, $5, $6)"
    last_event: str = "SELECT last FROM holdfast.event_head WHERE ns = $1"
    prune_events: str = "SELECT holdfast.prune_events_v1($1, $2, $3, $4, $5)"
    put_limits: str = "SELECT holdfast.put_limits_v1($1, $2)"
    swap_limit: str = "SELECT holdfast.swap_limit_v1($1, $2, $3, $4, $5)"
    remove_limit: str = "SELECT holdfast.remove_limit_v1($1, $2, $3)"
    limits: str = """
        SELECT scope, name, concurrency, rate, period, burst, paused, weight, declared, since
        FROM holdfast.limits WHERE ns = $1 ORDER BY scope, name"""
    usage: str = """
        SELECT u.running, u.parked FROM unnest($2::text[]) WITH ORDINALITY AS g(name, n)
        CROSS JOIN LATERAL holdfast.usage_v1($1, g.name) AS u ORDER BY g.n"""
    awaited: str = """
        SELECT (SELECT count(*) FROM holdfast.link AS l WHERE l.ns = $1 AND l.waiter = s.id),
            (SELECT count(*) FROM holdfast.link AS l
             WHERE l.ns = $1 AND l.waiter = s.id AND l.state IS NULL),
            (SELECT count(*) FROM holdfast.link AS l WHERE l.ns = $1 AND l.waiter = s.id AND l.state <> 3),
            coalesce(s.held, false)
        FROM holdfast.jobs AS s WHERE s.ns = $1 AND s.id = $2::uuid"""
    before: str = """
        SELECT job, state FROM holdfast.link
        WHERE ns = $1 AND waiter = $2::uuid AND ($3::uuid IS NULL OR job > $3::uuid)
        ORDER BY job LIMIT $4"""
    release: str = "SELECT holdfast.release_v1($1, $2)"
    held: str = """
        SELECT id FROM holdfast.job
        WHERE ns = $1 AND gate = 'after' AND held AND ($2::uuid IS NULL OR id > $2::uuid)
        ORDER BY id LIMIT $3"""
    proceed: str = "SELECT holdfast.proceed_v1($1, $2)"
    halted: str = "SELECT sequence, job FROM holdfast.halt WHERE ns = $1 ORDER BY sequence"
    overdue: str = """
        SELECT id FROM holdfast.job
        WHERE ns = $1 AND expires <= (SELECT holdfast.now_v1()) AND run = 0 AND worker IS NULL
        ORDER BY expires, id LIMIT $2"""
    notify: str = "SELECT pg_notify($1, $2)"


@lru_cache(maxsize=32)
def queries(address: Address) -> Queries:
    """The statements for one place."""
    plain = Queries()
    return Queries(**{name: address.rendered(getattr(plain, name)) for name in Queries.__slots__})


def found(known: Queries, query: Query) -> tuple[str, list[Any]]:
    """The statement for a search, and its parameters after the namespace."""
    args: list[Any] = []

    def place(value: Any) -> str:
        args.append(value)
        return f"${len(args) + 1}"

    conditions = ""
    for column, value in (
        ("queue = {}", query.queue),
        ("task = {}", query.task),
        ("tags @> ARRAY[{}::text]", query.tag),
        ("worker = {}", query.worker),
        ("due >= {}", query.due_after),
        ("due < {}", query.due_before),
        ("id < {}::uuid", query.cursor),
    ):
        if value is not None:
            conditions += " AND " + column.format(place(value))
    limit = place(query.limit)
    parts = [
        known.find.format(source=source, conditions=conditions + states, limit=limit)
        for source, states in _sources(query)
    ]
    if len(parts) == 1:
        return parts[0], args
    return known.find_any.format(" UNION ALL ".join(f"({part})" for part in parts), limit=limit), args


def _sources(query: Query) -> list[tuple[str, str]]:
    """Which views have what is searched for, and the condition for its state there.

    What is finished is searched state by state: of one state an index has it in the order that is wanted.
    """
    if not query.states:
        return [("live", "")] if query.worker is not None else [("live", ""), ("finished", "")]
    live, done = query.states - FINISHED, query.states & FINISHED
    if query.worker is not None:
        done = frozenset[State]()
    parts = [("finished", f" AND state = {code}") for code in sorted(CODES[state] for state in done)]
    if live or not parts:
        codes = ", ".join(str(CODES[state]) for state in sorted(live or query.states))
        is_leased = " AND worker IS NOT NULL" if live <= LEASED else ""
        parts.append(("live", f" AND state IN ({codes}){is_leased}"))
    return parts
