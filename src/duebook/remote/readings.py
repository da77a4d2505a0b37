"""Reads values back from the JSON forms that a server shows: the inverse of `model.forms`.

A field that is not known here comes from a newer server, and is left out.
"""

from __future__ import annotations

from dataclasses import fields, replace
from datetime import timedelta
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from duebook.errors import Invalid
from duebook.explain import Explanation
from duebook.model.access import AccessToken, read_role
from duebook.model.acted import Acted
from duebook.model.change import Change
from duebook.model.consumer import Consumer, DeadLetter, Partition
from duebook.model.edited import Edited, Note
from duebook.model.event import Event, TopicUse
from duebook.model.hidden import load_shown
from duebook.model.node import LiveNode
from duebook.model.plan import DueException
from duebook.model.queue import Queue, QueueLoad, read_rate
from duebook.model.quota import NamespaceUse, Quota
from duebook.model.readiness import Problem, Readiness
from duebook.model.run import Attempt, LatestRun, LogLine, Run
from duebook.model.schedule import Revision, Schedule, ScheduleSpec, load_spec
from duebook.model.serving import serving_of
from duebook.model.template import ScheduleTemplate
from duebook.store.values import LedgerEntry, Page
from duebook.timetext import parse_instant

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = [
    "read_acted",
    "read_attempt",
    "read_change",
    "read_consumer",
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
V = TypeVar("V")
_DEFINITION = ("trigger", *(field.name for field in fields(ScheduleSpec) if field.init))


class _Shape(NamedTuple):
    """The fields of a value, and which of them JSON knows only as text or as lists."""

    names: tuple[str, ...]
    instants: frozenset[str]
    tuples: frozenset[str]


@cache
def _shape(kind: type[Any]) -> _Shape:
    types = {field.name: str(field.type) for field in fields(kind)}
    return _Shape(
        tuple(types),
        frozenset(name for name, text in types.items() if "datetime" in text),
        frozenset(name for name, text in types.items() if text.startswith("tuple")),
    )


def read_value(kind: type[V], form: Mapping[str, Any], **more: Any) -> V:
    """A value whose form has its fields by name; instants are text in it, tuples are lists."""
    shape, values = _shape(kind), dict(more)  # type: ignore[arg-type]  # a class is hashable
    for name in shape.names:
        if name in values or name not in form:
            continue
        value = form[name]
        if value is not None and name in shape.instants:
            value = parse_instant(value)
        elif value is not None and name in shape.tuples:
            value = tuple(value)
        values[name] = value
    return kind(**values)


def read_schedule(form: Form) -> Schedule:
    """A definition that nobody here can read is left out, and `problem` says why."""
    spec, problem = None, form.get("problem")
    if form.get("target") is not None:
        try:
            spec = _read_definition(form, form["name"])
        except Invalid as error:
            problem = problem or f"this Duebook cannot read its definition: {error}"
    last_run = None
    if form.get("last_run_id") is not None:
        at = parse_instant(form["last_run_at"])
        status, reason = form["last_run_status"], form.get("last_run_reason")
        enqueued = form.get("last_enqueued_at")
        enqueued_at = None if enqueued is None else parse_instant(enqueued)
        last_run = LatestRun(form["last_run_id"], status, at, reason, enqueued_at)
    more = {"spec": spec, "problem": problem, "last_run": last_run, "notes": _notes(form)}
    return read_value(Schedule, form, **more)


def _notes(form: Form) -> tuple[Note, ...]:
    return tuple(Note(note["code"], note["message"]) for note in form.get("notes") or ())


def _read_definition(form: Form, name: str) -> ScheduleSpec:
    """As far as it is shown: what its target and its payload hide stays hidden."""
    given = {key: form[key] for key in _DEFINITION if key in form and key != "payload"}
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
    return read_value(Revision, form, spec=spec)


def read_edit(form: Form, name: str) -> Edited:
    """Raises Invalid for definitions of a newer server."""
    before, after = (_read_definition(form[when], name) for when in ("before", "after"))
    was, will = ([parse_instant(at) for at in form[when]] for when in ("was_due", "will_be_due"))
    return Edited(before, after, was, will, _notes(form))


def read_run(form: Form) -> Run:
    return read_value(Run, form)


def read_acted(form: Form) -> Acted:
    return read_value(Acted, form)


def read_attempt(form: Form) -> Attempt:
    return read_value(Attempt, form)


def read_line(form: Form) -> tuple[Page, LogLine]:
    """A line of a log and its place there."""
    attempt, _, seq = form["place"].partition(".")
    return Page(int(attempt), int(seq)), read_value(LogLine, form)


def read_ledger(form: Form) -> LedgerEntry:
    return read_value(LedgerEntry, form)


def read_exception(form: Form) -> DueException:
    return read_value(DueException, form)


def read_explanation(form: Form) -> Explanation:
    return read_value(Explanation, form)


def read_template(form: Form) -> ScheduleTemplate:
    return read_value(ScheduleTemplate, form)


def read_node(form: Form) -> LiveNode:
    ahead = timedelta(seconds=form["clock_ahead"])
    serving = serving_of(form["namespaces"])
    return read_value(LiveNode, form, clock_ahead=ahead, namespaces=serving)


def read_queue(form: Form) -> QueueLoad:
    rate = None if form["rate"] is None else read_rate("rate", form["rate"])
    return QueueLoad(
        Queue(form["name"], form["concurrency"], rate), form["queued"], form["running"]
    )


def read_namespace(form: Form) -> NamespaceUse:
    quota = read_value(Quota, form["quota"], namespace=form["name"])
    return NamespaceUse(quota, **form["used"])


def read_change(form: Form) -> Change:
    return read_value(Change, form)


def read_event(form: Form) -> Event:
    return read_value(Event, form)


def read_topic(form: Form) -> TopicUse:
    at = parse_instant(form["at"])
    return TopicUse(form["topic"], form["events"], form["position"], at)


def read_consumer(form: Form, namespace: str) -> Consumer:
    """As far as it is shown: its secrets stay hidden."""
    return read_value(Consumer, form, namespace=namespace)


def read_partition(form: Form) -> Partition:
    return read_value(Partition, form)


def read_letter(form: Form) -> DeadLetter:
    return read_value(DeadLetter, form, event=read_event(form["event"]))


def read_token(form: Form) -> AccessToken:
    return read_value(AccessToken, form, role=read_role(form["role"]))


def read_readiness(form: Form) -> Readiness:
    problems = tuple(read_value(Problem, problem) for problem in form["problems"])
    notes = tuple(read_value(Problem, note) for note in form.get("notes") or ())
    return read_value(Readiness, form, problems=problems, notes=notes)
