"""Values that are not shown: arguments, results, and parts of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar, cast, final, get_args, get_origin

T_co = TypeVar("T_co", covariant=True)

MARK = "$secret"
"""In JSON a secret is an object with this one key, so that one who shows it needs not know its task."""
HIDDEN = "***"
TO_STORE = "holdfast.store"
"""As context of a pydantic dump: this one is for the store, so secrets are written out."""


@final
class Secret(Generic[T_co]):
    """A value that no repr, str, format or traceback shows; `reveal` gives it.

    As annotation of a parameter, a result or a field, `Secret[str]`, it also takes the plain value.
    """

    __slots__ = ("__value",)

    def __init__(self, value: T_co) -> None:
        self.__value = value

    def reveal(self) -> T_co:
        return self.__value

    def __repr__(self) -> str:
        return f"Secret({HIDDEN})"

    def __str__(self) -> str:
        return HIDDEN

    def __format__(self, spec: str) -> str:
        return format(HIDDEN, spec)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Secret):
            return bool(self.__value == cast("Secret[object]", other).reveal())
        return NotImplemented

    def __hash__(self) -> int:
        return hash((Secret, self.__value))

    def __copy__(self) -> Secret[T_co]:
        return self

    def __reduce__(self) -> tuple[type[Secret[T_co]], tuple[T_co]]:
        return Secret, (self.__value,)

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: Any) -> dict[str, Any]:
        """How pydantic reads it and writes it out: hidden, unless the dump is for the store."""

        def read(value: object, inner: Callable[[object], Any]) -> Secret[Any]:
            return Secret(inner(unmarked(value)))

        def write(value: Secret[Any], info: Any) -> object:
            if info.mode != "json":
                return value
            return marked(value) if info.context == TO_STORE else HIDDEN

        return {
            "type": "function-wrap",
            "function": {"type": "no-info", "function": read},
            "schema": handler.generate_schema(inner_of(source)),
            "serialization": {"type": "function-plain", "function": write, "info_arg": True},
        }


def marked(secret: Secret[Any]) -> dict[str, object]:
    """The secret as JSON has it."""
    return {MARK: secret.reveal()}


def unmarked(value: object) -> object:
    """The value itself, of a secret, of what JSON has of one, or of what was none."""
    if isinstance(value, Secret):
        return cast("Secret[object]", value).reveal()
    return cast("dict[str, object]", value)[MARK] if is_marked(value) else value


def is_marked(value: object) -> bool:
    return isinstance(value, dict) and len(cast("dict[object, object]", value)) == 1 and MARK in value


def is_secret(kind: object) -> bool:
    """Whether the type is Secret or Secret[...]."""
    return kind is Secret or get_origin(kind) is Secret


def inner_of(kind: object) -> Any:
    """The type of what a secret keeps."""
    return next(iter(get_args(kind)), Any)


def schema_hook(kind: type) -> dict[str, object]:
    """The JSON schema of a secret, for msgspec, which does not tell what is inside."""
    if is_secret(kind):
        return {"format": "password", "writeOnly": True}
    raise NotImplementedError
