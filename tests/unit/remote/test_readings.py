"""A form and its reading are inverse: what a server shows is what its client has."""

from __future__ import annotations

import json
from dataclasses import asdict, fields
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final, TypeVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duebook.api.forms import exception_form, ledger_form, revision_form
from duebook.explain import Explanation, explanation_form
from duebook.model import forms
from duebook.model.access import AccessToken, Role
from duebook.model.acted import Acted
from duebook.model.change import Change
from duebook.model.consumer import (
    Consumer,
    DeadLetter,
    Partition,
    consumer_form,
    letter_form,
    partition_form,
)
from duebook.model.edited import Note
from duebook.model.event import Event, TopicUse, event_form, topic_form
from duebook.model.node import LiveNode
from duebook.model.plan import DueException
from duebook.model.queue import Queue, QueueLoad, Rate
from duebook.model.quota import NamespaceUse, Quota
from duebook.model.readiness import CHECKS, Problem, Readiness
from duebook.model.run import Attempt, LatestRun, LogLine, Run
from duebook.model.schedule import Revision, Schedule, load_spec
from duebook.model.serving import ALL, NONE, Serving
from duebook.model.template import ScheduleTemplate
from duebook.remote import readings
from duebook.store.values import LedgerEntry, Page

if TYPE_CHECKING:
    from collections.abc import Callable

V = TypeVar("V")

texts = st.text(max_size=20)
instants = st.datetimes(
    datetime(1970, 1, 1),
    datetime(2200, 1, 1),
    timezones=st.just(UTC),
)
numbers = st.integers(-(2**40), 2**40)
values = st.recursive(
    st.none() | st.booleans() | numbers | st.floats(allow_nan=False) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=5,
)
objects = st.dictionaries(texts, values, max_size=3)

_STRATEGIES: Final[dict[str, st.SearchStrategy[Any]]] = {
    "str": texts,
    "int": numbers,
    "float": st.floats(allow_nan=False, allow_infinity=False),
    "bool": st.booleans(),
    "datetime": instants,
    "Any": values,
    "dict[str, Any]": objects,
    "dict[str, str]": st.dictionaries(texts, texts, max_size=3),
    "tuple[str, ...]": st.lists(texts, max_size=3).map(tuple),
    "Role": st.sampled_from(list(Role)),
    "Serving": st.sampled_from([ALL, NONE, Serving(("billing", "shop"))]),
    "Status": st.sampled_from(["active", "paused", "completed"]),
    "RunStatus": st.sampled_from(["queued", "running", "succeeded", "failed", "cancelled"]),
    "Kind": st.sampled_from(["group", "kafka", "webhook"]),
    "Action": st.sampled_from(["pause", "delete"]),
    "Origin": st.sampled_from(["schedule", "catchup", "manual", "enqueue"]),
}
"""By how a field's type is written."""


def made(kind: type[V], **more: st.SearchStrategy[Any]) -> st.SearchStrategy[V]:
    """Any value of a dataclass, but for fields that are given."""
    parts = {}
    for field in fields(kind):  # type: ignore[arg-type]
        kinds = str(field.type).split(" | ")
        if field.name in more:
            parts[field.name] = more[field.name]
        elif kinds[0].startswith("Literal"):
            words = kinds[0].removeprefix("Literal[").removesuffix("]").replace('"', "")
            parts[field.name] = st.sampled_from(words.split(", "))
        else:
            parts[field.name] = st.one_of(
                *(st.none() if part == "None" else _STRATEGIES[part] for part in kinds)
            )
    return st.builds(kind, **parts)


specs = st.sampled_from(
    [
        load_spec({"trigger": trigger, "target": target, **policies}, "job")
        for trigger in (
            {"cron": "H 2 * * *", "tz": "Europe/Brussels"},
            [{"every": "15m", "anchor": "2026-01-01T00:00:00Z"}, {"daily": "07:00", "tz": "UTC"}],
        )
        for target in (
            {"task": "digest"},
            {"command": ["pg_dump", "a b"], "cwd": "/"},
            {"http": {"url": "https://example.com", "headers": {"Accept": "a"}, "json": [1]}},
        )
        for policies in (
            {},
            {
                "payload": {"a": [1, None]},
                "labels": {"team": "x"},
                "retry": {"attempts": 3, "delay": "10s"},
                "depends_on": [{"schedule": "other", "within": "1h"}],
                "exclude": ["2026-12-24/2026-12-26"],
                "start_at": "2026-02-01T00:00:00Z",
                "timeout": "1h30m",
                "max_concurrent": 3,
            },
        )
    ]
)
schedules = made(
    Schedule,
    spec=specs | st.none(),
    name=st.just("job"),
    last_run=st.none() | made(LatestRun),
    notes=st.lists(st.builds(Note, st.just("missed"), texts), max_size=2).map(tuple),
)
revisions = made(Revision, spec=specs | st.none())
queues = st.builds(
    QueueLoad,
    st.builds(
        Queue,
        texts,
        st.none() | numbers,
        st.none()
        | st.builds(
            Rate,
            st.integers(1, 1000),
            st.integers(1, 86_400).map(lambda seconds: timedelta(seconds=seconds)),
        ),
    ),
    numbers,
    numbers,
)
events = made(Event, replay=st.just(False))  # only those who receive it are told
lines = st.tuples(st.builds(Page, st.integers(0, 99), st.integers(0, 10**9)), made(LogLine))
problems = st.builds(Problem, st.sampled_from(CHECKS), texts)
readiness = st.builds(Readiness, st.none() | instants, st.lists(problems, max_size=3).map(tuple))
uses = st.builds(NamespaceUse, made(Quota), numbers, st.none() | st.floats(allow_nan=False))


