"""Doing what a plan says, one step after the other, so that it can be cut short and gone on with."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager

from holdfast.azure.plan import Plan, Step
from holdfast.model.errors import AzureRefused, NotProvisioned

Watch = Callable[[Step], AbstractContextManager[object]]
"""Is entered for as long as a step takes."""


def carry_out(plan: Plan, watch: Watch) -> list[Step]:
    """Makes what is missing; what was done. A step that fails ends it, and tells what was made before."""
    done: list[Step] = []
    for step in plan.open:
        try:
            with watch(step):
                assert step.act is not None
                step.act()
        except AzureRefused as error:
            before = ", ".join(f"{each.what} {each.name}" for each in done) or "nothing"
            raise NotProvisioned(
                f"{error}. Made before that: {before}. When the cause is gone, run the same again to go on"
            ) from error
        done.append(step)
    return done
