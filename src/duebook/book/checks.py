"""Checks of schedules that need more than the definition: names, circles, the past."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from duebook.book.held import held_of
from duebook.errors import Conflict, Invalid, NotFound, shorten
from duebook.ids import check_name
from duebook.model.definition import load_spec
from duebook.model.schedule import InvalidSchedule
from duebook.targets.templates import check_templates, has_templates
from duebook.timetext import format_instant
from duebook.triggers.at import At

if TYPE_CHECKING:
    from datetime import datetime

    from duebook.model.plan import Snapshot
    from duebook.model.schedule import ScheduleSpec
    from duebook.store.base import Tx
    from duebook.targets.task import Tasks

__all__ = [
    "check_definition",
    "named_spec",
    "never_due",
    "refuse_circle",
    "refuse_decided",
    "refuse_past",
    "refuse_payload",
    "refuse_templates",
]

MOST_FOLLOWED: Final = 1_000


def named_spec(name: str, definition: dict[str, Any], key: str | None = None) -> ScheduleSpec:
    """A definition and its name; raises InvalidSchedule with all problems of either.

    `key` is the name in the definition if it is not the schedule's.
    """
    problems: dict[str, str] = {}
    try:
        check_name(name)
    except Invalid as error:
        problems["name"] = str(error)
    try:
        spec = load_spec(definition, key or shorten(name))
    except InvalidSchedule as error:
        raise InvalidSchedule(problems | error.problems) from None
    if problems := problems | check_templates(spec):
        raise InvalidSchedule(problems)
    return spec


def check_definition(
    name: Any,
    definition: dict[str, Any],
    tasks: Tasks,
    wrong: dict[str, str],
    namespace: str,
) -> ScheduleSpec:
    """Apply `named_spec` and `refuse_payload`; `wrong` are the problems that are already known."""
    try:
        spec = named_spec(name, definition)
        refuse_payload(tasks, spec, namespace)
    except InvalidSchedule as error:
        raise InvalidSchedule(error.problems | wrong) from None
    if wrong:
        raise InvalidSchedule(wrong)
    return spec


def refuse_templates(spec: ScheduleSpec) -> None:
    """Raises InvalidSchedule for templates that can never be rendered."""
    if problems := check_templates(spec):
        raise InvalidSchedule(problems)


def refuse_payload(tasks: Tasks, spec: ScheduleSpec, namespace: str) -> None:
    """Raises InvalidSchedule if a task that is declared here would not accept the payload, or does
    not allow the namespace."""
    try:
        tasks.refuse_fenced(spec.target, namespace)
    except Invalid as error:
        raise InvalidSchedule({"target": str(error)}) from None
    try:
        tasks.check(spec.target, spec.payload, has_templates)
    except Invalid as error:
        raise InvalidSchedule({"payload": str(error)}) from None


def refuse_circle(
    tx: Tx,
    namespace: str,
    name: str,
    spec: ScheduleSpec,
    upstreams: dict[str, list[str]] | None = None,
) -> None:
    """Raises InvalidSchedule for schedules that wait for each other and so would never run.

    `upstreams` are those of known schedules; others are looked up and added.
    """
    known: set[str] = set()
    upstreams = {} if upstreams is None else upstreams
    waiting = [dependency.schedule for dependency in spec.depends_on]
    while waiting and len(known) < MOST_FOLLOWED:
        upstream = waiting.pop()
        if upstream == name:
            told = f'depends_on: "{name}" would depend on itself through other schedules'
            raise InvalidSchedule({"depends_on": told})
        if upstream not in known:
            known.add(upstream)
            if upstream not in upstreams:
                upstreams[upstream] = _depends_on(tx, namespace, upstream)
            waiting += upstreams[upstream]


def _depends_on(tx: Tx, namespace: str, name: str) -> list[str]:
    try:
        spec = tx.schedules.get_schedule(tx.schedules.find_schedule(namespace, name)).spec
    except NotFound:  # it may be added later, and is checked then
        return []
    return [dependency.schedule for dependency in spec.depends_on] if spec else []


def never_due(spec: ScheduleSpec, now: datetime) -> InvalidSchedule:
    if spec.end_at is not None and spec.end_at <= now:
        return InvalidSchedule({"end_at": f"end_at {format_instant(spec.end_at)} is in the past"})
    bounds = [name for name in ("start_at", "end_at", "exclude", "calendar") if getattr(spec, name)]
    within = f" within {', '.join(bounds)}" if bounds else ""
    return InvalidSchedule({"trigger": f"trigger has no due time after now{within}"})


def refuse_decided(tx: Tx, snapshot: Snapshot, moment: datetime) -> None:
    """Raises Conflict for a due time that has been decided: only a backfill can still run it."""
    decided = tx.runs.list_runs_due(snapshot.schedule_id, moment, moment, 1) or any(
        moment in (entry.due_from, entry.due_to)
        for entry in tx.ledger.list_ledger_between(snapshot.schedule_id, moment, moment, 10)
    )
    forgotten = tx.history.of(snapshot.schedule_id).forgotten_until  # after the lookup of its run
    if forgotten is not None and moment <= forgotten:
        raise Conflict(
            f"the due time {format_instant(moment)} may have run before, and its history is "
            f"deleted; choose a time after {format_instant(forgotten)}"
        )
    if any(held.covers(moment) for held in held_of(tx, snapshot.schedule_id)):
        raise Conflict(
            f"the due time {format_instant(moment)} is held; approve or reject it first: "
            f"duebook catchup ls {snapshot.name}"
        )
    if decided:
        raise Conflict(
            f"the due time {format_instant(moment)} has already been decided; choose another time, "
            "or use backfill"
        )


def refuse_past(spec: ScheduleSpec, now: datetime) -> None:
    for trigger in spec.triggers:
        if isinstance(trigger, At) and trigger.instant <= now:
            raise InvalidSchedule(
                {"trigger": f"at {format_instant(trigger.instant)} is in the past"}
            )
