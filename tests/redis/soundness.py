"""Whether all that is stored beside the jobs of a Redis database agrees with them."""

from collections import Counter
from struct import Struct
from typing import Any

import redis

from holdfast.model.lifecycle import LEASED, WAITING, State
from holdfast.model.records import JobRecord
from holdfast.stores.redis.records import CODES, made
from tests.redis.flow_soundness import FlowOf, order_of, parked_at

_READY = {
    (False, State.SCHEDULED): "S",
    (False, State.RETRY): "R",
    (True, State.SCHEDULED): "P",
    (True, State.RETRY): "Q",
}
_SENTINEL = b"-" * 65
_SEQ = Struct(">q")
_LENGTH = Struct(">H")
_EVENT = Struct(">qQI")


def check_sound(url: str) -> Counter[State]:
    """Fails if the keys of a namespace contradict each other; how many jobs are in which state."""
    total: Counter[State] = Counter()
    with redis.Redis.from_url(url) as client:
        keys: list[bytes] = client.keys("{holdfast:*")
        for prefix in {key.partition(b"}:")[0] + b"}:" for key in keys}:
            total += _Namespace(client, prefix, [key for key in keys if key.startswith(prefix)]).check()
    return total


class _Namespace:
    def __init__(self, client: Any, prefix: bytes, keys: list[bytes]) -> None:
        self._client = client
        self._prefix = prefix
        self._names = [key.removeprefix(prefix) for key in keys]
        self._records: dict[bytes, bytes] = client.hgetall(prefix + b"m")
        bodies: dict[bytes, bytes] = client.hgetall(prefix + b"b")
        assert set(bodies) == set(self._records), "each job has a body"
        self._jobs = {each: made(record, bodies[each]) for each, record in self._records.items()}
        self._flow = FlowOf(client, prefix, self._names, self._records, self._jobs)

    def check(self) -> Counter[State]:
        jobs = self._jobs
        assert self._members(b"i") == set(jobs), "the index has all jobs and no other"
        rest = (State.FAILED, State.DLQ, State.CANCELLED)
        assert self._members(b"d") == self._in(*rest), "the index has all that ended otherwise"
        leases = dict(self._client.zrange(self._prefix + b"l", 0, -1, withscores=True))
        leases.pop(_SENTINEL, None)
        assert leases == {each: jobs[each].lease_until for each in self._in(*LEASED)}, "each lease has a job"
        self._check_lines()
        self._check_counts()
        self._check_keys()
        self._check_schedules()
        self._check_events()
        assert set(self._client.hkeys(self._prefix + b"a")) == {
            each for each in self._in(*LEASED) if jobs[each].cancel_asked
        }
        for kind, flag in ((b"x:", 4), (b"h:", 64)):
            own = {name.removeprefix(kind) for name in self._names if name.startswith(kind)}
            assert own <= {each for each, record in self._records.items() if record[41] & flag}, kind
        results = set(self._client.hkeys(self._prefix + b"r"))
        assert results == {each for each, record in self._records.items() if record[41] & 8}
        kept = {entry[8:] for entry in self._client.lrange(self._prefix + b"f", 0, -1)}
        assert self._in(State.SUCCESS, State.FAILED, State.CANCELLED) <= kept, "retention knows of it"
        return Counter(job.state for job in jobs.values())

    def _members(self, name: bytes) -> set[bytes]:
        return set(self._client.zrange(self._prefix + name, 0, -1))

    def _in(self, *states: State) -> set[bytes]:
        return {each for each, job in self._jobs.items() if job.state in states}

    def _check_lines(self) -> None:
        """Each job that waits stands in one line, its own, and nobody else does."""
        found: list[bytes] = []
        for name in self._names:
            if name.startswith(b"s:"):
                for each in self._members(name):
                    assert self._jobs[each].queue.encode() == name[2:]
                    found.append(each)
            elif name.startswith(b"w:"):
                for entry in self._members(name):
                    job = self._jobs[entry[16:]]
                    assert name == f"w:{len(job.queue)}:{job.queue}:{job.task}".encode()
                    assert entry[:16] == order_of(job), "it stands where it belongs"
                    assert job.task.encode() in self._client.smembers(
                        self._prefix + b"t:" + job.queue.encode()
                    )
                    found.append(entry[16:])
        found += self._flow.check()
        assert sorted(found) == sorted(self._in(*WAITING))

    def _check_counts(self) -> None:
        def field(job: JobRecord) -> bytes:
            return f"{CODES[job.state]}{job.queue}".encode()

        counts = {name: int(number) for name, number in self._client.hgetall(self._prefix + b"c").items()}
        stored = {name: number for name, number in counts.items() if name[:1].isdigit()}
        assert stored == Counter(field(job) for job in self._jobs.values())
        ready = Counter(
            _READY[parked_at(job) is not None, job.state].encode() + job.queue.encode()
            for job in self._jobs.values()
            if job.state in WAITING
            and self._client.zscore(self._prefix + b"s:" + job.queue.encode(), job.id) is None
        )
        assert {name: number for name, number in counts.items() if name not in stored} == ready

    def _check_keys(self) -> None:
        held = {key: entry[8:] for key, entry in self._client.hgetall(self._prefix + b"k").items()}
        assert set(held.values()) <= set(self._jobs), "no key is held by a job that is gone"
        for each in self._in(*WAITING, *LEASED):
            if (key := self._jobs[each].key) is not None:
                assert held[key.encode()] == each, "a live job holds its key"

    def _check_schedules(self) -> None:
        """Each stands where its own value says, and nothing else does."""
        stored: dict[bytes, bytes] = self._client.hgetall(self._prefix + b"j")
        assert self._members(b"j:n") == set(stored), "the index has all schedules and no other"
        assert self._members(b"j:l") == {value[9:17] + name for name, value in stored.items() if value[8] & 1}
        assert self._members(b"j:w") == {name for name, value in stored.items() if value[8] & 2}

    def _check_events(self) -> None:
        """Each stands in the log and in its topic, and what is known beside them is of one that is there."""
        log = {place: fields[b"h"] for place, fields in self._client.xrange(self._prefix + b"e")}
        told: dict[bytes, dict[bytes, bytes]] = {}
        for name in self._names:
            if name.startswith(b"e:s:"):
                entries = self._client.xrange(self._prefix + name)
                told[name[4:]] = {place: fields[b"h"] for place, fields in entries}
        assert all(told.values()), "a topic without events is forgotten"
        assert {place: head for its in told.values() for place, head in its.items()} == log
        firsts = {topic: min(int(place[:-2]) for place in its) for topic, its in told.items()}
        assert dict(self._client.zrange(self._prefix + b"e:t", 0, -1, withscores=True)) == firsts
        stored, lasts = set[bytes](), dict[bytes, int]()
        for head in log.values():
            _, version, size = _EVENT.unpack_from(head)
            at = _EVENT.size + size
            stored.add(head[_EVENT.size : at])
            if version:
                lasts[head[at:]] = version
        assert self._client.smembers(self._prefix + b"e:i") == stored, "each has an id of its own"
        versions = self._client.hgetall(self._prefix + b"e:v")
        assert {line: int(version) for line, version in versions.items()} == lasts
        last = int(self._client.hget(self._prefix + b"e:n", "p") or 0)
        assert all(int(place[:-2]) <= last for place in log)

    def _check_standing(self) -> None:
        """Wants stand for workers that are known, what was claimed for them is stored, and lines end."""
        kept = self._client.hgetall(self._prefix + b"y")
        assert set(kept) <= set(self._client.hkeys(self._prefix + b"u")), "who is gone wants nothing"
        for worker, want in kept.items():
            (seq,) = _SEQ.unpack_from(want)
            if seq < 0:
                held = {each for each in self._jobs if _is_for(self._records[each], seq, worker)}
                assert held <= set(_ids(want)), "each that was handed over is told"
        for name in self._names:
            if name.startswith(b"y:"):
                assert self._client.pttl(self._prefix + name) > 0, "a line that nobody joins ends"


def _ids(want: bytes) -> list[bytes]:
    found, at = [], 2 * _SEQ.size
    while at < len(want):
        (length,) = _LENGTH.unpack_from(want, at)
        at += _LENGTH.size + length
        found.append(want[at - length : at])
    return found


def _is_for(record: bytes, seq: int, worker: bytes) -> bool:
    """Whether the job is held by the worker, for this want."""
    return record[0] in {1, 2} and _SEQ.unpack_from(record, 33) == (seq,) and record.endswith(worker)
