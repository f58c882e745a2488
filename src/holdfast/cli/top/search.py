"""Which jobs to show: as it is typed, and as the store is asked."""

from __future__ import annotations

from dataclasses import dataclass, replace

from holdfast.app import Holdfast
from holdfast.cli.access import ID_START
from holdfast.cli.errors import WrongUse
from holdfast.engine.client import Page
from holdfast.model.lifecycle import FINISHED, LEASED, WAITING, State

GROUPS: dict[str, frozenset[State]] = {
    "all": frozenset(),
    "waiting": WAITING,
    "in progress": LEASED,
    **{state.value: frozenset({state}) for state in (State.RETRY, *sorted(FINISHED))},
}
"""Names of what the view of jobs can be narrowed to, in the order in which a key goes through them."""
_FIELDS = ("queue", "task", "tag", "worker")


@dataclass(frozen=True, slots=True)
class Search:
    """What the jobs shown have in common. `cursors` are the ends of the pages before this one."""

    group: str = "all"
    queue: str | None = None
    task: str | None = None
    tag: str | None = None
    worker: str | None = None
    cursors: tuple[str, ...] = ()

    def __str__(self) -> str:
        said = [f"{name}:{value}" for name in _FIELDS if (value := getattr(self, name)) is not None]
        if self.group != "all":
            said.insert(0, self.group)
        return " ".join(said) or "all"

    async def find(self, app: Holdfast, limit: int) -> Page:
        return await app.find(
            state=GROUPS[self.group],
            queue=self.queue,
            task=self.task,
            tag=self.tag,
            worker=self.worker,
            cursor=self.cursors[-1] if self.cursors else None,
            limit=limit,
        )

    def next_group(self) -> Search:
        names = list(GROUPS)
        return replace(self, group=names[(names.index(self.group) + 1) % len(names)], cursors=())

    def next_page(self, cursor: str) -> Search:
        return replace(self, cursors=(*self.cursors, cursor))

    def page_before(self) -> Search:
        return replace(self, cursors=self.cursors[:-1])


EVERYTHING = Search()


def is_id_start(text: str) -> bool:
    """Whether it looks like a job id, or at least four characters of the start of one."""
    return bool(ID_START.fullmatch(text.lower())) and text not in GROUPS


def parse(text: str) -> Search:
    """From what somebody types, such as `dlq queue:mail task:send`."""
    found: dict[str, str] = {}
    for word in text.split():
        name, colon, value = word.partition(":")
        if colon and value and name in (*_FIELDS, "state"):
            found["group" if name == "state" else name] = value
        elif not colon and word in GROUPS:
            found["group"] = word
        else:
            raise WrongUse(
                f"{word!r} says nothing; write queue:…, task:…, tag:…, worker:…, a state, or an id"
            )
    if found.get("group", "all") not in GROUPS:
        raise WrongUse(f"{found['group']!r} is no state; they are {', '.join(GROUPS)}")
    return Search(
        group=found.get("group", "all"),
        queue=found.get("queue"),
        task=found.get("task"),
        tag=found.get("tag"),
        worker=found.get("worker"),
    )
