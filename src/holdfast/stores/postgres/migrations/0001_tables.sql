-- min-client: 1
-- Live jobs stand in job, finished ones in done: a state names one table. What changes while a job is leased
-- stands in lease, so that a job's own row is written by its claim and by its end and by nothing between them:
-- a transaction that will end the attempt never meets a heartbeat, whatever its isolation.
-- Times are microseconds since 1970 by this server's clock. States: 0 scheduled, 1 claimed, 2 running,
-- 3 success, 4 failed, 5 retry, 6 dlq, 7 cancelled.
-- What is sound keeps out what nobody could work with: a state that is none, a count, token or duration so large that the
-- next one is no number any more, tags that are no list of texts. One such row would have every claim that meets it fail.

CREATE TABLE holdfast.namespace (
    id integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name text COLLATE "C" NOT NULL UNIQUE,
    retention bigint
);

-- ready: true due and waiting, false waiting for its due time, null leased or parked. worker and seq: who claimed it, by
-- which tick. The index of leased jobs leaves the worker out: each claim writes it, and few jobs have the same seq.
-- The last columns are null in jobs that wait for nothing but their turn. rank: instead of due in the order of claims.
-- place: in its sequence. gate: where it is parked. unmet: how many of those that it waited for did not succeed.
CREATE TABLE holdfast.job (
    due bigint NOT NULL,
    created bigint NOT NULL,
    priority bigint NOT NULL,
    token bigint NOT NULL DEFAULT 0,
    seq bigint,
    lease_until bigint,
    started bigint,
    lease bigint,
    timeout bigint,
    id uuid NOT NULL,
    ns integer NOT NULL,
    version integer NOT NULL DEFAULT 1,
    run integer NOT NULL DEFAULT 0,
    failures integer NOT NULL DEFAULT 0,
    lost integer NOT NULL DEFAULT 0,
    state smallint NOT NULL DEFAULT 0,
    ready boolean,
    suspect boolean NOT NULL DEFAULT false,
    cancel_asked boolean NOT NULL DEFAULT false,
    progress double precision,
    task text COLLATE "C" NOT NULL,
    queue text COLLATE "C" NOT NULL,
    worker text COLLATE "C",
    key text COLLATE "C",
    tags text[],
    payload bytea NOT NULL,
    headers bytea,
    retry bytea,
    result bytea,
    progress_note text,
    reason text,
    error text,
    rank bigint,
    place bigint,
    expires bigint,
    unmet integer,
    halts boolean,
    after_any boolean,
    held boolean,
    limit_key text COLLATE "C",
    fair_key text COLLATE "C",
    sequence text COLLATE "C",
    gate text COLLATE "C",
    CONSTRAINT holdfast_job_pkey PRIMARY KEY (ns, id) WITH (fillfactor = 50),
    CONSTRAINT holdfast_job_sound CHECK (
        state BETWEEN 0 AND 7
        AND least(due, created) >= -9000000000000000000
        AND least(run, failures, lost, version) >= 0 AND greatest(run, failures, lost, version) <= 2000000000
        AND token BETWEEN 0 AND 9000000000000000000
        AND coalesce(lease BETWEEN 0 AND 4611686018427387904, true)
        AND coalesce(array_ndims(tags) = 1 AND array_position(tags, NULL) IS NULL, true)
    )
) WITH (
    fillfactor = 45,
    autovacuum_vacuum_scale_factor = 0.01,
    autovacuum_vacuum_threshold = 1000,
    autovacuum_vacuum_insert_scale_factor = 0.05,
    autovacuum_analyze_scale_factor = 0.05,
    autovacuum_vacuum_cost_delay = 0,
    toast.autovacuum_vacuum_scale_factor = 0.01,
    toast.autovacuum_vacuum_cost_delay = 0
);
CREATE INDEX holdfast_job_ready ON holdfast.job (ns, queue, priority, (coalesce(rank, due)), id) WHERE ready;
CREATE INDEX holdfast_job_later ON holdfast.job (ns, queue, due) WHERE NOT ready;
CREATE INDEX holdfast_job_leased ON holdfast.job (ns, seq) WHERE worker IS NOT NULL;
CREATE INDEX holdfast_job_asked ON holdfast.job (ns, worker) WHERE cancel_asked AND worker IS NOT NULL;
CREATE INDEX holdfast_job_parked ON holdfast.job (ns, gate, queue, task, priority, (coalesce(rank, due)), id)
    WHERE gate IS NOT NULL;
