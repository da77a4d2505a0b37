"""Schedule templates as values: named defaults that a schedule starts from.

A template stores the JSON form of some fields of a definition. H in a cron expression is left as
written, because each schedule hashes its own name.
"""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any, Final

from duebook.errors import Invalid
from duebook.lazy_dataclasses import dataclass
from duebook.model.codec import Name, Shown, shown
from duebook.model.definition import load_changes
from duebook.model.hidden import load_shown
from duebook.model.secret import HIDDEN, show_payload

if TYPE_CHECKING:
    from duebook.model.schedule import ScheduleSpec

__all__ = [
    "ANY_SCHEDULE",
    "ScheduleTemplate",
    "complete",
    "defaults_form",
    "defaults_shown",
    "given_fields",
]

ANY_SCHEDULE: Final = "*"
"""What H hashes while defaults are checked; not a valid name, so no `depends_on` can match it."""

_STAND_INS: Final[dict[str, Any]] = {"trigger": "@daily", "target": "any"}


@shown("Template")
@dataclass(frozen=True, slots=True)
class ScheduleTemplate:
    """Named defaults that a schedule copies when it is created."""

    namespace: Name
    name: Name
    defaults: Annotated[dict[str, Any], Shown(write=lambda form: defaults_shown(form))]  # noqa: PLW0108
    """the JSON form of some fields of a definition"""
    created_at: datetime
    created_by: str
    updated_at: datetime
    updated_by: str


def defaults_shown(defaults: dict[str, Any]) -> dict[str, Any]:
    """The defaults of a template, without secrets."""
    form = dict(defaults)
    if "payload" in form:
        form["payload"] = show_payload(form["payload"])
    if "target" in form:
        try:
            form["target"] = load_shown(form["target"]).to_json()
        except Invalid:  # written by a newer node: what is secret in it is unknown
            form["target"] = HIDDEN
    return form


def given_fields(defaults: dict[str, Any]) -> dict[str, Any]:
    """The given fields, with `cron` and its zone as the trigger; None counts as not given."""
    return load_changes({}, {key: value for key, value in defaults.items() if value is not None})


def complete(given: dict[str, Any]) -> dict[str, Any]:
    """A whole definition, so that the given part can be checked like one."""
    return _STAND_INS | given


def defaults_form(given: dict[str, Any], spec: ScheduleSpec) -> dict[str, Any]:
    """The JSON form of the given fields as `spec` has read them; includes those at their
    default."""
    form = spec.to_json(always=given)
    if "trigger" in given:
        form["trigger"] = _unhashed(given["trigger"], form["trigger"])
    return {key: form[key] for key in given}


def _unhashed(given: Any, form: Any) -> Any:
    """A trigger, or a list of them, without a key that was not given."""
    if isinstance(form, list):
        return [_unhashed(*pair) for pair in zip(given, form, strict=True)]
    item = given[0] if isinstance(given, list | tuple) else given
    hashes_name = isinstance(item, str) or (isinstance(item, dict) and item.get("key") is None)
    return {name: value for name, value in form.items() if name != "key" or not hashes_name}
