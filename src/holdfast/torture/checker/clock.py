"""The store's clock against the one that all processes of the campaign share."""

from __future__ import annotations

from statistics import median_low

from holdfast.torture.checker.case import Case

SLACK = 250_000
"""How far the two clocks may drift apart, and a look at them be off, before it counts."""
SAMPLES = 10_001


class StoreClock:
    """How far an instant of the store lies ahead of a moment of the shared clock.

    The offset is the one that most accepted writes agree on. A write is stamped before its worker is told, so
    a stamp that lies ahead was made by some other clock than the store's.
    """

    def __init__(self, case: Case) -> None:
        self._offset = median_low(_offsets(case)) if case.verdicts else 0

    def ahead(self, instant: int, at: int) -> int:
        """By how much more than the slack the instant lies ahead; 0 if it does not."""
        return max(0, instant - at - self._offset - SLACK)


def _offsets(case: Case) -> list[int]:
    offsets = [0]
    for job_id, verdicts in case.verdicts.items():
        job = case.jobs.get(job_id)
        told = {verdict.token: verdict.at for verdict in verdicts if verdict.accepted}
        attempts = () if job is None else job.attempts
        offsets += [each.finished - told[each.token] for each in attempts if each.token in told]
        if len(offsets) > SAMPLES:
            break
    return offsets[1:] or offsets