def acted_form(acted: Acted) -> dict[str, Any]:
    return asdict(acted) | {"names": list(acted.names)}


def line_form(placed: tuple[Page, LogLine]) -> dict[str, Any]:
    page, line = placed
    return {"place": f"{page.attempt}.{page.seq}"} | forms.log_form(line)


PAIRS: Final[dict[str, tuple[st.SearchStrategy[Any], Callable[..., Any], Callable[..., Any]]]] = {
    "schedule": (schedules, forms.schedule_form, readings.read_schedule),
    "revision": (revisions, revision_form, lambda form: readings.read_revision(form, "job")),
    "acted": (made(Acted), acted_form, readings.read_acted),
    "run": (made(Run, output_secrets=st.none()), forms.run_form, readings.read_run),
    "attempt": (made(Attempt), forms.attempt_form, readings.read_attempt),
    "line": (lines, line_form, readings.read_line),
    "ledger": (made(LedgerEntry), ledger_form, readings.read_ledger),
    "exception": (made(DueException), exception_form, readings.read_exception),
    "explanation": (made(Explanation), explanation_form, readings.read_explanation),
    "template": (
        made(ScheduleTemplate, defaults=st.dictionaries(texts.map("x".__add__), values)),
        forms.template_form,
        readings.read_template,
    ),
    "node": (
        made(LiveNode, clock_ahead=st.timedeltas(*(timedelta(days=n) for n in (-9, 9)))),
        forms.node_form,
        readings.read_node,
    ),
    "queue": (queues, forms.queue_form, readings.read_queue),
    "token": (made(AccessToken), forms.token_form, readings.read_token),
    "change": (made(Change), forms.change_form, readings.read_change),
    "namespace": (uses, forms.namespace_form, readings.read_namespace),
    "event": (events, event_form, readings.read_event),
    "topic": (
        st.builds(TopicUse, texts, numbers, numbers, instants),
        topic_form,
        readings.read_topic,
    ),
    "consumer": (
        made(Consumer, namespace=st.just("shop"), options=st.just({"url": "https://x"})),
        consumer_form,
        lambda form: readings.read_consumer(form, "shop"),
    ),
    "partition": (made(Partition), partition_form, readings.read_partition),
    "letter": (made(DeadLetter, event=events), letter_form, readings.read_letter),
    "readiness": (readiness, forms.readiness_form, readings.read_readiness),
}


def test_every_reading_has_its_form() -> None:
    named = {name.removeprefix("read_") for name in readings.__all__} - {"value"}
    assert named == set(PAIRS)


@pytest.mark.parametrize("name", PAIRS)
@given(data=st.data())
def test_what_is_read_is_what_was_shown(name: str, data: st.DataObject) -> None:
    strategy, form_of, read = PAIRS[name]
    value = data.draw(strategy)
    form = json.loads(json.dumps(form_of(value)))
    assert read(form) == value
    assert form_of(read(form)) == form


@pytest.mark.parametrize("name", PAIRS)
@given(data=st.data())
def test_what_a_newer_server_adds_is_left_out(name: str, data: st.DataObject) -> None:
    strategy, form_of, read = PAIRS[name]
    value = data.draw(strategy)
    form = json.loads(json.dumps(form_of(value)))
    assert read(form | {"of_tomorrow": 1}) == value


def test_a_definition_that_nobody_here_can_read_is_a_problem_of_the_schedule() -> None:
    spec = load_spec({"trigger": {"every": "1h"}, "target": "digest"}, "job")
    schedule = Schedule("1", "default", "job", 1, spec, "active", datetime(2026, 1, 1, tzinfo=UTC))
    form = forms.schedule_form(schedule) | {"target": {"rocket": "moon"}}
    read = readings.read_schedule(form)
    assert read.spec is None
    assert "this Duebook cannot read its definition" in str(read.problem)
