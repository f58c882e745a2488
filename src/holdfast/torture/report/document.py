"""The report as a value: what `report.json` holds, and all that the page says in words and figures."""

from __future__ import annotations

import msgspec

from holdfast.torture.checker.case import Case
from holdfast.torture.checker.figures import Figures, Floor
from holdfast.torture.checker.judging import Judgement, Ruling, Word
from holdfast.torture.dump import Limits, Store


class Document(msgspec.Struct, frozen=True, kw_only=True):
    """One campaign and its judgement."""

    word: Word
    sentence: str
    store: Store
    seed: int | None
    commit: str
    limits: Limits
    settled_after: int | None
    figures: Figures
    floors: tuple[Floor, ...]
    rulings: tuple[Ruling, ...]


def as_document(case: Case, judgement: Judgement) -> Document:
    dump = case.dump
    return Document(
        word=judgement.word,
        sentence=sentence_of(judgement),
        store=dump.store,
        seed=dump.seed,
        commit=dump.commit,
        limits=dump.limits,
        settled_after=dump.settled_after,
        figures=judgement.figures,
        floors=judgement.floors,
        rulings=judgement.rulings,
    )


def sentence_of(judgement: Judgement) -> str:
    """What the judgement means, no more than it does."""
    figures = judgement.figures
    if judgement.word == "violated":
        count = sum(ruling.violations for ruling in judgement.rulings)
        return (
            f"{_many(count, 'violation')} of {', '.join(judgement.broken)} in {_many(figures.jobs, 'job')}."
        )
    if judgement.word == "vacuous":
        few = [
            f"{floor.name} {floor.reached} of {floor.least}"
            for floor in judgement.floors
            if not floor.is_reached
        ]
        return f"Nothing is broken, but too little happened for that to count: {', '.join(few)}."
    return (
        f"No violation in {_many(figures.jobs, 'job')}, {_many(sum(figures.faults.values()), 'fault')} and"
        f" {_many(figures.takeovers, 'take-over')}. With 95 % confidence fewer than"
        f" {figures.bound * 1_000_000:,.0f} in a million jobs are harmed by faults like these."
    )


def _many(count: int, what: str) -> str:
    return f"{count:,} {what}{'' if count == 1 else 's'}"
