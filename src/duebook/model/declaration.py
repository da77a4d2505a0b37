"""The effects of declaring schedules, as a value: what is created, changed field by field and
removed, and which due times that moves. The command line, the REST API and programs show the
same."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, NamedTuple

from duebook.lazy_dataclasses import dataclass
from duebook.model.codec import Name, Shown, shown
from duebook.model.note import Note
from duebook.model.plan import Control

if TYPE_CHECKING:
    from duebook.model.schedule import ScheduleSpec

__all__ = [
    "DEFAULT_OWNER",
    "MOST_LISTED",
    "ControlMoves",
    "Declaration",
    "DeclaredAction",
    "DeclaredCalendar",
    "DeclaredSchedule",
    "DueMove",
    "FieldChange",
    "changed_fields",
    "field_changes",
]

DEFAULT_OWNER: Final = "default"
"""For schedules that are declared without an owner's name."""
DeclaredAction = Literal["create", "change", "follow", "remove", "leave"]
MOST_LISTED: Final = 10
"""Due times, or days, of each kind that are listed."""


@shown()
class FieldChange(NamedTuple):
    """A field of a definition before and after; null stands for the default."""

    field: Annotated[str, Shown(example="retry")]
    before: Any = None
    after: Any = None


@shown()
class DueMove(NamedTuple):
    """A due time that moves."""

    was: datetime
    becomes: datetime


@shown()
@dataclass(frozen=True, slots=True)
class ControlMoves:
    """The stops or restarts of a flow that appear, disappear or move; at most ten of each."""

    kind: Control
    appear: tuple[datetime, ...] = ()
    disappear: tuple[datetime, ...] = ()
    move: tuple[DueMove, ...] = ()
    more: Annotated[int, Shown("How many more change; a lower bound of many.")] = 0


@shown()
@dataclass(frozen=True, slots=True)
class DeclaredSchedule:
    """What a declaration changes about one schedule, with the due times that appear, disappear or
    move within the requested days; at most ten of each are listed."""

    name: Name
    action: Annotated[
        DeclaredAction,
        Shown(
            "`follow`: only the days of its calendar change. `leave`: it is no longer declared, "
            "and only a prune removes it."
        ),
    ]
    version: Annotated[int | None, Shown("The version it had; null if it is new.")] = None
    fields: tuple[FieldChange, ...] = ()
    appear: tuple[datetime, ...] = ()
    disappear: tuple[datetime, ...] = ()
    move: tuple[DueMove, ...] = ()
    more: Annotated[int, Shown("How many more due times change.")] = 0
    notes: tuple[Note, ...] = ()
    """warnings"""
    compared_until: Annotated[
        datetime | None,
        Shown(
            "Up to when due times were compared one by one, if not all were; then `more` is a "
            "lower bound."
        ),
    ] = None
    controls: Annotated[
        tuple[ControlMoves, ...], Shown("The same of its stops and restarts.", sparse=True)
    ] = ()


@shown()
@dataclass(frozen=True, slots=True)
class DeclaredCalendar:
    """What a declaration changes about one calendar; at most ten days or ranges of each kind are
    listed."""

    name: Name
    action: Annotated[
        Literal["create", "change", "follow"],
        Shown("`follow`: only the days of a calendar that it refers to change."),
    ]
    version: Annotated[int | None, Shown("The version it had; null if it is new.")] = None
    fields: tuple[FieldChange, ...] = ()
    added: Annotated[
        tuple[str, ...], Shown("Days to come, or ranges of days, that it gains; not if it is new.")
    ] = ()
    removed: Annotated[tuple[str, ...], Shown("Days to come that it loses.")] = ()
    more: Annotated[int, Shown("How many more days or ranges it gains or loses.")] = 0


@shown()
@dataclass(frozen=True, slots=True)
class Declaration:
    """What declaring schedules would do, or did."""

    owner: Annotated[str, Shown("Who declares the schedules.", example="billing")]
    namespace: str
    applied: Annotated[bool, Shown("False: nothing was changed.")]
    fingerprint: Annotated[
        str, Shown("Of the changes and the versions they are based on; `expect` takes it.")
    ]
    at: Annotated[datetime, Shown("As of when this is true.")]
    until: Annotated[datetime, Shown("Due times were compared up to this time.")]
    schedules: Annotated[
        tuple[DeclaredSchedule, ...], Shown("Those that are not unchanged, by name.")
    ] = ()
    unchanged: Annotated[tuple[str, ...], Shown("The names of those that stay as they are.")] = ()
    compared: Annotated[
        bool, Shown("False: there are so many due times that not all were compared.")
    ] = True
    calendars: Annotated[
        tuple[DeclaredCalendar, ...], Shown("Those that are not unchanged, by name.")
    ] = ()

    @property
    def created(self) -> tuple[str, ...]:
        return self._named("create")

    @property
    def changed(self) -> tuple[str, ...]:
        return self._named("change")

    @property
    def removed(self) -> tuple[str, ...]:
        return self._named("remove")

    @property
    def following(self) -> tuple[str, ...]:
        """Schedules for which only the days of their calendars change."""
        return self._named("follow")

    @property
    def left(self) -> tuple[str, ...]:
        """No longer declared, but still active."""
        return self._named("leave")

    @property
    def changes(self) -> bool:
        """Whether anything is created, changed or removed."""
        return bool(self.calendars) or any(one.action != "leave" for one in self.schedules)

    def _named(self, action: DeclaredAction) -> tuple[str, ...]:
        return tuple(one.name for one in self.schedules if one.action == action)


def changed_fields(
    was: ScheduleSpec, becomes: ScheduleSpec
) -> tuple[dict[str, Any], dict[str, Any]]:
    """The fields that differ, before and after; secrets are compared, and not shown."""
    old, new = _comparable(was), _comparable(becomes)
    names = [name for name in {**old, **new} if old.get(name) != new.get(name)]
    before, after = was.to_shown(names), becomes.to_shown(names)
    return {name: before[name] for name in names}, {name: after[name] for name in names}


def _comparable(spec: ScheduleSpec) -> dict[str, Any]:
    """With its secrets, and without the days of its calendar, which follow it by themselves."""
    form = spec.to_json()
    return form if spec.calendar is None else form | {"calendar": spec.calendar.to_shown()}


def field_changes(was: ScheduleSpec | None, becomes: ScheduleSpec) -> tuple[FieldChange, ...]:
    """Like `changed_fields`, one by one; for a new definition everything it contains."""
    if was is None:
        return tuple(FieldChange(name, None, value) for name, value in becomes.to_shown().items())
    before, after = changed_fields(was, becomes)
    return tuple(FieldChange(name, before[name], after[name]) for name in before)
