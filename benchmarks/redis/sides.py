"""The programs that are measured: how each is had, started, and asked what is unfinished."""

from functools import partial
from pathlib import Path

from benchmarks.program import Program, install_node, install_python, node, ours, peer

PROGRAMS = "benchmarks.redis.programs"
HOLDFAST_KEYS = "{holdfast:default}:"
TASKIQ_UNFINISHED = """
local function field(answer, name)
  for i = 1, #answer, 2 do if answer[i] == name then return answer[i + 1] end end
end
local stream, group = redis.call('XINFO', 'STREAM', 'taskiq'), redis.call('XINFO', 'GROUPS', 'taskiq')[1]
local is_read = field(group, 'last-delivered-id') == field(stream, 'last-generated-id')
return (is_read and 0 or 1) + field(group, 'pending')
"""
SLOW = 100


def _sum(*counts: str) -> str:
    """A script that adds up what these commands tell."""
    calls = (f"redis.call('{command}', '{key}')" for command, key in (each.split() for each in counts))
    return f"return {' + '.join(calls)}"


def _peer(
    name: str, packages: tuple[str, ...], unfinished: str, *environ: tuple[str, str], bodies: int = 1
) -> Program:
    return Program(
        peer(name, f"{PROGRAMS}.{name}_program"),
        unfinished,
        environ=environ,
        install=partial(install_python, name, *packages),
        told_each=SLOW,
        bodies=bodies,
    )


def _lock(name: str, module: str, packages: tuple[str, ...]) -> Program:
    return Program(
        peer(name, f"{PROGRAMS}.{module}_locks"),
        "",
        install=partial(install_python, name, *packages),
    )


CELERY_PACKAGES = ("celery[redis]==5.7.*",)
CELERY_UNFINISHED = _sum("LLEN celery", "HLEN unacked")
HUEY_PACKAGES = ("huey==3.5.*", "redis[hiredis]")
HUEY_UNFINISHED = _sum("LLEN huey.redis.bench")

HOLDFAST = Program(
    ours("benchmarks.programs.holdfast_program"),
    f"return redis.call('HLEN', '{HOLDFAST_KEYS}m') - redis.call('LLEN', '{HOLDFAST_KEYS}f')",
)
BARE = Program(ours(f"{PROGRAMS}.bare_program"), _sum("HLEN jobs"))
BULLMQ = Program(
    node(Path(__file__).with_name("programs") / "bullmq_program.cjs"),
    _sum("LLEN bull:bench:wait", "LLEN bull:bench:active"),
    install=partial(install_node, "bullmq", "bullmq@6.7.0", "ioredis@5"),
)
SAQ = _peer(
    "saq", ("saq[redis,hiredis]==0.26.*", "typing-extensions", "uvloop"), _sum("ZCARD saq:default:incomplete")
)
STREAQ = _peer("streaq", ("streaq==7.2.*", "uvloop"), _sum("XLEN streaq:default:queues:default"))
ARQ = _peer("arq", ("arq==0.28.*", "hiredis", "uvloop"), _sum("ZCARD arq:queue"))
TASKIQ = _peer(
    "taskiq",
    ("taskiq==0.13.*", "taskiq-redis==1.2.*", "redis[hiredis]", "orjson", "uvloop"),
    TASKIQ_UNFINISHED,
)
DRAMATIQ = _peer("dramatiq", ("dramatiq[redis]==2.2.*", "hiredis"), _sum("HLEN dramatiq:default.msgs"))
HUEY_ONE = _peer("huey", HUEY_PACKAGES, HUEY_UNFINISHED, ("PEER_THREADS", "1"))
HUEY_FOUR = _peer("huey", HUEY_PACKAGES, HUEY_UNFINISHED, ("PEER_THREADS", "4"))
CELERY_THREADS = _peer("celery", CELERY_PACKAGES, CELERY_UNFINISHED, ("PEER_POOL", "threads"))
CELERY_PREFORK = _peer("celery", CELERY_PACKAGES, CELERY_UNFINISHED, ("PEER_POOL", "prefork"), bodies=2)
RQ = _peer("rq", ("rq==2.12.*", "hiredis"), _sum("LLEN rq:queue:default", "ZCARD rq:wip:default"))

HOLDFAST_LOCKS = Program(ours(f"{PROGRAMS}.holdfast_locks"), "")
REDIS_PY_LOCKS = _lock("redis-py", "redis_py", ("redis[hiredis]==8.1.*", "uvloop"))
REDIS_LOCK_LOCKS = _lock("python-redis-lock", "redis_lock", ("python-redis-lock==4.*", "redis[hiredis]"))
POTTERY_LOCKS = _lock("pottery", "pottery", ("pottery==3.*", "redis[hiredis]"))
