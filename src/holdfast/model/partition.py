"""Several stores as one: which of them a queue or a topic belongs to, and how a job id tells its own.

The rule says only where new work is placed. Workers serve every queue in every partition, so work that is
somewhere else, because the rule was another one, is served all the same.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import lru_cache
from hashlib import blake2b
from typing import Final
from urllib.parse import parse_qsl, quote

from holdfast.model.errors import ConfigurationError, InvalidJob, OutcomeUnknown, PartlyStored
from holdfast.model.names import check_name

SCHEME: Final = "partition"
MOST: Final = 64
MOST_KNOWN: Final = 16_384
"""Of so many queues it is remembered where they go."""

HOME, DRAINING, QUEUE, TOPIC = "home", "draining", "queue.", "topic."
RESERVED: Final = frozenset({HOME, DRAINING, "queues", "topics"})
_NAME = re.compile(r"[a-z][a-z0-9_-]{0,31}", re.ASCII)
_PATTERN = re.compile(r"[A-Za-z0-9_*?\[!][A-Za-z0-9_.@/+=*?\[\]!-]{0,199}", re.ASCII)
_TAG_DIGITS = 4

Rules = tuple[tuple[str, str], ...]
"""Names or patterns, each with the partition that they go to."""


@lru_cache(maxsize=1_024)
def tag_of(name: str) -> str:
    """What the job ids of a partition end with: it depends on nothing but the partition's name."""
    return blake2b(name.encode(), digest_size=_TAG_DIGITS // 2).hexdigest()


def stamped(drawn: str, tag: str) -> str:
    """The id with the tag of a partition in its last bits, where it leaves the order of ids as it is."""
    return drawn[:-_TAG_DIGITS] + tag


def stamp(job_id: str) -> str:
    """Where the tag of an id would be. An id that was not drawn for a partition has anything there."""
    return job_id[-_TAG_DIGITS:]


def whole_position(position: int, place: int) -> int:
    """The position of an event as it is seen over all partitions, by the place of its own in the layout."""
    return position * MOST + place


def own_position(position: int, place: int) -> int:
    """The last position in a partition that is not behind the one that is seen over all of them."""
    return max(0, (position - place) // MOST)


@dataclass(frozen=True, slots=True)
class Partition:
    """One of the stores. Nothing new is placed by hash in one that is draining."""

    name: str
    url: str = field(repr=False)
    draining: bool = False

    @property
    def tag(self) -> str:
        return tag_of(self.name)


@dataclass(frozen=True)
class Layout:
    """All partitions, and the rules by which new work is placed.

    A queue goes where it is mapped by name, else by the first pattern that fits; all others are spread by
    hash over the partitions that are open, so that one more takes its share from each of the others and
    moves nothing else. Topics likewise. `home` has the locks.
    """

    partitions: tuple[Partition, ...]
    home: str
    queues: Rules = ()
    topics: Rules = ()
    _queues: dict[str, str] = field(default_factory=dict[str, str], init=False, repr=False, compare=False)
    _tags: dict[str, str] = field(default_factory=dict[str, str], init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        names = [each.name for each in self.partitions]
        _check_names(names)
        if self.home not in names:
            raise wrong(f"{HOME}={self.home!r} is not the name of a partition; they are {', '.join(names)}")
        if not self.open:
            raise wrong("all partitions are draining; one at least must be open")
        for kind, rules in ((QUEUE, self.queues), (TOPIC, self.topics)):
            for pattern, name in rules:
                if name not in names:
                    raise wrong(f"{kind}{pattern}={name!r} is not the name of a partition")
                if not _PATTERN.fullmatch(pattern):
                    raise wrong(f"{kind}{pattern!a} is neither a name nor a pattern with * ? [ ]")
        self._tags.update((each.tag, each.name) for each in self.partitions)

    @property
    def open(self) -> tuple[str, ...]:
        return tuple(each.name for each in self.partitions if not each.draining)

    def of_queue(self, queue: str) -> str:
        """The partition in which new jobs of a queue are placed."""
        known = self._queues.get(queue)
        if known is None:
            if len(self._queues) >= MOST_KNOWN:
                self._queues.clear()
            known = self._queues[queue] = _placed(queue, self.queues, self.open)
        return known

    def of_topic(self, topic: str) -> str:
        """The partition in which events of a topic are placed that come alone."""
        return _placed(topic, self.topics, self.open)

    def of_id(self, job_id: str) -> str | None:
        """The partition that an id tells; None if it tells none. It may tell one by chance."""
        return self._tags.get(stamp(job_id))


def _placed(name: str, rules: Rules, candidates: tuple[str, ...]) -> str:
    mapped = dict(rules).get(name)
    if mapped is None:
        mapped = next((to for pattern, to in rules if fnmatchcase(name, pattern)), None)
    return max(candidates, key=lambda each: _weight(each, name)) if mapped is None else mapped


def _weight(partition: str, name: str) -> bytes:
    """The highest wins. It is the same for a name whichever others there are."""
    return blake2b(f"{partition} {name}".encode(), digest_size=8).digest()


def parse(url: str) -> Layout:
    """The layout that a `partition://?…` URL describes. Nothing of the URLs in it is shown in an error.

    `name=URL` for each partition, with what is special in the URL as %XX; `queue.NAME=partition` and
    `topic.NAME=partition`, where the name may be a pattern; `draining=a,b`; `home=name`, else the first.
    """
    _, separator, query = url.partition("?")
    if not separator or not query:
        raise wrong(
            "partition:// needs its stores: a table [partitions] in the settings file, or a URL such as "
            "partition://?a=postgresql%3A%2F%2Fhost%2Fone&b=postgresql%3A%2F%2Fhost%2Ftwo"
        )
    stores: dict[str, str] = {}
    queues: list[tuple[str, str]] = []
    topics: list[tuple[str, str]] = []
    home: str | None = None
    draining: frozenset[str] = frozenset()
    for name, value in parse_qsl(query, keep_blank_values=True):
        if name.startswith(QUEUE):
            queues.append((name.removeprefix(QUEUE), value))
        elif name.startswith(TOPIC):
            topics.append((name.removeprefix(TOPIC), value))
        elif name == HOME:
            home = value
        elif name == DRAINING:
            draining = frozenset(filter(None, value.split(",")))
        elif name in stores:
            raise wrong(f"two partitions are called {name!a}")
        else:
            stores[name] = value
    return layout(stores, home=home, draining=draining, queues=queues, topics=topics)


def layout(
    stores: Mapping[str, str],
    *,
    home: str | None = None,
    draining: Sequence[str] | frozenset[str] = (),
    queues: Sequence[tuple[str, str]] = (),
    topics: Sequence[tuple[str, str]] = (),
) -> Layout:
    """A layout from its parts, checked. The first partition is home, unless another is."""
    _check_names(list(stores))
    for name, store in stores.items():
        if not store.isprintable():
            raise wrong(f"partition {name}: its URL has characters that no URL has; write them as %XX")
        if "://" not in store:
            raise wrong(f"partition {name}: its store is not a URL, such as postgresql://host/database")
        if store.partition("://")[0] == SCHEME:
            raise wrong(f"partition {name}: a partition cannot be partitioned itself")
    unknown = next((name for name in sorted(draining) if name not in stores), None)
    if unknown is not None:
        raise wrong(f"{DRAINING}={unknown!a} is not the name of a partition; they are {', '.join(stores)}")
    parts = tuple(Partition(name, url, name in draining) for name, url in stores.items())
    return Layout(parts, home or next(iter(stores)), tuple(queues), tuple(topics))


def store_urls(url: str) -> list[str]:
    """The URLs of all stores that a URL means: those of its partitions, or itself."""
    return [each.url for each in parse(url).partitions] if url.startswith(f"{SCHEME}:") else [url]


def is_in_memory(url: str) -> bool:
    """Whether a part of it is in the memory of this process, where no other finds it."""
    return any(each.startswith("memory:") for each in store_urls(url))


def as_url(found: Layout) -> str:
    """The layout as a URL, which `parse` reads."""
    said = [(each.name, each.url) for each in found.partitions]
    said.append((HOME, found.home))
    if away := [each.name for each in found.partitions if each.draining]:
        said.append((DRAINING, ",".join(away)))
    said += [(QUEUE + pattern, name) for pattern, name in found.queues]
    said += [(TOPIC + pattern, name) for pattern, name in found.topics]
    return f"{SCHEME}://?" + "&".join(f"{quote(name, safe='')}={quote(text, safe='')}" for name, text in said)


def partly(faults: Sequence[BaseException], stored: Sequence[str], wanted: Sequence[str]) -> BaseException:
    """What to raise when some partitions failed: their own error if nothing is stored for sure."""
    grave = [fault for fault in faults if not isinstance(fault, Exception)]
    if grave or not stored:
        return (grave or [each for each in faults if isinstance(each, OutcomeUnknown)] or list(faults))[0]
    told = PartlyStored(
        f"{len(stored)} of {len(wanted)} are stored; {'; '.join(dict.fromkeys(map(str, faults)))}",
        tuple(stored),
        tuple(each for each in wanted if each not in set(stored)),
    )
    told.__cause__ = faults[0]
    return told


def check_mapped(name: object, kind: str) -> str:
    """The name of a queue or topic that is asked about."""
    try:
        return check_name(name, kind)
    except InvalidJob as error:
        raise wrong(str(error)) from None


def wrong(message: str) -> ConfigurationError:
    return ConfigurationError(message, setting="store")


def _check_names(names: list[str]) -> None:
    if not names:
        raise wrong("partition:// needs at least one partition")
    if len(names) > MOST:
        raise wrong(f"{len(names)} partitions are more than {MOST}")
    for name in names:
        if name in RESERVED or not _NAME.fullmatch(name):
            shown = ascii(name)[:40]
            raise wrong(
                f"{shown} cannot be the name of a partition; use up to 32 lower-case ASCII letters, digits, "
                f"_ and -, and none of {', '.join(sorted(RESERVED))}"
            )
    tags: dict[str, str] = {}
    for name in names:
        if (other := tags.setdefault(tag_of(name), name)) != name:
            raise wrong(f"job ids cannot tell partitions {other!r} and {name!r} apart; call one otherwise")