CREATE INDEX holdfast_job_turn ON holdfast.job (ns, sequence, place, id) WHERE sequence IS NOT NULL;
CREATE INDEX holdfast_job_at_turn ON holdfast.job (ns, sequence) WHERE sequence IS NOT NULL AND worker IS NOT NULL;
CREATE INDEX holdfast_job_keyed ON holdfast.job (ns, limit_key) WHERE limit_key IS NOT NULL AND worker IS NOT NULL;
CREATE INDEX holdfast_job_expires ON holdfast.job (ns, expires, id) WHERE expires IS NOT NULL AND run = 0;
CREATE SEQUENCE holdfast.place OWNED BY holdfast.job.place;

-- What a heartbeat, a start or a wish to cancel says of one lease. Absent while nothing was said. A row whose
-- token is not the job's is left over, says nothing, and is swept away.
CREATE TABLE holdfast.lease (
    until bigint NOT NULL,
    started bigint,
    token bigint NOT NULL,
    job uuid NOT NULL,
    ns integer NOT NULL,
    changes integer NOT NULL DEFAULT 0,
    running boolean NOT NULL DEFAULT false,
    cancel_asked boolean NOT NULL DEFAULT false,
    progress double precision,
    worker text COLLATE "C" NOT NULL,
    progress_note text,
    PRIMARY KEY (ns, job, token)
) WITH (
    fillfactor = 70,
    autovacuum_vacuum_scale_factor = 0.05,
    autovacuum_vacuum_threshold = 500,
    autovacuum_vacuum_cost_delay = 0
);
CREATE INDEX holdfast_lease_asked ON holdfast.lease (ns, worker) WHERE cancel_asked;

-- By day of the id, which tells when the job was made: one probe finds an id, and old days are dropped whole.
-- ran_by: the worker of a plain success, whose attempt is told by this row and has none in attempt. The state -1 stands only
-- within a transaction.
CREATE TABLE holdfast.done (
    due bigint NOT NULL,
    created bigint NOT NULL,
    finished bigint NOT NULL,
    priority bigint NOT NULL,
    token bigint NOT NULL,
    started bigint,
    lease bigint,
    timeout bigint,
    id uuid NOT NULL,
    ns integer NOT NULL,
    version integer NOT NULL,
    run integer NOT NULL,
    failures integer NOT NULL,
    lost integer NOT NULL,
    state smallint NOT NULL,
    suspect boolean NOT NULL,
    cancel_asked boolean NOT NULL,
    progress double precision,
    task text COLLATE "C" NOT NULL,
    queue text COLLATE "C" NOT NULL,
    ran_by text COLLATE "C",
    key text COLLATE "C",
    tags text[],
    payload bytea NOT NULL,
    headers bytea,
    retry bytea,
    result bytea,
    progress_note text,
    reason text,
    error text,
    rank bigint,
    place bigint,
    expires bigint,
    unmet integer,
    halts boolean,
    after_any boolean,
    held boolean,
    limit_key text COLLATE "C",
    fair_key text COLLATE "C",
    sequence text COLLATE "C",
    CONSTRAINT holdfast_done_pkey PRIMARY KEY (ns, id),
    CONSTRAINT holdfast_done_sound CHECK (state BETWEEN -1 AND 7)
) PARTITION BY RANGE (id);
CREATE INDEX holdfast_done_finished ON holdfast.done USING brin (finished) WITH (pages_per_range = 32, autosummarize = on);
CREATE INDEX holdfast_done_state ON holdfast.done (ns, state, id) WHERE state <> 3;
CREATE TABLE holdfast.done_other PARTITION OF holdfast.done DEFAULT;
CREATE INDEX holdfast_done_other_finished ON holdfast.done_other (ns, finished) WHERE state <> 6;

-- Ended attempts, but for plain successes. closer: who ended it, if not its own worker.
CREATE TABLE holdfast.attempt (
    token bigint NOT NULL,
    started bigint,
    finished bigint NOT NULL,
    job uuid NOT NULL,
    ns integer NOT NULL,
    run integer NOT NULL,
    worker text COLLATE "C" NOT NULL,
    closer text COLLATE "C",
    outcome text NOT NULL,
    reason text,
    error text,
    CONSTRAINT holdfast_attempt_pkey PRIMARY KEY (ns, job, token)
) PARTITION BY RANGE (job);
CREATE TABLE holdfast.attempt_other PARTITION OF holdfast.attempt DEFAULT;

-- The days that have partitions of done and attempt, or are to have them; upto is the end of the day, name their suffix,
-- again the instant before which making or dropping them is not tried again.
CREATE TABLE holdfast.day (
    upto bigint NOT NULL,
    again bigint NOT NULL DEFAULT 0,
    made boolean NOT NULL DEFAULT false,
    name text PRIMARY KEY,
    CONSTRAINT holdfast_day_sound CHECK (upto BETWEEN 0 AND 253402300799999999 AND name ~ '^[0-9]{8}$')
);

