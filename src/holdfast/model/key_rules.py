"""Keys that a task takes from its arguments: of which parameter, and for what."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from holdfast.model.errors import InvalidJob
from holdfast.model.names import check_name
from holdfast.model.secret import Secret
from holdfast.model.signature import Signature


@dataclass(frozen=True, slots=True)
class KeyRules:
    """For each option the parameter whose value it is; and whether a failed job halts its sequence."""

    parameters: Mapping[str, str]
    halts: bool | None = None

    def found(self, signature: Signature, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
        """The options of one call. An argument that is None gives none."""
        if not self.parameters:
            return {"halts": self.halts}
        values = signature.bound(args, kwargs)
        said: dict[str, Any] = {"halts": self.halts}
        for option, parameter in self.parameters.items():
            value = values[parameter]
            if isinstance(value, Secret):
                raise InvalidJob(
                    option, f"{parameter} is a Secret, and keys are shown; give another parameter"
                )
            if value is not None:
                said[option] = check_name(value if isinstance(value, str) else str(value), option)
        return said


NO_KEYS = KeyRules({})


def key_rules(
    signature: Signature,
    limit_by: str | None,
    fair_by: str | None,
    sequence_by: str | None,
    halts: bool | None,
) -> KeyRules:
    """The rules of a task; InvalidJob if it has no such parameter."""
    said = {"limit_key": limit_by, "fair_key": fair_by, "sequence_key": sequence_by}
    parameters = {option: name for option, name in said.items() if name is not None}
    for option, name in parameters.items():
        if name not in signature.parameters:
            field = option.replace("_key", "_by")
            known = ", ".join(signature.parameters) or "none"
            raise InvalidJob(field, f"the function has no parameter {name!a}; it has {known}")
    return KeyRules(parameters, halts) if parameters or halts is not None else NO_KEYS
