"""Declares the schedules of tasks in code: what is rejected at once, and how they are stored."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from duebook.book.checks import refuse_payload, refuse_templates
from duebook.book.schedules import Schedules
from duebook.errors import Conflict, Invalid, shorten
from duebook.ids import check_name
from duebook.lazy_dataclasses import dataclass
from duebook.model.definition import load_spec
from duebook.targets.task import Tasks

if TYPE_CHECKING:
    from collections.abc import Callable

    from duebook.book import Book
    from duebook.book.defining import Declared
    from duebook.targets.task import Isolation

__all__ = ["Declarations", "declare_schedules", "read_schedules", "refuse_declaration"]

log = logging.getLogger("duebook.app")


@dataclass(frozen=True, slots=True)
class Declarations:
    """The results of declaring the schedules in code, by name."""

    created: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    unchanged: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    """no longer declared; deleted if that was requested, otherwise still in force"""
    refused: tuple[tuple[str, str], ...] = ()
    """each with its reason; the definition in force, if any, stays"""


def declare_schedules(book: Book, by: str, prune: bool) -> Declarations:
    """Put the schedules of the book's tasks in force; a rejected one does not affect the others."""
    found: dict[Declared, list[str]] = {"created": [], "changed": [], "unchanged": []}
    refused: list[tuple[str, str]] = []
    declared: dict[str, str] = {}
    for task in book.tasks:
        for name, own in task.schedules.items():
            try:
                if (other := declared.setdefault(name, task.name)) != task.name:
                    raise Conflict(f'task "{other}" declares a schedule of the same name')  # noqa: TRY301
                definition = {"target": {"task": task.name}, **task.policies, **own}
                schedule, what = book.schedules.declare_one(name, by, **definition)
                found[what].append(name)
                for note in schedule.notes:
                    log.info("schedule %s: %s", name, note.message)
            except (Invalid, Conflict) as error:
                refused.append((name, str(error)))
    made = book.store.read(lambda tx: tx.schedules.list_owned(book.namespace, by))
    removed = [name for name in made if name not in declared]
    if prune:
        for name in removed:
            Schedules(book.store, book.namespace, by=by).delete(name)
    names: dict[str, Any] = {what: tuple(given) for what, given in found.items()}
    declarations = Declarations(**names, removed=tuple(removed), refused=tuple(refused))
    _log_declared(declarations, prune)
    return declarations


def read_schedules(
    name: str, schedule: Any, schedules: Mapping[str, Mapping[str, Any]] | None
) -> dict[str, dict[str, Any]]:
    """The schedules that a task declares, by name; raises Invalid for anything else."""
    found = {} if schedule is None else {name: {"trigger": schedule}}
    if schedules is None:
        return found
    if not isinstance(schedules, Mapping):
        raise Invalid(f'schedules {shorten(schedules)} is not a dict such as {{"name": {{…}}}}')
    for own, definition in schedules.items():
        if own in found:
            raise Invalid(f'schedule "{own}" is declared by both schedule and schedules')
        if not isinstance(definition, Mapping):
            raise Invalid(f'schedules: "{shorten(own)}" is not a dict with a trigger')
        if "target" in definition:
            told = "has a target; remove it, the task itself runs"
            raise Invalid(f'schedules: "{shorten(own)}" {told}')
        found[own] = dict(definition)
    return found


def refuse_declaration(
    function: Callable[..., Any],
    name: str,
    isolation: Isolation | None,
    schedules: Mapping[str, Mapping[str, Any]],
    policies: Mapping[str, Any],
    namespace: str,
) -> None:
    """Reject now what would fail later: raises Invalid, or InvalidSchedule for policies and
    payload."""
    for field, instead in (("target", "the task itself runs"), ("trigger", "use schedule")):
        if field in policies:
            raise Invalid(f"a task does not take {field}: {instead}")
    alone = Tasks()
    alone.add(function, name, isolation)
    common = {"target": {"task": name}, **policies}
    if not schedules:
        spec = load_spec({**common, "trigger": {"every": "1d"}}, name)
        refuse_templates(spec)
        if "payload" in policies:
            refuse_payload(alone, spec, namespace)
    for own, definition in schedules.items():
        spec = load_spec({**common, **definition}, own)
        refuse_templates(spec)
        refuse_payload(alone, spec, namespace)
        check_name(own, "the schedule of task")


def _log_declared(declared: Declarations, prune: bool) -> None:
    for what in ("created", "changed"):
        for name in getattr(declared, what):
            log.info("schedule %s %s as declared in code", name, what)
    for name in declared.removed:
        if prune:
            log.warning("schedule %s is no longer declared in code and was deleted", name)
        else:
            log.warning(
                "schedule %s is no longer declared in code but is still active; delete it, or "
                "start the node with --prune",
                name,
            )
    for name, why in declared.refused:
        log.error("schedule %s could not be updated to what the code declares: %s", name, why)
