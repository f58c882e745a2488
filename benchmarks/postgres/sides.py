"""The programs that are measured: how each is had, started, and asked what is unfinished."""

from functools import partial
from pathlib import Path

from benchmarks.program import Program, install_node, install_python, node, ours, peer

PROGRAMS = "benchmarks.postgres.programs"
GRAPHILE = node(Path(__file__).with_name("programs") / "graphile_program.cjs")

INSTALL_PGQUEUER = partial(install_python, "pgqueuer", "pgqueuer[asyncpg]==1.6.*", "uvloop")
INSTALL_PROCRASTINATE = partial(
    install_python, "procrastinate", "procrastinate==3.10.*", "psycopg[binary]", "uvloop"
)
# The last that runs on Node 20.
INSTALL_GRAPHILE = partial(install_node, "graphile", "graphile-worker@0.17.3")

HOLDFAST = Program(ours("benchmarks.programs.holdfast_program"), "SELECT EXISTS (SELECT FROM holdfast.job)")
BARE = Program(ours(f"{PROGRAMS}.bare_program"), "SELECT EXISTS (SELECT FROM job)")
COPY = Program(ours(f"{PROGRAMS}.copy_program"), HOLDFAST.unfinished)
PGQUEUER_BATCH = Program(
    peer("pgqueuer", f"{PROGRAMS}.pgqueuer_program"),
    "SELECT EXISTS (SELECT FROM pgqueuer WHERE status IN ('queued', 'picked'))",
    install=INSTALL_PGQUEUER,
)
PROCRASTINATE_POOL = Program(
    peer("procrastinate", f"{PROGRAMS}.procrastinate_program"),
    "SELECT EXISTS (SELECT FROM procrastinate_jobs WHERE status IN ('todo', 'doing'))",
    install=INSTALL_PROCRASTINATE,
)
GRAPHILE_PLAIN = Program(
    GRAPHILE, "SELECT EXISTS (SELECT FROM graphile_worker.jobs)", install=INSTALL_GRAPHILE
)
GRAPHILE_BATCH = Program(
    GRAPHILE, GRAPHILE_PLAIN.unfinished, environ=(("PEER_BATCH", "1"),), install=INSTALL_GRAPHILE
)
