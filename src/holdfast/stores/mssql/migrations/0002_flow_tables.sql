-- min-client: 1
-- A namespace stands here once a limit was put there that can hold jobs back, or a job was added that waits for others or its
-- turn: from then on all claims there come one after the other. It may stand here more than once, so that nobody waits for
-- another's transaction.
CREATE TABLE holdfast.flowing (
    ns int NOT NULL,
    n bigint IDENTITY(1, 1) NOT NULL,
    CONSTRAINT holdfast_flowing_pkey PRIMARY KEY CLUSTERED (ns, n)
);
GO

-- since: when it was paused, null while it is not.
CREATE TABLE holdfast.limits (
    ns int NOT NULL,
    scope varchar(10) COLLATE Latin1_General_BIN2 NOT NULL,
    name nvarchar(200) COLLATE Latin1_General_BIN2 NOT NULL,
    concurrency int NULL,
    rate bigint NULL,
    period bigint NOT NULL,
    burst bigint NOT NULL,
    paused bit NOT NULL,
    weight float NOT NULL,
    declared bit NOT NULL,
    since bigint NULL,
    CONSTRAINT holdfast_limits_pkey PRIMARY KEY CLUSTERED (ns, scope, name)
);
GO

-- last: how far a gate with a rate has used it up. opens: when the gate is to be looked at; 0 if it may have room by now.
CREATE TABLE holdfast.gate (
    ns int NOT NULL,
    name nvarchar(220) COLLATE Latin1_General_BIN2 NOT NULL,
    last bigint NOT NULL,
    opens bigint NULL,
    CONSTRAINT holdfast_gate_pkey PRIMARY KEY CLUSTERED (ns, name)
);
CREATE INDEX holdfast_gate_opens ON holdfast.gate (ns, opens) WHERE opens IS NOT NULL;
GO

-- Gates whose room nobody can take until another gate opens: that of the queue or task of all who stand in line there.
CREATE TABLE holdfast.behind (
    ns int NOT NULL,
    gate nvarchar(220) COLLATE Latin1_General_BIN2 NOT NULL,
    other nvarchar(220) COLLATE Latin1_General_BIN2 NOT NULL,
    CONSTRAINT holdfast_behind_pkey PRIMARY KEY CLUSTERED (ns, gate, other)
);
GO

-- A job that waits, or has waited, for another. state: how that ended, null while it is pending.
CREATE TABLE holdfast.link (
    ns int NOT NULL,
    waiter char(36) COLLATE Latin1_General_BIN2 NOT NULL,
    job char(36) COLLATE Latin1_General_BIN2 NOT NULL,
    state tinyint NULL,
    CONSTRAINT holdfast_link_pkey PRIMARY KEY CLUSTERED (ns, waiter, job)
);
CREATE INDEX holdfast_link_job ON holdfast.link (ns, job, waiter) INCLUDE (state) WHERE state IS NULL;
CREATE INDEX holdfast_link_pending ON holdfast.link (ns, waiter) INCLUDE (state) WHERE state IS NULL;
CREATE INDEX holdfast_link_unmet ON holdfast.link (ns, waiter) WHERE state <> 3;
GO

-- Sequences that a job has halted.
CREATE TABLE holdfast.halt (
    ns int NOT NULL,
    sequence nvarchar(200) COLLATE Latin1_General_BIN2 NOT NULL,
    job char(36) COLLATE Latin1_General_BIN2 NOT NULL,
    CONSTRAINT holdfast_halt_pkey PRIMARY KEY CLUSTERED (ns, sequence)
);
GO

-- The rank of the last job of each fair key of a queue.
CREATE TABLE holdfast.fair (
    ns int NOT NULL,
    queue nvarchar(200) COLLATE Latin1_General_BIN2 NOT NULL,
    fair_key nvarchar(200) COLLATE Latin1_General_BIN2 NOT NULL,
    last bigint NOT NULL,
    CONSTRAINT holdfast_fair_pkey PRIMARY KEY CLUSTERED (ns, queue, fair_key)
);
CREATE INDEX holdfast_fair_last ON holdfast.fair (ns, queue, last);
GO

-- What is to be looked at by whoever has the flow lock next: a job that was added and waits for others, or is put before
-- another, or was released; or one that ended, was changed or removed, with what it belonged to then.
CREATE TABLE holdfast.note (
    ns int NOT NULL,
    n bigint IDENTITY(1, 1) NOT NULL,
    job char(36) COLLATE Latin1_General_BIN2 NOT NULL,
    is_new bit NOT NULL,
    before_id char(36) COLLATE Latin1_General_BIN2 NULL,
    queue nvarchar(200) COLLATE Latin1_General_BIN2 NULL,
    task nvarchar(200) COLLATE Latin1_General_BIN2 NULL,
    limit_key nvarchar(200) COLLATE Latin1_General_BIN2 NULL,
    sequence nvarchar(200) COLLATE Latin1_General_BIN2 NULL,
    CONSTRAINT holdfast_note_pkey PRIMARY KEY CLUSTERED (ns, n)
);
GO

-- What is leased, however much waits.
CREATE INDEX holdfast_job_counted ON holdfast.job (ns, queue, task) WHERE worker IS NOT NULL;
CREATE INDEX holdfast_job_at_key ON holdfast.job (ns, limit_key) WHERE limit_key IS NOT NULL AND worker IS NOT NULL;
CREATE INDEX holdfast_job_at_turn ON holdfast.job (ns, sequence) WHERE sequence IS NOT NULL AND worker IS NOT NULL;
GO
