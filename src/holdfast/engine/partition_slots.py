"""One worker's slots, shared by all partitions that it serves."""

from __future__ import annotations

from itertools import count
from typing import Any

from holdfast.engine import surroundings
from holdfast.engine.company import Company
from holdfast.engine.hold import Hold
from holdfast.engine.slots import Slots
from holdfast.model.outcome import Outcome

SHARE = 0.1
MOMENT = 0.05
FASTEST = 1e-5
FRESH = 0.1
"""For so many seconds what a partition is being asked for counts as taken. One that hangs takes nothing."""


class Crew:
    """The slots of one worker. Whoever is alone with work may use all of them.

    A free slot goes to the partition that has jobs waiting and the fewest running. With all slots taken, one
    that has less than its share may claim ahead, to be the next: as many as will be free in a moment, but one
    at least. One of which nothing runs does so only now and then (`poll_seconds`), because other workers may
    be idle and could have that job at once.
    """

    def __init__(self, total: int, poll_seconds: float, lost_limit: int) -> None:
        self.total = total
        self.company = Company(lost_limit)
        self.poll_seconds = poll_seconds
        self.members: list[SharedSlots] = []
        self.started = 0
        self._run_time = 0.0
        self._turns = count(1)
        self._is_dealing = False

    def make_slots(self, *args: Any) -> SharedSlots:
        """Slots for one more partition."""
        return SharedSlots(self, *args)

    @property
    def running(self) -> int:
        total = 0
        for each in self.members:
            total += len(each.running)
        return total

    def room_for(self, member: SharedSlots) -> int:
        """How many slots are neither taken nor spoken for by others."""
        room = self.total
        for each in self.members:
            room -= len(each.running)
            if each is not member:
                room -= each.spoken_for
        return room

    def ahead_for(self, member: SharedSlots) -> int:
        """How many jobs it may claim for slots that others have now."""
        rivals = sum(1 for each in self.members if each is member or each.running or each.buffer)
        missing = max(1, self.total // rivals) - len(member.running)
        if missing <= 0 or not member.may_probe:
            return 0
        return min(missing, max(1, int(self.total * MOMENT / max(self._run_time, FASTEST))))

    def observe(self, run_time: float) -> None:
        """Learns how long attempts run."""
        self._run_time += SHARE * (run_time - self._run_time)

    def deal(self) -> None:
        """Gives free slots to jobs that wait."""
        waiting = [each for each in self.members if each.buffer and not each.is_shut]
        if not waiting or self._is_dealing:
            return
        self._is_dealing = True
        try:
            free = self.total - self.running
            for each in waiting:
                each.tries = len(each.buffer)
            while free > 0 and waiting:
                member = waiting[0] if len(waiting) == 1 else min(waiting, key=SharedSlots.turn)
                before = len(member.running)
                member.take_next()
                if len(member.running) > before:
                    free -= 1
                    self.started += 1
                    member.last_turn = next(self._turns)
                member.tries -= 1
                if not member.tries or not member.buffer:
                    waiting.remove(member)
        finally:
            self._is_dealing = False

    def tell_room(self, than: SharedSlots | None = None) -> None:
        """Calls one that would have asked for work if it had room."""
        found: SharedSlots | None = None
        for each in self.members:
            if each.is_short and each is not than and (found is None or each.turn() < found.turn()):
                found = each
        if found is not None:
            found.is_short = False
            found.room_made()


class SharedSlots(Slots):
    """The slots as one partition sees them."""

    def __init__(self, crew: Crew, *args: Any) -> None:
        self._crew = crew
        self._asked = 0
        self._asked_at = 0.0
        self._probed = 0.0
        self.is_short = False
        self.last_turn = 0
        self.tries = 0
        super().__init__(*args)
        self._company = crew.company
        crew.members.append(self)

    @property
    def concurrency(self) -> int:
        """How many stuck attempts here mean that no slot is left at all."""
        stuck = sum(len(each.stuck) for each in self._crew.members if each is not self)
        return max(1, self._crew.total - stuck)

    @property
    def free(self) -> int:
        crew = self._crew
        room = crew.room_for(self)
        if room <= 0:
            room = crew.ahead_for(self)
        self.is_short = room <= len(self.buffer) + self._asked
        return room

    @property
    def may_probe(self) -> bool:
        return bool(self.running) or surroundings.now() - self._probed > self._crew.poll_seconds

    @property
    def asked(self) -> int:
        return self._asked

    @asked.setter
    def asked(self, value: int) -> None:
        more = value > self._asked
        self._asked = value
        if more:
            self._asked_at = surroundings.now()
            if self._crew.room_for(self) <= 0:
                self._probed = self._asked_at
        else:
            self._crew.tell_room(self)

    @property
    def spoken_for(self) -> int:
        """How many slots the jobs will take that wait here, or are being asked for."""
        if not self._asked or surroundings.now() - self._asked_at >= FRESH:
            return self.waiting
        return self.waiting + self._asked

    @property
    def is_shut(self) -> bool:
        return self._is_shut

    def turn(self) -> tuple[int, int]:
        """The lowest goes first: who has the fewest running, then who has waited longest."""
        return len(self.running), self.last_turn

    def take_next(self) -> None:
        self._take_next()

    def fill(self) -> None:
        if self._is_shut:
            self.give_back("shutdown")
        self._crew.deal()

    async def close(self) -> None:
        await super().close()
        if self in self._crew.members:
            self._crew.members.remove(self)
        self._crew.deal()
        self._crew.tell_room()

    def _ended(self, hold: Hold, outcome: Outcome) -> None:
        if hold.started is not None:
            self._crew.observe(surroundings.now() - hold.started)
        super()._ended(hold, outcome)
        crew = self._crew
        if not self.buffer:
            crew.deal()
        if crew.running < crew.total:
            crew.tell_room(self)
