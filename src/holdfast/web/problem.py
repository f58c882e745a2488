"""What an answer says when something could not be done: a status, a code, and our own words."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
from starlette.responses import Response

from holdfast.model.errors import (
    ConfigurationError,
    GroupGone,
    HoldfastError,
    IdConflict,
    InvalidEvent,
    InvalidJob,
    InvalidLock,
    JobGone,
    KeyConflict,
    OutcomeUnknown,
    PayloadTooLarge,
    ScheduleGone,
    SchemaMismatch,
    StateConflict,
    StoreError,
    Undecodable,
    UnknownTask,
    VersionConflict,
)
from holdfast.model.masking import mask

JSON = "application/json"


class ProblemText(msgspec.Struct, frozen=True, kw_only=True):
    """What went wrong: a code for programs, a sentence for people, and the part that is wrong, if one is."""

    code: str
    message: str
    field: str | None = None


class ProblemDocument(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to what was not done."""

    error: ProblemText


class Problem(Exception):
    """Ends a request with an error. Nothing in it comes from the store or its driver."""

    def __init__(
        self,
        status: int,
        code: str,
        message: str,
        field: str | None = None,
        *,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.text = ProblemText(code=code, message=message, field=field)
        self.headers = dict(headers or {})

    @property
    def code(self) -> str:
        return self.text.code

    def response(self) -> Response:
        document = msgspec.json.encode(ProblemDocument(error=self.text))
        return Response(document, self.status, self.headers, JSON)


_CONFLICTS = {
    VersionConflict: "version_conflict",
    KeyConflict: "key_conflict",
    IdConflict: "id_conflict",
    StateConflict: "state_conflict",
}


def as_problem(error: HoldfastError) -> Problem | None:
    """What an error of ours means to the caller; None for those that are no fault of the request."""
    match error:
        case PayloadTooLarge():
            return Problem(413, "too_large", error.problem, error.field)
        case InvalidJob(field=field) if field.startswith("arguments"):
            return Problem(422, "invalid_arguments", error.problem, field)
        case InvalidJob() | InvalidEvent() | InvalidLock():
            return Problem(400, "invalid", error.problem, error.field)
        case ConfigurationError():
            return Problem(400, "invalid", mask(str(error)).removeprefix(f"{error.setting}: "), error.setting)
        case UnknownTask():
            return Problem(422, "unknown_task", str(error), "task")
        case JobGone() | ScheduleGone() | GroupGone():
            return Problem(404, "not_found", str(error))
        case VersionConflict() | KeyConflict() | IdConflict() | StateConflict():
            return Problem(409, _CONFLICTS[type(error)], str(error))
        case Undecodable():
            return Problem(409, "unreadable", str(error))
        case StoreError():
            return store_problem(error)
        case _:
            return None


def store_problem(error: StoreError) -> Problem:
    """What the store could not do, without its words: they may name what is not for everybody."""
    if isinstance(error, OutcomeUnknown):
        return Problem(
            503,
            "outcome_unknown",
            "the store's answer was lost; it may have been done: look, or repeat it with the same key",
        )
    if isinstance(error, SchemaMismatch):
        return Problem(503, "schema_mismatch", "the store's schema does not fit this version of Holdfast")
    return Problem(
        503, "store_unavailable", "the store cannot be reached at the moment", headers={"Retry-After": "1"}
    )
