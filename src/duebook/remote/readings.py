"""Decodes the responses of a server by the type of the result: field by field, except types that
contain definitions or need more than their own form."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Any, Final, Union, get_args, get_origin

from duebook.errors import Invalid
from duebook.model.codec import decode, shown_as
from duebook.model.consumer import Consumer, Lag
from duebook.model.definition import load_spec
from duebook.model.edited import Edited
from duebook.model.event import Event, EventPage
from duebook.model.hidden import load_shown
from duebook.model.queue import Queue, QueueLoad
from duebook.model.revision import Revision
from duebook.model.run import LogLine
from duebook.model.schedule import FIELDS, Schedule, ScheduleSpec
from duebook.store.values import Page
from duebook.timetext import parse_instant

if TYPE_CHECKING:
    from duebook.client.use_cases import UseCase

__all__ = ["read_edit", "read_result", "read_revision", "read_schedule", "read_value"]

Form = Mapping[str, Any]


def read_result(case: UseCase, form: Any, about: Form) -> Any:
    """The result of a use case; `about` are its arguments, and the namespace."""
    kind = case.returns
    if isinstance(case.result, tuple):
        kinds = zip(case.result, get_args(kind), strict=True)
        return tuple(
            read_value(kind, form.get(name) if name else form, about) for name, kind in kinds
        )
    if case.result:
        form = form[case.result]
    elif get_origin(kind) is list:
        form = form["items"]
    return read_value(kind, form, about)


def read_value(kind: Any, form: Any, about: Form) -> Any:
    if form is None or kind in (None, NoneType):
        return None
    if (special := _READERS.get(kind)) is not None:
        return special(form, about)
    if get_origin(kind) is list:
        (item,) = get_args(kind)
        return [read_value(item, one, about) for one in form]
    if get_origin(kind) in (Union, UnionType):
        return read_value(get_args(kind)[0], form, about)
    if kind is datetime:
        return parse_instant(form)
    return form if shown_as(kind) is None else decode(kind, form)


def read_schedule(form: Form) -> Schedule:
    """Decode a schedule; an unreadable definition is left out, and `problem` explains it."""
    spec, problem = None, form.get("problem")
    if form.get("target") is not None:
        try:
            spec = _read_definition(form, form["name"])
        except Invalid as error:
            problem = problem or f"this version of Duebook cannot read the definition: {error}"
    return decode(Schedule, form, spec=spec, problem=problem)


def _read_definition(form: Form, name: str) -> ScheduleSpec:
    """Decode what is shown of a definition: hidden values in target and payload stay hidden."""
    given = {key: form[key] for key in FIELDS if key in form and key != "payload"}
    spec = load_spec(given | {"target": load_shown(form["target"])}, name)
    return replace(spec, payload=form.get("payload", {}))


def read_revision(form: Form, name: str) -> Revision:
    definition = form.get("definition")
    spec = None
    if definition is not None:
        try:
            spec = _read_definition(definition, name)
        except Invalid:  # a newer server has more policies
            spec = None
    return decode(Revision, form, spec=spec)


def read_edit(form: Form, name: str) -> Edited:
    """Raises Invalid for definitions of a newer server."""
    before, after = (_read_definition(form[when], name) for when in ("before", "after"))
    return decode(Edited, form, before=before, after=after)


def _read_line(form: Form) -> tuple[Page, LogLine]:
    """A line of a log and its position."""
    attempt, _, seq = form["place"].partition(".")
    return Page(int(attempt), int(seq)), decode(LogLine, form)


def _read_lag(form: Form, namespace: str) -> Lag:
    numbers = (form["behind"], form["dead"], form["failing"])
    return Lag(namespace, form["name"], form["kind"], *numbers)


def _read_page(form: Form) -> EventPage:
    events = (decode(Event, event) for event in form["items"])
    return EventPage(events, form["next_cursor"], form["position"])


_READERS: Final[dict[Any, Callable[[Any, Form], Any]]] = {
    Consumer: lambda form, about: decode(Consumer, form, namespace=about["namespace"]),
    EventPage: lambda form, _: _read_page(form),
    Lag: lambda form, about: _read_lag(form, about["namespace"]),
    Queue: lambda form, _: decode(QueueLoad, form).queue,
    Revision: lambda form, about: read_revision(form, about["name"]),
    Schedule: lambda form, _: read_schedule(form),
    tuple[Page, LogLine]: lambda form, _: _read_line(form),
}
"""For types that are not decoded field by field, or need more than their own form."""
