"""Use cases of schedule templates: save, list and remove named defaults."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from duebook.book.audit import Auditor
from duebook.book.checks import named_spec
from duebook.book.quotas import admit_template
from duebook.book.rights import UNLIMITED, Rights
from duebook.errors import Invalid, NotFound, shorten
from duebook.model.target import load_target
from duebook.model.template import (
    ANY_SCHEDULE,
    complete,
    defaults_form,
    defaults_shown,
    given_fields,
)

if TYPE_CHECKING:
    from duebook.model.target import Target
    from duebook.model.template import ScheduleTemplate
    from duebook.store.base import Store, Tx

    Listed = list[ScheduleTemplate]  # inside the class below `list` is a method

__all__ = ["Templates", "find_template", "target_of"]


class Templates:
    """Named defaults for schedules of a namespace. A schedule copies them when it is created, so
    changing a template does not change existing schedules."""

    def __init__(
        self, store: Store, namespace: str, by: str = "", rights: Rights = UNLIMITED
    ) -> None:
        self._store = store
        self._rights = rights
        self._namespace = namespace
        self._audit = Auditor(namespace, by)

    def save(self, name: str, by: str = "", **defaults: Any) -> ScheduleTemplate:
        """Save some fields of a definition under a name; they replace the previous ones.

        Raises InvalidSchedule with every wrong field. Problems that only the whole schedule shows,
        such as an `at` in the past, are reported when a schedule is created. Raises Forbidden for a
        target that only admins may define.
        """
        given = given_fields(defaults)
        spec = named_spec(name, complete(given), key=ANY_SCHEDULE)
        if not given:
            raise Invalid(f'template "{name}" has no defaults; give at least one field')
        form = defaults_form(given, spec)

        def work(tx: Tx) -> ScheduleTemplate:
            self._rights.refuse_secrets(spec)
            if "target" in given:
                self._rights.refuse(tx, spec.target)
            former = tx.schedules.get_template(self._namespace, name)
            maker = by or self._audit.by
            tx.schedules.save_template(self._namespace, name, form, maker)
            admit_template(tx, self._namespace)
            before = None if former is None else former.defaults
            self._note(tx, "create" if before is None else "update", name, before, form, maker)
            return find_template(tx, self._namespace, name)

        return self._store.transact(work)

    def get(self, name: str) -> ScheduleTemplate:
        """Return one template; raises NotFound, with similar names."""
        return self._store.read(lambda tx: find_template(tx, self._namespace, name))

    def list(self) -> Listed:
        """Return every template of the namespace, by name."""
        return self._store.read(lambda tx: tx.schedules.list_templates(self._namespace))

    def remove(self, name: str) -> None:
        """Delete a template; its schedules stay unchanged. Raises NotFound."""

        def work(tx: Tx) -> None:
            former = find_template(tx, self._namespace, name)
            tx.schedules.remove_template(self._namespace, name)
            self._note(tx, "delete", name, former.defaults, None)

        self._store.transact(work)

    def _note(
        self,
        tx: Tx,
        action: str,
        name: str,
        before: dict[str, Any] | None,
        after: dict[str, Any] | None,
        by: str = "",
    ) -> None:
        before, after = (form and defaults_shown(form) for form in (before, after))
        self._audit.note(tx, action, "template", name, "", before, after, by)


def find_template(tx: Tx, namespace: str, name: str) -> ScheduleTemplate:
    """The template of that name; raises NotFound, which lists similar names."""
    if not isinstance(name, str):
        raise Invalid(f"template {shorten(name)} is not a string")
    found = tx.schedules.get_template(namespace, name)
    if found is None:
        known = [template.name for template in tx.schedules.list_templates(namespace)]
        raise NotFound(f'template "{shorten(name)}" does not exist{_near(name, known)}')
    return found


def target_of(template: ScheduleTemplate) -> Target | None:
    """The target of the template, if any; an unreadable one is rejected with the definition."""
    try:
        return load_target(template.defaults["target"])
    except (KeyError, Invalid):
        return None


def _near(name: str, known: list[str]) -> str:
    from difflib import get_close_matches  # slow to import, and only mistakes need it

    if close := get_close_matches(name.lower(), known):
        return f"; did you mean {' or '.join(close)}?"
    return "" if known else "; there are no templates yet"
