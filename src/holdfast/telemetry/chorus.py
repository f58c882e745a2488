"""The metrics of several processes as those of one: told by each as values, shown with a label for each."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

import msgspec

from holdfast.telemetry.catalogue import CATALOGUE
from holdfast.telemetry.instruments import Definition, Distribution, Family, Labels

Point = tuple[Labels, float | Distribution]
Told = dict[str, list[Point]]

_decode = msgspec.json.Decoder(Told).decode


def encode(families: Iterable[Family]) -> bytes:
    """The families as one process tells them to another."""
    return msgspec.json.encode({each.definition.name: [*each.points.items()] for each in families})


def merged(told: Mapping[str, bytes]) -> list[Family]:
    """What several told, by the name of each, which becomes the label `process`.

    They are not added up: a process that begins anew would make a sum fall, and look like all of them did.
    """
    heard = {name: _decode(words) for name, words in told.items()}
    return [_merged(definition, heard) for definition in CATALOGUE]


def _merged(definition: Definition, heard: Mapping[str, Told]) -> Family:
    points = {
        (*labels, name): point
        for name, families in heard.items()
        for labels, point in families.get(definition.name, ())
    }
    return Family(replace(definition, labels=(*definition.labels, "process")), points)
