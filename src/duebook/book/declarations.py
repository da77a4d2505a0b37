"""The schedules that tasks declare in code: what is refused at once, and how they come on the
books."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from duebook.book.checks import refuse_payload, refuse_templates
from duebook.book.schedules import Schedules
from duebook.errors import Conflict, Invalid
from duebook.ids import check_name
from duebook.model.definition import load_spec
from duebook.targets.task import Tasks

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from duebook.book import Book
    from duebook.book.defining import Declared
    from duebook.targets.task import Isolation

__all__ = ["Declarations", "declare_schedules", "refuse_declaration"]

log = logging.getLogger("duebook.app")


@dataclass(frozen=True, slots=True)
class Declarations:
    """What became of the schedules that code declares, by their names."""

    created: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    unchanged: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    """no longer declared; deleted when that was asked for, otherwise still in force"""
    refused: tuple[tuple[str, str], ...] = ()
    """with the reason of each; whatever was in force stays"""


def declare_schedules(book: Book, by: str, prune: bool) -> Declarations:
    """Put the schedules of the book's tasks in force; one that is refused holds up no other."""
    found: dict[Declared, list[str]] = {"created": [], "changed": [], "unchanged": []}
    refused: list[tuple[str, str]] = []
    declared = [task for task in book.tasks if task.schedule is not None]
    for task in declared:
        try:
            definition = _definition(task.name, task.schedule, task.policies)
            schedule, what = book.schedules.declare_one(task.name, by, **definition)
            found[what].append(task.name)
            for note in schedule.notes:
                log.info("schedule %s: %s", task.name, note.message)
        except (Invalid, Conflict) as error:
            refused.append((task.name, str(error)))
    made = book.store.read(lambda tx: tx.schedules.list_owned(book.namespace, by))
    removed = [name for name in made if name not in {task.name for task in declared}]
    if prune:
        for name in removed:
            Schedules(book.store, book.namespace, by=by).delete(name)
    names: dict[str, Any] = {what: tuple(given) for what, given in found.items()}
    declarations = Declarations(**names, removed=tuple(removed), refused=tuple(refused))
    _log_declared(declarations, prune)
    return declarations


def refuse_declaration(
    function: Callable[..., Any],
    name: str,
    isolation: Isolation | None,
    schedule: Any,
    policies: Mapping[str, Any],
    namespace: str,
) -> None:
    """What could only fail later: raises Invalid, and InvalidSchedule for policies and payload."""
    for field, instead in (("target", "the function is it"), ("trigger", "use schedule")):
        if field in policies:
            raise Invalid(f"a task does not take {field}: {instead}")
    trigger = {"every": "1d"} if schedule is None else schedule
    spec = load_spec(_definition(name, trigger, policies), name)
    refuse_templates(spec)
    alone = Tasks()
    alone.add(function, name, isolation)
    if schedule is not None or "payload" in policies:
        refuse_payload(alone, spec, namespace)
    if schedule is not None:
        check_name(name, "the schedule of task")


def _definition(name: str, schedule: Any, policies: Mapping[str, Any]) -> dict[str, Any]:
    return {"target": {"task": name}, "trigger": schedule, **policies}


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
