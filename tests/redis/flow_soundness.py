"""Whether what a Redis database keeps of limits, sequences and links agrees with its jobs."""

from collections import Counter, defaultdict
from struct import Struct
from typing import Any

from holdfast.model.flow import AFTER
from holdfast.model.lifecycle import LEASED, WAITING
from holdfast.model.records import JobRecord
from holdfast.stores.redis.records import sortable

_FLOW = Struct(">QHqqII")
_NAME = Struct(">H")
_HELD, _LINKED = 4, 256
_IS_AWAITED = 32


def parked_at(job: JobRecord) -> str | None:
    return None if job.flow is None else job.flow.parked


def order_of(job: JobRecord) -> bytes:
    """Where the job stands among those that are ready."""
    rank = job.due if job.flow is None or job.flow.rank is None else job.flow.rank
    return sortable(job.priority) + sortable(rank)


class FlowOf:
    """The part of one namespace."""

    def __init__(
        self,
        client: Any,
        prefix: bytes,
        names: list[bytes],
        records: dict[bytes, bytes],
        jobs: dict[bytes, JobRecord],
    ) -> None:
        self._client = client
        self._prefix = prefix
        self._names = names
        self._records = records
        self._jobs = jobs

    def check(self) -> list[bytes]:
        """The ids of all that are parked."""
        self._check_holders()
        self._check_sequences()
        self._check_links()
        expiring = {
            each
            for each, job in self._jobs.items()
            if job.state in WAITING and job.run == 0 and job.flow is not None and job.flow.expires is not None
        }
        assert self._members(b"z:e") == expiring, "those that may expire were never claimed"
        return self._parked()

    def _members(self, name: bytes) -> set[bytes]:
        return set(self._client.zrange(self._prefix + name, 0, -1))

    def _own(self, kind: bytes) -> dict[bytes, bytes]:
        return {name.removeprefix(kind): self._prefix + name for name in self._names if name.startswith(kind)}

    def _parked(self) -> list[bytes]:
        found: list[bytes] = []
        lines: defaultdict[bytes, set[bytes]] = defaultdict(set)
        for name in self._own(b"zw:").values():
            for entry in self._client.zrange(name, 0, -1):
                job = self._jobs[entry[16:]]
                gate = (parked_at(job) or "").encode()
                row = f"{len(job.queue.encode())}:{job.queue}:{job.task}".encode()
                assert name == b"%bzw:%d:%b:%b" % (self._prefix, len(gate), gate, row), "it is in its line"
                assert entry[:16] == order_of(job), "it stands where it belongs"
                assert job.state in WAITING
                lines[gate].add(row)
                found.append(entry[16:])
        assert {gate: self._client.smembers(name) for gate, name in self._own(b"zp:").items()} == dict(lines)
        limited = {gate for gate in lines if gate != AFTER.encode() and not gate.startswith(b"sequence:")}
        assert self._members(b"z:p") == limited, "each gate with parked jobs is known"
        assert self._members(b"z:t") <= limited, "only gates with parked jobs open by time"
        assert self._client.smembers(self._prefix + b"z:o") <= limited, "only they may be open"
        assert set(self._own(b"zd:")) <= limited
        told = sorted(each for each, job in self._jobs.items() if parked_at(job) is not None)
        assert sorted(found) == told, "each that says it is parked is so, once"
        return found

    def _check_holders(self) -> None:
        expected: defaultdict[bytes, set[bytes]] = defaultdict(set)
        limited = set(self._client.hkeys(self._prefix + b"z"))
        are_keys_counted = limited or self._client.exists(self._prefix + b"z:k")
        for each, job in self._jobs.items():
            if job.state in LEASED:
                for gate in {f"queue:{job.queue}".encode(), f"task:{job.task}".encode()} & limited:
                    expected[gate].add(each)
                if job.flow is not None and job.flow.limit_key is not None and are_keys_counted:
                    expected[f"key:{job.flow.limit_key}".encode()].add(each)
        held = {gate: self._client.smembers(name) for gate, name in self._own(b"zh:").items()}
        assert held == dict(expected), "who holds jobs of a gate is known while it has a limit"

    def _check_sequences(self) -> None:
        turns: dict[bytes, bytes] = {}
        for member in self._members(b"z:q"):
            (length,) = _NAME.unpack_from(member)
            turns[member[_NAME.size + length + 8 :]] = member[_NAME.size : _NAME.size + length]
        expected, busy = dict[bytes, bytes](), dict[bytes, bytes]()
        for each, job in self._jobs.items():
            if job.flow is not None and job.flow.sequence is not None and job.state in WAITING | LEASED:
                expected[each] = job.flow.sequence.encode()
                if job.state in LEASED:
                    busy[job.flow.sequence.encode()] = each
        assert turns == expected, "each unfinished job has its turn"
        assert self._client.hgetall(self._prefix + b"z:b") == busy, "who is leased of a sequence is known"
        for sequence, each in self._client.hgetall(self._prefix + b"z:h").items():
            flow = self._jobs[each].flow
            assert flow is not None
            assert (flow.sequence or "").encode() == sequence
            assert flow.halts

    def _check_links(self) -> None:
        behind: defaultdict[bytes, set[bytes]] = defaultdict(set)
        for waiter, name in self._own(b"zb:").items():
            links = Counter(link[-1:] for link in self._client.zrange(name, 0, -1))
            bits, pending, unmet = self._waits(waiter)
            assert bits & _LINKED
            assert links[b"-"] == pending, "it knows how many it waits for"
            assert sum(links.values()) - links[b"-"] - links[b"3"] == unmet
            for link in self._client.zrange(name, 0, -1):
                if link.endswith(b"-"):
                    behind[link[:-2]].add(waiter)
        assert {each: self._client.smembers(name) for each, name in self._own(b"za:").items()} == dict(behind)
        for each in behind:
            assert self._records[each][0] & _IS_AWAITED, "what is waited for knows that"
        for each, job in self._jobs.items():
            bits, pending, _ = self._waits(each)
            if job.state in WAITING:
                assert (parked_at(job) == AFTER) is bool(pending or bits & _HELD)

    def _waits(self, each: bytes) -> tuple[int, int, int]:
        """What its record says of links: bits, pending, unmet."""
        record = self._records[each]
        at = 84
        for _ in range(3):
            (length,) = _NAME.unpack_from(record, at)
            at += _NAME.size + length
        (end,) = _NAME.unpack_from(record, 82)
        if at == end:
            return 0, 0, 0
        _, bits, _, _, pending, unmet = _FLOW.unpack_from(record, at)
        return bits, pending, unmet
