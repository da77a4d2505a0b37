"""Reads back what a server shows in another way than field by field: what holds definitions."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from duebook.errors import Invalid
from duebook.explain import Explanation
from duebook.model.access import AccessToken
from duebook.model.acted import Acted
from duebook.model.change import Change
from duebook.model.codec import decode
from duebook.model.consumer import Consumer, DeadLetter, Partition
from duebook.model.definition import load_spec
from duebook.model.edited import Edited
from duebook.model.event import Event, TopicUse
from duebook.model.hidden import load_shown
from duebook.model.node import LiveNode
from duebook.model.plan import DueException
from duebook.model.queue import QueueLoad
from duebook.model.quota import NamespaceUse
from duebook.model.readiness import Readiness
from duebook.model.run import Attempt, LogLine, Run
from duebook.model.schedule import FIELDS, Revision, Schedule, ScheduleSpec
from duebook.model.template import ScheduleTemplate
from duebook.store.values import LedgerEntry, Page

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = [
    "read_acted",
    "read_attempt",
    "read_change",
    "read_consumer",
    "read_edit",
    "read_event",
    "read_exception",
    "read_explanation",
    "read_ledger",
    "read_letter",
    "read_line",
    "read_namespace",
    "read_node",
    "read_partition",
    "read_queue",
    "read_readiness",
    "read_revision",
    "read_run",
    "read_schedule",
    "read_template",
    "read_token",
    "read_topic",
    "read_value",
]

Form = dict[str, Any]
T = TypeVar("T")


def read_schedule(form: Form) -> Schedule:
    """A definition that nobody here can read is left out, and `problem` says why."""
    spec, problem = None, form.get("problem")
    if form.get("target") is not None:
        try:
            spec = _read_definition(form, form["name"])
        except Invalid as error:
            problem = problem or f"this Duebook cannot read its definition: {error}"
    return decode(Schedule, form, spec=spec, problem=problem)


def _read_definition(form: Form, name: str) -> ScheduleSpec:
    """As far as it is shown: what its target and its payload hide stays hidden."""
    given = {key: form[key] for key in FIELDS if key in form and key != "payload"}
    spec = load_spec(given | {"target": load_shown(form["target"])}, name)
    return replace(spec, payload=form.get("payload", {}))


def read_revision(form: Form, name: str) -> Revision:
    definition = form.get("definition")
    spec = None
    if definition is not None:
        try:
            spec = _read_definition(definition, name)
        except Invalid:  # a newer server knows more policies
            spec = None
    return decode(Revision, form, spec=spec)


def read_edit(form: Form, name: str) -> Edited:
    """Raises Invalid for definitions of a newer server."""
    before, after = (_read_definition(form[when], name) for when in ("before", "after"))
    return decode(Edited, form, before=before, after=after)


def read_line(form: Form) -> tuple[Page, LogLine]:
    """A line of a log and its place there."""
    attempt, _, seq = form["place"].partition(".")
    return Page(int(attempt), int(seq)), decode(LogLine, form)


def _reader(kind: type[T]) -> Callable[[Form], T]:
    return partial(decode, kind)


read_value = decode
read_acted = _reader(Acted)
read_attempt = _reader(Attempt)
read_change = _reader(Change)
read_event = _reader(Event)
read_exception = _reader(DueException)
read_explanation = _reader(Explanation)
read_ledger = _reader(LedgerEntry)
read_letter = _reader(DeadLetter)
read_namespace = _reader(NamespaceUse)
read_node = _reader(LiveNode)
read_partition = _reader(Partition)
read_queue = _reader(QueueLoad)
read_readiness = _reader(Readiness)
read_run = _reader(Run)
read_template = _reader(ScheduleTemplate)
read_token = _reader(AccessToken)
read_topic = _reader(TopicUse)


def read_consumer(form: Form, namespace: str) -> Consumer:
    """As far as it is shown: its secrets stay hidden."""
    return decode(Consumer, form, namespace=namespace)