-- Held by its job while that is live, and until the end of the TTL if it has one.
CREATE TABLE holdfast.key (
    until bigint,
    ns integer NOT NULL,
    job uuid NOT NULL,
    key text COLLATE "C" NOT NULL,
    PRIMARY KEY (ns, key)
);
CREATE INDEX holdfast_key_until ON holdfast.key (ns, until) WHERE until IS NOT NULL;
CREATE INDEX holdfast_key_job ON holdfast.key (ns, job);

-- How many finished jobs there are in each partition of done, as changes to be summed up: nobody waits for anybody to
-- count, and a day that is dropped need not be counted.
CREATE TABLE holdfast.tally (
    jobs bigint NOT NULL,
    part oid NOT NULL,
    ns integer NOT NULL,
    state smallint NOT NULL,
    queue text COLLATE "C" NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_cost_delay = 0);

CREATE TABLE holdfast.worker (
    started bigint NOT NULL,
    seen bigint NOT NULL,
    live_until bigint NOT NULL,
    ns integer NOT NULL,
    pid integer NOT NULL,
    concurrency integer NOT NULL,
    id text COLLATE "C" NOT NULL,
    host text NOT NULL,
    queues text[] NOT NULL,
    tasks text[] NOT NULL,
    version text NOT NULL,
    reported bigint NOT NULL DEFAULT 0,
    report bytea,
    PRIMARY KEY (ns, id)
) WITH (fillfactor = 50);

-- A queue stands here once it was paused. since: when it was, null while it is not.
CREATE TABLE holdfast.queue (
    since bigint,
    ns integer NOT NULL,
    paused boolean NOT NULL,
    name text COLLATE "C" NOT NULL,
    PRIMARY KEY (ns, name)
);

-- A namespace stands here once a limit was put there that can hold jobs back, or a job was added that waits for others or
-- its turn: from then on all claims there come one after the other. It may stand here more than once, so that nobody waits
-- for another's transaction.
CREATE TABLE holdfast.flowing (ns integer NOT NULL);
CREATE INDEX holdfast_flowing_ns ON holdfast.flowing (ns);

-- since: when it was paused, null while it is not.
CREATE TABLE holdfast.limits (
    period bigint NOT NULL,
    since bigint,
    weight double precision NOT NULL,
    ns integer NOT NULL,
    concurrency integer,
    rate bigint,
    burst bigint NOT NULL,
    paused boolean NOT NULL,
    declared boolean NOT NULL,
    scope text COLLATE "C" NOT NULL,
    name text COLLATE "C" NOT NULL,
    PRIMARY KEY (ns, scope, name),
    CONSTRAINT holdfast_limits_sound CHECK (
        scope IN ('queue', 'task', 'key', 'each_key')
        AND coalesce(rate BETWEEN 0 AND 2147483647, true)
        AND burst BETWEEN 0 AND 2147483647
        AND period BETWEEN 0 AND 4000000000000000
    )
);

-- Gates with a rate: how far it is used up. opens: when the gate is to be looked at because of the time.
CREATE TABLE holdfast.gate (
    last bigint NOT NULL,
    opens bigint,
    ns integer NOT NULL,
    name text COLLATE "C" NOT NULL,
    PRIMARY KEY (ns, name)
) WITH (autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_cost_delay = 0);
CREATE INDEX holdfast_gate_opens ON holdfast.gate (ns, opens) WHERE opens IS NOT NULL;

-- Gates whose room nobody can take until another gate opens: that of the queue or task of all who stand in line there.
CREATE TABLE holdfast.behind (
    ns integer NOT NULL,
    gate text COLLATE "C" NOT NULL,
    other text COLLATE "C" NOT NULL,
    PRIMARY KEY (ns, gate, other)
) WITH (autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_cost_delay = 0);

-- A job that waits, or has waited, for another. state: how that ended, null while it is pending.
CREATE TABLE holdfast.link (
    waiter uuid NOT NULL,
    job uuid NOT NULL,
    ns integer NOT NULL,
    state smallint,
    PRIMARY KEY (ns, waiter, job),
    CONSTRAINT holdfast_link_sound CHECK (state BETWEEN -1 AND 7)
);
-- Those who look for a job or a waiter compare the namespace in a way that fits no index, so that no other is taken before
-- the table was ever analysed; the last tells whether anything is pending at all.
CREATE INDEX holdfast_link_job ON holdfast.link (job) WHERE state IS NULL;
CREATE INDEX holdfast_link_pending ON holdfast.link (waiter) WHERE state IS NULL;
CREATE INDEX holdfast_link_unmet ON holdfast.link (waiter) WHERE state <> 3;
CREATE INDEX holdfast_link_open ON holdfast.link (ns) WHERE state IS NULL;

