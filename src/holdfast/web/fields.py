"""Kinds of fields that several routes take, with their bounds."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, TypeAlias

from msgspec import Meta

from holdfast.model.lifecycle import State

Name: TypeAlias = Annotated[
    str,
    Meta(
        pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.@/+=-]{0,199}$(?!\n)",
        max_length=200,
        description="1 to 200 ASCII letters, digits and _ . @ / + = -, not starting with a sign",
    ),
]
JobId: TypeAlias = Annotated[
    str,
    Meta(
        pattern=r"^[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}$(?!\n)",
        max_length=36,
        description="the id of a job, a UUID",
    ),
]
Cursor: TypeAlias = Annotated[JobId, Meta(description="the `cursor` of the page before")]
Instant: TypeAlias = Annotated[datetime, Meta(tz=True, description="an instant with its time zone")]
Duration: TypeAlias = Annotated[float, Meta(ge=0, le=3_162_240_000, description="seconds")]
Page: TypeAlias = Annotated[int, Meta(ge=1, le=200, description="how many at most")]
Priority: TypeAlias = Annotated[int, Meta(ge=-32_768, le=32_767, description="lower numbers go first")]
Tags: TypeAlias = Annotated[list[Name], Meta(max_length=20)]
Ids: TypeAlias = Annotated[list[JobId], Meta(min_length=1, max_length=1_000)]
Aggregate: TypeAlias = Annotated[str, Meta(min_length=1, max_length=200)]
States: TypeAlias = tuple[State, ...]
