"""Writes down what the application's notices tell: what the store answered, and who became leader."""

from __future__ import annotations

from holdfast.app import Holdfast
from holdfast.engine.notices import Notice
from holdfast.model.records import JobRecord, Move
from holdfast.model.records import Verdict as Answer
from holdfast.torture.history import Led, Settled, Verdict
from holdfast.torture.programs.witness import recorder


def listen(app: Holdfast) -> None:
    """Records until the process ends."""
    app.notices.listen(_hear)


def _hear(notice: Notice) -> None:
    facts = notice.facts
    if notice.kind == "settled":
        record: JobRecord = facts["record"]
        move: Move | None = facts["move"]
        ending: Settled = "success" if move is None or move.outcome is None else move.outcome.value
        recorder().write(
            Verdict(
                job=record.id,
                token=record.token,
                outcome=ending,
                accepted=facts["verdict"] is Answer.ACCEPTED,
            )
        )
    elif notice.kind == "leader_elected":
        recorder().write(Led(term=facts["term"]))
