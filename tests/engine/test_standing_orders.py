"""Ticks, answers and messages about wants that stand, in any order: no job is taken twice, none forgotten."""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule
from msgspec.structs import replace

from holdfast.engine.standing import Standing
from holdfast.model.records import Handed, JobRecord, Tick, Ticked, Want, as_added
from holdfast.testing.conformance.case import LONG, new_job

ROOM = 4
LINES = st.sampled_from(["first", "second"])
WANT = Want(queues=("q",), tasks=frozenset({"t"}), limit=1, lease=LONG, stands=LONG)


class Store:
    """What the seam promises, for one worker."""

    def __init__(self) -> None:
        self.ready: list[str] = []
        self.held: dict[str, int] = {}
        self.standing: tuple[int, int] | None = None
        self.fulfilled: int | None = None

    def add(self, job: str) -> tuple[int, list[str]] | None:
        """Stores a job; for which tick's want it was claimed, if any stands."""
        if self.standing is None or self.ready:
            self.ready.append(job)
            return None
        seq, _ = self.standing
        self.standing, self.fulfilled = None, seq
        self.held[job] = -seq
        return seq, [job]

    def tick(self, tick: Tick) -> Ticked:
        want, stood = tick.want, tick.stood
        given: list[str] = []
        if self.standing is not None and (stood == self.standing[0] or (want is not None and want.stands)):
            self.standing = None
        if stood is not None and (self.fulfilled == stood or tick.repeat):
            given += [job for job, seq in self.held.items() if seq == -stood]
        handed = len(given)
        stands = False
        if want is not None:
            if tick.repeat:
                given += [job for job, seq in self.held.items() if abs(seq) == tick.seq]
            if not given:
                given, self.ready = self.ready[: want.limit], self.ready[want.limit :]
                self.held |= dict.fromkeys(given, tick.seq)
                stands = want.stands > 0 and len(given) < want.limit
                if stands:
                    self.standing = (tick.seq, want.limit - len(given))
        return Ticked(
            verdicts=[],
            claimed=[record(job) for job in given],
            cancel_asked=[],
            paused=frozenset(),
            next_due=None,
            registered=True,
            handed=handed,
            stands=stands,
        )


def record(job: str) -> JobRecord:
    return as_added(new_job(id=job), 0)


class Line:
    """One tick under way."""

    def __init__(self, tick: Tick, limit: int, left: float) -> None:
        self.tick = tick
        self.limit = limit
        self.left = left
        self.answer: Ticked | None = None
        self.was_seen = False


class Orders(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.store = Store()
        self.standing = Standing("w", lambda jobs, sent: self.take(jobs))
        self.lines: dict[str, Line] = {}
        self.messages: list[Handed] = []
        self.running: set[str] = set()
        self.taken: set[str] = set()
        self.seq = 0
        self.jobs = 0

    def take(self, jobs: list[JobRecord]) -> None:
        for job in jobs:
            assert job.id not in self.taken, "taken twice"
            self.taken.add(job.id)
            self.running.add(job.id)

    @property
    def room(self) -> int:
        return ROOM - len(self.running) - sum(line.limit for line in self.lines.values())

    @rule()
    def add(self) -> None:
        self.jobs += 1
        handed = self.store.add(f"job-{self.jobs}")
        assert len(self.store.held) <= ROOM, "overfull"
        if handed is not None:
            seq, jobs = handed
            self.messages.append(Handed(worker="w", seq=seq, after=0, claimed=list(map(record, jobs))))

    @rule(line=LINES, limit=st.integers(0, ROOM))
    def send(self, line: str, limit: int) -> None:
        if line in self.lines or any(other.tick.repeat for other in self.lines.values()):
            return
        self.seq += 1
        limit = min(limit, self.room)
        want = replace(WANT, limit=limit) if limit > 0 else None
        tick = Tick(worker="w", seq=self.seq, moves=[], want=want)
        left = self.standing.leaves(tick)
        self.lines[line] = Line(tick, limit, left)

    @rule(line=LINES)
    def reach(self, line: str) -> None:
        """The store sees the tick, once more if it is sent again."""
        away = self.lines.get(line)
        if away is not None and (not away.was_seen or away.tick.repeat):
            away.answer = self.store.tick(away.tick)
            away.was_seen = True
            assert len(self.store.held) <= ROOM, "overfull"

    @rule(line=LINES)
    def lose(self, line: str) -> None:
        away = self.lines.get(line)
        if away is not None:
            away.answer, away.tick.repeat = None, True

    @rule(line=LINES)
    def answer(self, line: str) -> None:
        away = self.lines.get(line)
        if away is not None and away.answer is not None:
            del self.lines[line]
            away.answer.claimed += self.standing.answered(away.tick, away.answer)
            self.take(away.answer.claimed)

    @rule(line=LINES)
    def refuse(self, line: str) -> None:
        away = self.lines.get(line)
        others = [other for name, other in self.lines.items() if name != line]
        if away is not None and not away.was_seen and not others:
            del self.lines[line]
            self.standing.refused(away.tick, away.left)

    @precondition(lambda self: self.messages)
    @rule(data=st.data(), again=st.booleans())
    def hear(self, data: st.DataObject, again: bool) -> None:
        place = data.draw(st.integers(0, len(self.messages) - 1))
        self.standing.receive(self.messages[place])
        if not again:
            del self.messages[place]

    @precondition(lambda self: self.messages)
    @rule(header_only=st.booleans())
    def shorten_or_drop(self, header_only: bool) -> None:
        last = self.messages.pop()
        if header_only:
            self.messages.append(Handed(worker="w", seq=last.seq, after=0, claimed=[]))

    @precondition(lambda self: self.running)
    @rule()
    def finish(self) -> None:
        job = min(self.running)
        self.running.remove(job)
        del self.store.held[job]

    def teardown(self) -> None:
        """Whatever was on its way arrives or is lost; then the worker stops."""
        self.standing.end()
        for name, away in list(self.lines.items()):
            if away.answer is None:
                away.answer = self.store.tick(away.tick)
            self.answer(name)
        if self.standing.is_to_end:
            self.seq += 1
            last = Tick(worker="w", seq=self.seq, moves=[])
            self.standing.leaves(last)
            ticked = self.store.tick(last)
            self.take(ticked.claimed + self.standing.answered(last, ticked))
        assert not self.standing.is_to_end
        assert self.store.standing is None, "a want stands that nobody ends"
        assert set(self.store.held) == self.running, "held by a worker that does not know"


TestOrders = Orders.TestCase
TestOrders.settings = settings(max_examples=150, stateful_step_count=30, deadline=None)