-- Sequences that a job has halted.
CREATE TABLE holdfast.halt (
    job uuid NOT NULL,
    ns integer NOT NULL,
    sequence text COLLATE "C" NOT NULL,
    PRIMARY KEY (ns, sequence)
);

-- The rank of the last job of each fair key of a queue.
CREATE TABLE holdfast.fair (
    last bigint NOT NULL,
    ns integer NOT NULL,
    queue text COLLATE "C" NOT NULL,
    key text COLLATE "C" NOT NULL,
    PRIMARY KEY (ns, queue, key)
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_cost_delay = 0);
CREATE INDEX holdfast_fair_last ON holdfast.fair (ns, queue, last);

-- What the next tick is to look at, because those who did it could not: a job that was added and waits for others, or is
-- put before another; or one that ended, was changed or removed, with what it belonged to then.
CREATE TABLE holdfast.note (
    ns integer NOT NULL,
    job uuid NOT NULL,
    is_new boolean NOT NULL,
    before uuid,
    queue text COLLATE "C",
    task text COLLATE "C",
    limit_key text COLLATE "C",
    sequence text COLLATE "C",
    n bigint GENERATED BY DEFAULT AS IDENTITY
) WITH (autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 500, autovacuum_vacuum_cost_delay = 0);
CREATE INDEX holdfast_note_n ON holdfast.note (ns, n);

-- Live jobs as they stand.
CREATE VIEW holdfast.live AS
SELECT j.ns, j.id, j.task, j.queue, j.payload,
       CASE WHEN l.running THEN 2::smallint ELSE j.state END AS state,
       j.priority, j.due, j.created, j.run, j.failures, j.lost, j.suspect,
       j.version + coalesce(l.changes, 0) AS version,
       j.token, j.worker, coalesce(l.until, j.lease_until) AS lease_until, j.lease, j.timeout, j.retry, j.headers,
       j.key, j.tags, coalesce(l.started, j.started) AS started, NULL::bigint AS finished,
       j.cancel_asked OR coalesce(l.cancel_asked, false) AS cancel_asked,
       CASE WHEN l.job IS NULL THEN j.progress ELSE l.progress END AS progress,
       CASE WHEN l.job IS NULL THEN j.progress_note ELSE l.progress_note END AS progress_note,
       j.reason, j.error, j.result, j.limit_key, j.fair_key, j.rank, j.sequence, j.place, j.halts, j.after_any, j.held,
       j.expires, j.unmet, j.gate,
       CASE WHEN num_nonnulls(j.limit_key, j.fair_key, j.sequence, j.halts, j.after_any, j.expires, j.unmet, j.gate) > 0
       THEN json_strip_nulls(json_build_object(
           'limit_key', j.limit_key, 'fair_key', j.fair_key, 'rank', j.rank, 'sequence', j.sequence, 'halts', j.halts,
           'after_any', j.after_any, 'expires', j.expires, 'unmet', j.unmet, 'parked', j.gate)) END AS flow
FROM holdfast.job AS j
LEFT JOIN holdfast.lease AS l ON l.ns = j.ns AND l.job = j.id AND l.token = j.token AND j.worker IS NOT NULL;

-- Finished jobs as they stand.
CREATE VIEW holdfast.finished AS
SELECT d.ns, d.id, d.task, d.queue, d.payload, d.state, d.priority, d.due, d.created, d.run, d.failures, d.lost,
       d.suspect, d.version, d.token, NULL::text COLLATE "C" AS worker, NULL::bigint AS lease_until, d.lease, d.timeout,
       d.retry, d.headers, d.key, d.tags, d.started, d.finished, d.cancel_asked, d.progress, d.progress_note, d.reason,
       d.error, d.result, d.limit_key, d.fair_key, d.rank, d.sequence, d.place, d.halts, d.after_any, d.held, d.expires,
       d.unmet, NULL::text COLLATE "C" AS gate,
       CASE WHEN num_nonnulls(d.limit_key, d.fair_key, d.sequence, d.halts, d.after_any, d.expires, d.unmet) > 0
       THEN json_strip_nulls(json_build_object(
           'limit_key', d.limit_key, 'fair_key', d.fair_key, 'rank', d.rank, 'sequence', d.sequence, 'halts', d.halts,
           'after_any', d.after_any, 'expires', d.expires, 'unmet', d.unmet)) END AS flow
FROM holdfast.done AS d;

-- All jobs.
CREATE VIEW holdfast.jobs AS SELECT * FROM holdfast.live UNION ALL SELECT * FROM holdfast.finished;
