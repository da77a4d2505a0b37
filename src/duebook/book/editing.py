"""An edit: the definition in force, or its readable fields, and the one that replaces it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from duebook.book.calendar_use import put_to_use
from duebook.book.checks import refuse_circle, refuse_past, refuse_payload, refuse_templates
from duebook.book.quotas import admit
from duebook.book.secret_notes import unknown_secrets
from duebook.book.widening import find_missed
from duebook.model.aliases import canonical
from duebook.model.definition import load_changes
from duebook.model.schedule import InvalidSchedule
from duebook.model.unreadable import is_field
from duebook.planner import count_edit, plan_edit, plan_repair
from duebook.store.values import Edit

if TYPE_CHECKING:
    from duebook.book.audit import ScheduleAudit
    from duebook.book.rights import Rights
    from duebook.model.plan import Snapshot
    from duebook.model.schedule import Schedule, ScheduleSpec
    from duebook.model.target import Target
    from duebook.model.unreadable import Salvaged
    from duebook.store.base import Tx
    from duebook.targets.task import Tasks

__all__ = ["current_spec", "find_unreadable", "form_after", "put_in_force", "target_in_force"]


def find_unreadable(tx: Tx, schedule: Schedule) -> Salvaged | None:
    """The schedule with its readable fields; None if all can be read."""
    if schedule.spec is not None:
        return None
    return next(iter(tx.plans.salvage([schedule.id])), None)


def current_spec(tx: Tx, schedule: Schedule) -> ScheduleSpec:
    """The definition in force; fields that cannot be read have their defaults."""
    salvaged = find_unreadable(tx, schedule)
    return tx.plans.snapshot(schedule.id).spec if salvaged is None else salvaged.snapshot.spec


def target_in_force(snapshot: Snapshot, salvaged: Salvaged | None) -> Target | None:
    """None: it cannot be read."""
    if salvaged is not None and "target" not in salvaged.form:
        return None
    return snapshot.spec.target


def form_after(
    tx: Tx, schedule: Schedule, changes: dict[str, Any]
) -> tuple[ScheduleSpec, dict[str, Any]]:
    """The definition in force, and its form after the changes.

    Raises InvalidSchedule with the fields that cannot be read and that the changes do not set;
    None, for the default, counts as setting one.
    """
    salvaged = find_unreadable(tx, schedule)
    if salvaged is None:
        current = tx.plans.snapshot(schedule.id).spec
        return current, load_changes(current.to_json(), changes)
    changes = canonical(changes, salvaged.form.get("target"))
    left = {
        field: f"{problem}; {_remedy(field)}"
        for field, problem in salvaged.problems.items()
        if field and field not in changes
    }
    if left:
        raise InvalidSchedule(left)
    given = {key: value for key, value in changes.items() if _sets(key, value, salvaged)}
    return salvaged.snapshot.spec, {**salvaged.form, **given}


def put_in_force(
    tx: Tx,
    schedule: Schedule,
    spec: ScheduleSpec,
    tasks: Tasks,
    rights: Rights,
    audit: ScheduleAudit,
    template_target: Target | None = None,
) -> Schedule:
    """Put a definition in force by the edit rule; an unchanged one has no effect.

    Any role may use the target that its template supplies.
    """
    salvaged = find_unreadable(tx, schedule)
    snapshot = tx.plans.snapshot(schedule.id) if salvaged is None else salvaged.snapshot
    spec = spec.anchored(schedule.created_at)
    if spec == snapshot.spec and salvaged is None:
        return schedule
    spec = count_edit(snapshot, put_to_use(tx, schedule.namespace, spec), tx.now)
    rights.refuse_secrets(spec, snapshot.spec if salvaged is None else None)
    if spec.target != template_target:
        rights.refuse(tx, spec.target, target_in_force(snapshot, salvaged))
    refuse_templates(spec)
    refuse_payload(tasks, spec, schedule.namespace)
    if spec.triggers != snapshot.spec.triggers:
        refuse_past(spec, tx.now)
    refuse_circle(tx, schedule.namespace, schedule.name, spec)
    if salvaged is None:
        planned = plan_edit(snapshot, spec, tx.now)
    else:
        planned = plan_repair(salvaged, spec, tx.now)
    was = None if salvaged else snapshot.spec
    tx.schedules.update_schedules([Edit(schedule, spec, planned, was)], audit.by)
    admit(tx, schedule.namespace, [(schedule.name, spec, snapshot.spec)])
    audit.edited(tx, [(schedule, snapshot.spec, spec)])
    missed = find_missed(tx, schedule, snapshot, spec)
    edited = tx.schedules.get_schedule(schedule.id)
    notes = ((missed.note,) if missed else ()) + unknown_secrets(tx, schedule.namespace, spec)
    return replace(edited, notes=notes) if notes else edited


def _remedy(field: str) -> str:
    if field in ("trigger", "target"):
        return f"set {field} again"
    if is_field(field):
        return f"set {field} again, or reset it"
    return f"reset {field} to drop it, or upgrade Duebook"


def _sets(field: str, value: Any, salvaged: Salvaged) -> bool:
    """A field that only a newer Duebook knows can be dropped, but not set."""
    return is_field(field) or value is not None or field not in salvaged.problems
