"""Definitions that this node cannot read: what can be kept of them, and how to report them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from duebook.errors import Invalid, shorten
from duebook.lazy_dataclasses import dataclass
from duebook.model.definition import read_fields
from duebook.model.schedule import InvalidSchedule, ScheduleSpec
from duebook.model.target import TaskTarget

if TYPE_CHECKING:
    from duebook.model.plan import Snapshot

__all__ = [
    "Salvaged",
    "blank_spec",
    "describe_unreadable",
    "is_field",
    "missing_definition",
    "read_fields_and_spec",
    "read_spec",
    "salvage",
]

_TIMING: Final = {"", "trigger", "start_at", "end_at", "max_runs", "jitter", "exclude", "calendar"}
"""The fields that decide when a schedule is due."""
_STAND_IN: Final = TaskTarget("unreadable")
_LONGEST: Final = 400


@dataclass(frozen=True, slots=True)
class Salvaged:
    """A schedule whose definition this node cannot read, with its readable parts."""

    snapshot: Snapshot
    """its definition has the readable fields, and the others at their defaults"""
    form: dict[str, Any]
    """the readable fields, as JSON"""
    problems: dict[str, str]
    """the problem of each of the others; "" is the definition as a whole"""

    @property
    def problem(self) -> str:
        return describe_unreadable(self.problems)

    @property
    def knows_times(self) -> bool:
        """Whether everything that decides when it is due is readable."""
        return not any(key in _TIMING or not is_field(key) for key in self.problems)


def is_field(name: str) -> bool:
    """Whether this version of Duebook knows such a field."""
    return name == "trigger" or name in ScheduleSpec.__dataclass_fields__


def blank_spec() -> ScheduleSpec:
    """Stands for a definition without any readable field."""
    return ScheduleSpec((), _STAND_IN)


def read_spec(text: str, name: str) -> ScheduleSpec:
    """A stored definition; raises InvalidSchedule with everything that is wrong with it."""
    return read_fields_and_spec(text, name)[1]


def read_fields_and_spec(text: str, name: str | None) -> tuple[dict[str, Any], ScheduleSpec]:
    """Like `read_spec`, with the fields that were given; without a name, an H that would hash it is
    a problem."""
    try:
        values, problems = read_fields(_object(text), name)
        if problems:
            raise InvalidSchedule(problems)  # noqa: TRY301 - of several kinds
        return values, ScheduleSpec(**values)
    except Invalid:
        raise
    except Exception as error:  # a damaged row must not prevent others from being read
        raise InvalidSchedule({"": _damaged(error)}) from error


def salvage(text: str | None, name: str) -> tuple[ScheduleSpec, dict[str, Any], dict[str, str]]:
    """The readable part of a definition that `read_spec` rejects, as a definition and as JSON, and
    the problems of the rest."""
    if text is None:
        return blank_spec(), {}, missing_definition().problems
    try:
        form = _object(text)
        values, problems = read_fields(form, name)
    except InvalidSchedule as error:
        form, values, problems = {}, {}, error.problems
    except Exception as error:
        form, values, problems = {}, {}, {"": _damaged(error)}
    kept = {key: value for key, value in form.items() if key not in problems}
    read = {key: value for key, value in values.items() if key not in problems}
    whole: dict[str, Any] = {"triggers": (), "target": _STAND_IN} | read
    return ScheduleSpec(**whole), kept, problems


def missing_definition() -> InvalidSchedule:
    return InvalidSchedule({"": "it is missing from the database"})


def describe_unreadable(problems: dict[str, str]) -> str:
    """One sentence for people: what cannot be read, and the remedy."""
    told = shorten("; ".join(problems.values()), _LONGEST)
    if "" in problems or {"trigger", "target"} <= problems.keys():
        return f"the definition cannot be read: {told}; replace it with: duebook update"
    return (
        f"the definition cannot be read: {told}; if a newer version of Duebook wrote it, upgrade "
        f"this node; otherwise set {', '.join(problems)} again: duebook update"
    )


def _object(text: str) -> dict[str, Any]:
    form = json.loads(text)
    if not isinstance(form, dict):
        raise InvalidSchedule({"": f"{shorten(text)} is not a JSON object"})
    return form


def _damaged(error: Exception) -> str:
    return f"it is damaged ({type(error).__name__}: {shorten(str(error))})"
