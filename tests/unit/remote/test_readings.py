"""A form and its reading are inverse: what a server shows is what its client has."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from inspect import signature
from typing import (
    TYPE_CHECKING,
    Any,
    Final,
    Literal,
    TypeVar,
    get_args,
    get_origin,
    get_type_hints,
)

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duebook.client import PARTS
from duebook.explain import Explanation
from duebook.explain.flow_runs import FlowExplanation
from duebook.model.access import AccessToken, Role
from duebook.model.acted import Acted, BackfillProgress, Withdrawn
from duebook.model.alert import Alert, AlertDelivery, AlertRule, AlertTest, ChannelState
from duebook.model.calendar import Calendar, CalendarEdit, MovedDueTimes
from duebook.model.calendar_days import DaySet
from duebook.model.change import Change
from duebook.model.codec import alternatives, encode
from duebook.model.consumer import Consumer, DeadLetter, Lag, Partition
from duebook.model.declaration import (
    ControlMoves,
    Declaration,
    DeclaredCalendar,
    DeclaredSchedule,
    DueMove,
    FieldChange,
)
from duebook.model.definition import load_spec
from duebook.model.diagnosis import Checkup, Diagnosis
from duebook.model.due_time import DueTime
from duebook.model.edited import Edited, Note
from duebook.model.event import Event, EventPage, TopicUse
from duebook.model.feed import Feed
from duebook.model.flow_view import FlowView
from duebook.model.held import BulkDecision, CatchupDecision, HeldRange
from duebook.model.node import LiveNode
from duebook.model.plan import DueException
from duebook.model.queue import Queue, QueueLoad, Rate
from duebook.model.quota import NamespaceUse, Quota
from duebook.model.readiness import CHECKS, Problem, Readiness
from duebook.model.revision import Revision
from duebook.model.run import Attempt, Interval, LatestRun, LogLine, Run
from duebook.model.schedule import Schedule
from duebook.model.serving import ALL, NONE, Serving
from duebook.model.shadow import ShadowRun, ShadowSwitch
from duebook.model.statistics import DayFigures, Figures, Statistics
from duebook.model.template import ScheduleTemplate
from duebook.model.window import MaintenanceWindow
from duebook.model.zones_diff import MovedDueTime, MovedSchedule, ZonesDiff
from duebook.remote.readings import read_value
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
keys = st.text("0123456789-_ äé", max_size=6)  # of which none sounds secret
values = st.recursive(
    st.none() | st.booleans() | numbers | st.floats(allow_nan=False) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=3),
    max_leaves=5,
)
objects = st.dictionaries(keys, values, max_size=3)

_STRATEGIES: Final[dict[Any, st.SearchStrategy[Any]]] = {
    str: texts,
    int: numbers,
    float: st.floats(allow_nan=False, allow_infinity=False),
    bool: st.booleans(),
    datetime: instants,
    timedelta: st.timedeltas(timedelta(), timedelta(days=9)),
    Any: values,
    dict[str, Any]: objects,
    dict[str, str]: st.dictionaries(keys, texts, max_size=3),
    dict[str, dict[str, str]]: st.dictionaries(
        keys, st.dictionaries(keys, texts, max_size=2), max_size=2
    ),
    dict[str, list[str]]: st.dictionaries(keys, st.lists(texts, max_size=2), max_size=3),
    Interval: st.builds(Interval, instants, instants),
    Role: st.sampled_from(list(Role)),
    Serving: st.sampled_from([ALL, NONE, Serving(("billing", "shop"))]),
}


def made(kind: type[V], **more: st.SearchStrategy[Any]) -> st.SearchStrategy[V]:
    """Any value of a dataclass or a named tuple, but for fields that are given."""
    hints = get_type_hints(kind)
    return st.builds(
        kind, **({name: _any(hint) for name, hint in hints.items() if name not in more}), **more
    )


def _any(hint: Any) -> st.SearchStrategy[Any]:
    some, nullable = alternatives(hint)
    if get_origin(some) is Literal:
        found: st.SearchStrategy[Any] = st.sampled_from(get_args(some))
    elif get_origin(some) is tuple:
        found = st.lists(_any(get_args(some)[0]), max_size=3).map(tuple)
    else:
        found = _STRATEGIES[some]
    return st.none() | found if nullable else found


declared = st.lists(
    made(
        DeclaredSchedule,
        fields=st.just((FieldChange("retry", None, {"attempts": 3}),)),
        move=st.lists(made(DueMove), max_size=2).map(tuple),
        notes=st.just((Note("drops", "this drops 14 waiting due times"),)),
        controls=st.just((ControlMoves("stop", more=3),)),
    ),
    max_size=2,
)
calendars_declared = st.lists(
    made(DeclaredCalendar, fields=st.just((FieldChange("weekdays", None, ["MON"]),))), max_size=2
)
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


labels = _STRATEGIES[dict[str, str]]
feeds = made(Feed, labels=labels)
moved_schedules = made(MovedSchedule, first=st.lists(made(MovedDueTime), max_size=2).map(tuple))
figures = made(Figures)
days = st.lists(st.builds(DayFigures, st.dates(), figures), max_size=2).map(tuple)


def line_form(placed: tuple[Page, LogLine]) -> dict[str, Any]:
    page, line = placed
    return {"place": f"{page.attempt}.{page.seq}"} | encode(line)


PAIRS: Final[dict[Any, tuple[st.SearchStrategy[Any], Callable[..., Any]]]] = {
    Schedule: (schedules, encode),
    Revision: (revisions, encode),
    Acted: (made(Acted), encode),
    Run: (made(Run, output_secrets=st.none()), encode),
    Attempt: (made(Attempt), encode),
    tuple[Page, LogLine]: (lines, line_form),
    LedgerEntry: (made(LedgerEntry), encode),
    DueException: (made(DueException), encode),
    Explanation: (made(Explanation), encode),
    ScheduleTemplate: (
        made(ScheduleTemplate, defaults=st.dictionaries(texts.map("x".__add__), values)),
        encode,
    ),
    LiveNode: (
        made(LiveNode, clock_ahead=st.timedeltas(*(timedelta(days=n) for n in (-9, 9)))),
        encode,
    ),
    QueueLoad: (queues, encode),
    AccessToken: (made(AccessToken), encode),
    Change: (made(Change), encode),
    NamespaceUse: (uses, encode),
    Event: (events, encode),
    TopicUse: (st.builds(TopicUse, texts, numbers, numbers, instants), encode),
    Consumer: (
        made(Consumer, namespace=st.just("shop"), options=st.just({"url": "https://x"})),
        encode,
    ),
    Partition: (made(Partition), encode),
    DeadLetter: (made(DeadLetter, event=events), encode),
    Readiness: (readiness, encode),
    Withdrawn: (made(Withdrawn), encode),
    BackfillProgress: (made(BackfillProgress), encode),
    Declaration: (
        made(
            Declaration,
            schedules=declared.map(tuple),
            calendars=calendars_declared.map(tuple),
        ),
        encode,
    ),
    HeldRange: (made(HeldRange), encode),
    CatchupDecision: (made(CatchupDecision), encode),
    BulkDecision: (made(BulkDecision), encode),
    Diagnosis: (
        made(Diagnosis, checkups=st.lists(made(Checkup), max_size=2).map(tuple)),
        encode,
    ),
    ZonesDiff: (
        made(ZonesDiff, schedules=st.lists(moved_schedules, max_size=2).map(tuple)),
        encode,
    ),
    Statistics: (made(Statistics, total=figures, days=days), encode),
    Calendar: (
        made(Calendar, definition=st.just({"weekdays": "SUN"}), days=st.just(DaySet.of(()))),
        encode,
    ),
    CalendarEdit: (
        made(CalendarEdit, moved=st.lists(made(MovedDueTimes), max_size=2).map(tuple)),
        encode,
    ),
    MaintenanceWindow: (made(MaintenanceWindow, labels=labels), encode),
    ShadowSwitch: (made(ShadowSwitch, labels=labels), encode),
    ShadowRun: (made(ShadowRun), encode),
    Feed: (feeds, encode),
    AlertRule: (
        made(
            AlertRule,
            to=st.just(({"kind": "email", "to": ["ops@example.com"]},)),
            schedule_id=st.none(),
            sent=st.just(()),
            labels=labels,
            channels=st.lists(made(ChannelState), max_size=2).map(tuple),
        ),
        encode,
    ),
    Alert: (
        made(
            Alert,
            message=st.none(),
            deliveries=st.lists(made(AlertDelivery), max_size=2).map(tuple),
        ),
        encode,
    ),
    AlertTest: (made(AlertTest, errors=labels), encode),
}
OTHERWISE: Final = {DueTime, Edited, EventPage, FlowExplanation, FlowView, Lag, Queue}
"""Results of which a server shows less, or more, or that other tests look at."""


def read(kind: Any, form: Any) -> Any:
    return read_value(kind, form, {"namespace": "shop", "name": "job"})


def results(kind: Any) -> set[Any]:
    """The types of values in the type of a result, but those that JSON has."""
    if kind in PAIRS or kind in OTHERWISE:
        return {kind}
    inner = [results(part) for part in get_args(kind)]
    plain = kind in (None, Any, bool, datetime, dict, float, int, str, type(None))
    return set().union(*inner) if inner or plain else {kind}


def test_every_result_of_a_use_case_is_read_here() -> None:
    kinds = [kind for part in PARTS.values() for kind in part.__mro__]
    methods = [method for kind in kinds for method in vars(kind).values()]
    declared = [
        signature(method, eval_str=True).return_annotation
        for method in methods
        if {"use_case", "part_of"} & getattr(method, "__dict__", {}).keys()
    ]
    found = set().union(*map(results, declared))
    assert found <= PAIRS.keys() | OTHERWISE
    assert PAIRS.keys() - found == {Readiness}


@pytest.mark.parametrize("kind", PAIRS, ids=str)
@given(data=st.data())
def test_what_is_read_is_what_was_shown(kind: Any, data: st.DataObject) -> None:
    strategy, form_of = PAIRS[kind]
    value = data.draw(strategy)
    form = json.loads(json.dumps(form_of(value)))
    assert read(kind, form) == value
    assert form_of(read(kind, form)) == form
    assert read(kind, form | {"of_tomorrow": 1}) == value, "what a newer server adds is left out"


def test_a_definition_that_nobody_here_can_read_is_a_problem_of_the_schedule() -> None:
    spec = load_spec({"trigger": {"every": "1h"}, "target": "digest"}, "job")
    schedule = Schedule("1", "default", "job", 1, spec, "active", datetime(2026, 1, 1, tzinfo=UTC))
    form = encode(schedule) | {"target": {"rocket": "moon"}}
    found = read(Schedule, form)
    assert found.spec is None
    assert "this version of Duebook cannot read the definition" in str(found.problem)
