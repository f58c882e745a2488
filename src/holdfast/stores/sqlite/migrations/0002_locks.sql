-- min-client: 1
-- Named locks: who holds each, under which token, until when. A row that has ended says nothing, and is swept away.
CREATE TABLE holdfast_lock (
    ns INTEGER NOT NULL,
    name TEXT NOT NULL,
    owner TEXT NOT NULL,
    token INTEGER NOT NULL,
    until INTEGER NOT NULL,
    CHECK (min(token, until) >= -9000000000000000000 AND max(token, until) <= 9000000000000000000),
    PRIMARY KEY (ns, name)
) STRICT, WITHOUT ROWID;
CREATE INDEX holdfast_lock_until ON holdfast_lock (until);

-- Who stands in line for a lock, in the order of pk, until when.
CREATE TABLE holdfast_lock_line (
    pk INTEGER PRIMARY KEY,
    ns INTEGER NOT NULL,
    name TEXT NOT NULL,
    owner TEXT NOT NULL,
    until INTEGER NOT NULL,
    CHECK (until BETWEEN -9000000000000000000 AND 9000000000000000000)
) STRICT;
CREATE UNIQUE INDEX holdfast_lock_line_owner ON holdfast_lock_line (ns, name, owner);
CREATE INDEX holdfast_lock_line_until ON holdfast_lock_line (until);

-- The last token of any lock of the namespace.
CREATE TABLE holdfast_lock_token (
    ns INTEGER PRIMARY KEY,
    token INTEGER NOT NULL,
    CHECK (token BETWEEN 0 AND 9000000000000000000)
) STRICT;
