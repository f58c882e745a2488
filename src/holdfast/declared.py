"""The schedules that an application declares beside its tasks."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import msgspec

from holdfast.model.errors import ConfigurationError
from holdfast.model.plan import Plan
from holdfast.model.recurrence import Every, every
from holdfast.model.schedule import Schedule
from holdfast.model.settings import Settings
from holdfast.task import Task


@dataclass(frozen=True, slots=True)
class _Declared:
    rule: Schedule
    task: Task[..., Any]
    args: tuple[Any, ...]
    is_by_setting: bool


class Declared:
    """By name. The settings are not read before the plans are asked for."""

    def __init__(self, settings: Callable[[], Settings]) -> None:
        self._settings = settings
        self._declared: dict[str, _Declared] = {}

    def add(
        self, rule: Schedule, task: Task[..., Any], args: tuple[Any, ...], *, is_by_setting: bool
    ) -> None:
        """Takes a schedule if name and arguments fit. By setting: its recurrence is that of the settings."""
        task.definition.encode_arguments(args, {}, sys.maxsize)
        known = self._declared.get(rule.name)
        if known is not None and (known.task is task or known.task.name != task.name):
            raise ConfigurationError(
                f"two schedules are called {rule.name!r}; give one of them another name",
                setting="schedule.name",
            )
        self._declared[rule.name] = _Declared(rule, task, args, is_by_setting)

    def plans(self) -> list[Plan]:
        return [Plan.of(self._rule(each), each.task.call(*each.args)) for each in self._declared.values()]

    def _rule(self, declared: _Declared) -> Schedule:
        rule = declared.rule
        if not declared.is_by_setting:
            return rule
        return msgspec.structs.replace(rule, recurrence=self._interval(rule.name))

    def _interval(self, name: str) -> Every:
        seconds = self._settings().interval_seconds
        if seconds is None:
            raise ConfigurationError(
                f"the schedule {name!r} has no recurrence; give it one, for instance every(minutes=10), or "
                "set interval_seconds",
                setting="schedule.recurrence",
            )
        return every(seconds, anchor="start")
