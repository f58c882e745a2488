"""What an exception or a value out of a handler becomes, in a form that every store can keep."""

from __future__ import annotations

import traceback
from types import CoroutineType

from holdfast.model.errors import InvalidJob, Undecodable
from holdfast.model.outcome import Failed
from holdfast.model.retry import Retry
from holdfast.model.task import TaskDefinition

REASON_BYTES = 300


def plain_text(text: str, limit: int, gap: str = "\n [...] ") -> str:
    """The text without what some store cannot keep (NUL, lone surrogates), cut in its middle to fit."""
    data = text.replace("\x00", "\\x00").encode("utf-8", "backslashreplace")
    if len(data) <= limit:
        return data.decode()
    half = (limit - len(gap)) // 2
    return data[:half].decode("utf-8", "ignore") + gap + data[-half:].decode("utf-8", "ignore")


def one_line(text: str) -> str:
    """The text as a reason: one line, and not a long one."""
    return plain_text(" ".join(text.split()), REASON_BYTES, " [...] ")


def failed(error: BaseException, limit: int) -> Failed:
    """A failure as it is stored: one line of reason, and the traceback, at most `limit` bytes of it."""
    kind = type(error).__name__
    try:
        text = str(error)
        trace = "" if isinstance(error, Retry) else "".join(traceback.format_exception(error))
    except BaseException as flaw:  # noqa: BLE001  how an exception shows itself is user code as well
        return Failed(one_line(f"{kind}: its text cannot be shown ({type(flaw).__name__})"), None, error)
    return Failed(one_line(f"{kind}: {text}" if text else kind), plain_text(trace, limit) or None, error)


def encoded_result(definition: TaskDefinition, value: object, limit: int) -> bytes | None:
    """A handler's value as stored, None if its task keeps none; TypeError says why it cannot be."""
    if isinstance(value, CoroutineType):
        value.close()
        raise TypeError("the handler returned a coroutine, so its work was not done; make it `async def`")
    if not definition.keep_result:
        return None
    try:
        return definition.encode_result(value, limit)
    except InvalidJob as error:
        raise TypeError(f"the result cannot be stored: {error}") from None


def committed_result(definition: TaskDefinition, value: object, limit: int) -> bytes | None:
    """What a completion in a transaction stores: no result where none was given and the task promises one."""
    stored = encoded_result(definition, value, limit)
    if value is None and stored is not None:
        try:
            definition.decode_result(stored)
        except Undecodable:
            return None
    return stored
