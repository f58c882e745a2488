"""What is leased at gates, and how far they have used up their rates, during one claim."""

from collections import Counter
from collections.abc import Iterable

from holdfast.model.flow import LimitRecord, gate
from holdfast.stores.sqlite.answers import reader
from holdfast.stores.sqlite.feed import as_json
from holdfast.stores.sqlite.limits import KEY, QUEUE, TASK, Limits
from holdfast.stores.sqlite.transaction import Transaction

MOST = 1_000
"""So many jobs are freed from a gate at once, or looked at for a claim beyond those that it takes."""

_decode_places = reader(list[tuple[str, str, int]])
_decode_rates = reader(list[tuple[str, int]])
_decode_counts = reader(list[int])


class Ledger:
    """Counts of leased rows, read when they are first needed, and kept up to date by the claim itself."""

    def __init__(self, tx: Transaction, limits: Limits) -> None:
        self._tx = tx
        self._limits = limits
        self._leased: Counter[str] = Counter()
        self._last: dict[str, int] = {}
        self._used: dict[str, int] = {}
        self._keys: set[str] = set()
        self._counts_keys = any(limit.concurrency is not None for limit in limits.of_keys)
        self._rates_keys = any(limit.interval for limit in limits.of_keys)
        self._read_places()

    def _read_places(self) -> None:
        limits = self._limits.of_places
        if any(limit.concurrency is not None for limit in limits):
            for queue, task, jobs in _decode_places(self._tx.row("leased_by_place")[0]):
                self._leased[QUEUE + queue] += jobs
                self._leased[TASK + task] += jobs
        self._read_rates([gate(limit.scope, limit.name) for limit in limits if limit.interval])

    def _read_rates(self, gates: list[str]) -> None:
        if gates:
            self._last.update(_decode_rates(self._tx.row("rates", gates=as_json(gates))[0]))

    def learn_keys(self, keys: Iterable[str]) -> list[str]:
        """Reads how these keys stand; those that were not known."""
        fresh = [key for key in dict.fromkeys(keys) if key not in self._keys]
        self._keys.update(fresh)
        if fresh and self._counts_keys:
            counts = _decode_counts(self._tx.row("keys_leased", keys=as_json(fresh))[0])
            for key, jobs in zip(fresh, counts, strict=True):
                self._leased[KEY + key] = jobs
        if fresh and self._rates_keys:
            self._read_rates([KEY + key for key in fresh])
        return fresh

    def room(self, name: str, limit: LimitRecord) -> int:
        """How many more jobs the gate would let through."""
        if limit.paused:
            return 0
        room = MOST if limit.concurrency is None else limit.concurrency - self._leased[name]
        if limit.rate and limit.period:
            interval, now = limit.interval, self._tx.now
            room = min(room, (now + limit.burst * interval - max(self._last.get(name, 0), now)) // interval)
        return room

    def opens(self, name: str, limit: LimitRecord) -> int | None:
        """When the rate of a gate lets one through again, if it lets none through now."""
        if limit.paused or not (limit.rate and limit.period):
            return None
        opens = self._opens(name, limit)
        return opens if opens > self._tx.now else None

    def _opens(self, name: str, limit: LimitRecord) -> int:
        return max(self._last.get(name, 0), self._tx.now) - (limit.burst - 1) * limit.interval

    def pass_through(self, gates: list[tuple[str, LimitRecord]], key: str | None) -> None:
        """Counts a job that is claimed, also at its key if only other tasks have a limit there."""
        if key is not None:
            self._leased[KEY + key] += 1
        for name, limit in gates:
            if not name.startswith(KEY):
                self._leased[name] += 1
            if limit.rate and limit.period:
                self._last[name] = max(self._last.get(name, 0), self._tx.now) + limit.interval
                self._used[name] = self._opens(name, limit)

    def write(self) -> None:
        """Stores how far rates were used, and when their gates open."""
        if self._used:
            rows = as_json([(name, self._last[name], opens) for name, opens in self._used.items()])
            self._tx.run("rates_keep", rows=rows)
            self._tx.run("rates_open", rows=rows)
