"""Lists: filters, orders and cursors, of schedules, runs and the ledger."""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final, get_args

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from duebook.book import Book
from duebook.model.codec import encode
from duebook.model.filters import InvalidFilter, ScheduleSort
from duebook.model.listing import BadCursor, Listing
from duebook.store.sql import looking
from duebook.store.sql.rows import micros
from tests.support.builders import (
    BEGIN,
    MINUTE,
    SECOND,
    add_schedule,
    begin,
    claim,
    settle,
    tick,
)
from tests.support.examples import some_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from duebook.store.base import Store
    from tests.support.backends import Backend
    from tests.support.builders import VirtualClock

SORTS: Final = get_args(ScheduleSort)


def pages(ask: Callable[..., Listing[Any]], **asked: Any) -> list[list[Any]]:
    """All pages of a list; checks that no page is longer than asked for, and that the list ends."""
    found, cursor = [], None
    for _ in range(500):
        page = ask(cursor=cursor, **asked)
        assert len(page) <= asked["limit"]
        found.append(list(page))
        cursor = page.next_cursor
        if cursor is None:
            return found
    raise AssertionError("no end")


def names(ask: Callable[..., Listing[Any]], **asked: Any) -> list[str]:
    return [row.name for page in pages(ask, **{"limit": 2, **asked}) for row in page]


@pytest.fixture
def mixed(store: Store, clock: VirtualClock) -> Book:
    """Schedules of several kinds, each a second older than the next."""
    book = Book(store)
    kinds: list[tuple[str, dict[str, Any]]] = [
        ("etl-load", {"labels": {"team": "data", "tier": "1"}}),
        ("report", {"labels": {"team": "sales"}, "target": "report"}),
        ("etl-extract", {"labels": {"team": "data"}, "trigger": {"every": "1h"}}),
        ("hook", {"target": {"http": {"url": "https://example.com/"}}}),
        ("an-etl", {"target": "etl", "trigger": {"every": "2h"}}),
        ("etl", {"labels": {"team": "data", "tier": "2"}, "trigger": {"every": "3h"}}),
    ]
    for number, (name, more) in enumerate(kinds):
        definition: dict[str, Any] = {"trigger": {"every": f"{number + 1}m"}}
        definition |= {"target": {"command": ["true"]}}
        book.schedules.create(name, **(definition | more))
        clock.advance(SECOND)
    book.schedules.pause("hook")
    add_schedule(store, "foreign", namespace="other", labels={"team": "data"})
    return book


FILTERS_OF_SCHEDULES: Final[list[tuple[dict[str, Any], list[str]]]] = [
    ({}, ["an-etl", "etl", "etl-extract", "etl-load", "hook", "report"]),
    ({"status": "paused"}, ["hook"]),
    ({"status": "active", "text": "e"}, ["an-etl", "etl", "etl-extract", "etl-load", "report"]),
    ({"status": "completed"}, []),
    ({"label": "team:data"}, ["etl", "etl-extract", "etl-load"]),
    ({"label": "team=data"}, ["etl", "etl-extract", "etl-load"]),
    ({"label": {"team": "data", "tier": "1"}}, ["etl-load"]),
    ({"label": ["team:data", "tier:2"]}, ["etl"]),
    ({"label": "team:nobody"}, []),
    ({"label": "team:data", "text": "load"}, ["etl-load"]),
    ({"label": "team:data", "text": "etl-*"}, ["etl-extract", "etl-load"]),
    ({"text": "etl"}, ["an-etl", "etl", "etl-extract", "etl-load"]),
    ({"text": "ETL*"}, ["etl", "etl-extract", "etl-load"]),
    ({"text": "etl-*"}, ["etl-extract", "etl-load"]),
    ({"text": "*"}, ["an-etl", "etl", "etl-extract", "etl-load", "hook", "report"]),
    ({"target": "task"}, ["an-etl", "report"]),
    ({"target": "task:etl"}, ["an-etl"]),
    ({"target": "http"}, ["hook"]),
    ({"target": "command"}, ["etl", "etl-extract", "etl-load"]),
    ({"due_before": "2026-01-05T12:10:00Z"}, ["etl-load", "report"]),
    ({"problem": True}, ["an-etl", "report"]),
    ({"problem": False}, ["etl", "etl-extract", "etl-load", "hook"]),
]


def test_a_filter_finds_the_same_schedules_in_every_order(mixed: Book) -> None:
    for wanted, found in FILTERS_OF_SCHEDULES:
        assert names(mixed.schedules.list, **wanted) == found
        assert names(mixed.schedules.list, sort="-name", **wanted) == found[::-1]
        for sort in SORTS:
            assert sorted(names(mixed.schedules.list, sort=sort, **wanted)) == found


def test_schedules_are_listed_by_age_and_by_what_is_due_next(mixed: Book) -> None:
    by_age = ["etl-load", "report", "etl-extract", "hook", "an-etl", "etl"]
    assert names(mixed.schedules.list, sort="created_at") == by_age
    assert names(mixed.schedules.list, sort="-created_at") == by_age[::-1]
    assert names(mixed.schedules.list, sort="next_due_at") == [
        "etl-load",
        "report",
        "etl-extract",
        "an-etl",
        "etl",
        "hook",
    ], "what is paused has no next due time, and comes last"


def test_labels_follow_a_schedule_through_its_life(store: Store) -> None:
    book = Book(store)
    add_schedule(store, "job", labels={"team": "data"})

    def of(label: str) -> list[str]:
        return [schedule.name for schedule in book.schedules.list(label=label)]

    book.schedules.update("job", labels={"team": "sales", "tier": "1"})
    assert (of("team:data"), of("team:sales"), of("tier:1")) == ([], ["job"], ["job"])
    book.schedules.delete("job")
    assert of("team:sales") == []
    add_schedule(store, "job", labels={"team": "sales"})
    assert of("team:sales") == ["job"]


def test_a_list_shows_the_latest_run_of_each_schedule(store: Store, clock: VirtualClock) -> None:
    book = Book(store)
    for name in ("a", "b", "c"):
        add_schedule(store, name, overlap="allow", trigger={"cron": "* * * * *"})
    clock.advance(MINUTE)
    tick(store)
    begin(store)
    for claimed in claim(store):
        settle(store, claimed.token, "failed" if claimed.run.schedule == "a" else "succeeded")
    clock.advance(SECOND)
    manual = book.schedules.trigger("b")
    add_schedule(store, "d")
    shown = {schedule.name: schedule for schedule in book.schedules.list()}
    forms = {name: encode(schedule) for name, schedule in shown.items()}
    assert forms["a"]["last_run_id"] == book.runs.list("a")[0].id
    assert forms["a"]["last_run_status"] == "failed"
    assert forms["a"]["last_run_at"] == "2026-01-05T12:01:00Z"
    assert forms["a"]["next_due_at"] == "2026-01-05T12:02:00Z"
    assert forms["b"]["last_run_id"] == manual.id
    assert forms["b"]["last_run_status"] == "queued"
    assert forms["c"]["last_run_status"] == "succeeded"
    assert forms["d"]["last_run_id"] is None
    assert forms["d"]["enabled"] is True
    for name, schedule in shown.items():
        assert book.schedules.get(name) == schedule


def test_a_run_says_by_which_trigger_it_came(store: Store, clock: VirtualClock) -> None:
    Book(store).schedules.create("job", cron="*/5 * * * *", target="job")
    clock.advance(5 * MINUTE)
    tick(store)
    assert [run.trigger for run in Book(store).runs.list()] == ["schedule:*/5 * * * *"]


@pytest.fixture
def worked(store: Store, clock: VirtualClock) -> Book:
    """Three schedules with ten due times each; every third run failed."""
    book = Book(store)
    for name, queue in (("a", "default"), ("b", "reports"), ("c", "default")):
        add_schedule(store, name, overlap="allow", queue=queue)
    add_schedule(store, "foreign", namespace="other", overlap="allow")
    begin(store, lease=timedelta(days=1))
    for number in range(10):
        clock.advance(MINUTE)
        tick(store)
        for queue in ("default", "reports"):
            for place, claimed in enumerate(claim(store, queue=queue)):
                bad = (number + place) % 3 == 0
                settle(store, claimed.token, "failed" if bad else "succeeded")
        if number % 4 == 0:
            clock.advance(SECOND)
            book.schedules.trigger("a")
    return book


FACTS: Final = {"status", "origin", "queue"}


def ids(ask: Callable[..., Listing[Any]], **asked: Any) -> list[str]:
    return [row.id for page in pages(ask, **{"limit": 2, **asked}) for row in page]


FILTERS_OF_RUNS: Final[list[dict[str, Any]]] = [
    {},
    {"status": "failed"},
    {"status": "cancelled"},
    {"status": "queued"},
    {"status": "queued", "origin": "manual"},
    {"status": "queued", "until": BEGIN + 5 * MINUTE},
    {"status": "succeeded", "origin": "schedule"},
    {"origin": "manual"},
    {"queue": "reports"},
    {"since": BEGIN + 4 * MINUTE},
    {"until": BEGIN + 4 * MINUTE},
    {"since": BEGIN + 3 * MINUTE, "until": BEGIN + 5 * MINUTE, "status": "failed"},
]


def tells(run: Any, schedule: str | None, wanted: dict[str, Any]) -> bool:
    at = (run.due_at or run.created_at) if schedule else run.created_at
    return (
        all(getattr(run, key) == wanted[key] for key in wanted.keys() & FACTS)
        and at >= wanted.get("since", at)
        and at <= wanted.get("until", at)
    )


def test_what_waits_is_found_however_many_runs_ended_since(
    worked: Book, monkeypatch: pytest.MonkeyPatch
) -> None:
    waiting = worked.schedules.trigger("a").id
    for _ in range(5):
        worked.runs.cancel(worked.schedules.trigger("c").id)
    monkeypatch.setattr("duebook.store.sql.looking.MOST_LOOKED", 2)
    page = worked.runs.list(status="queued", limit=1)
    assert [run.id for run in page] == [waiting]


@pytest.mark.parametrize("few", [0, 100])
def test_what_waits_and_what_runs_is_listed_the_newest_first(
    worked: Book, monkeypatch: pytest.MonkeyPatch, few: int
) -> None:
    monkeypatch.setattr("duebook.store.sql.lists.FEW", few)
    begin(worked.store, "another")
    for _ in range(4):
        worked.schedules.trigger("a")
    assert claim(worked.store, "another", limit=2)
    every = worked.runs.list(limit=1_000)
    for status in ("queued", "running"):
        told = [run.id for run in every if run.status == status]
        assert told
        assert ids(worked.runs.list, status=status) == told, status


@pytest.mark.parametrize("schedule", [None, "a", "b"])
def test_a_filter_of_runs_finds_what_it_says(worked: Book, schedule: str | None) -> None:
    every = worked.runs.list(schedule, limit=1_000)
    assert every.next_cursor is None
    for wanted in FILTERS_OF_RUNS:
        told = [run.id for run in every if tells(run, schedule, wanted)]
        assert ids(worked.runs.list, schedule=schedule, **wanted) == told, wanted


def test_the_ledger_is_listed_by_reason_and_time(store: Store, clock: VirtualClock) -> None:
    book = Book(store)
    add_schedule(store, "job")
    for _ in range(6):
        clock.advance(MINUTE)
        tick(store)  # the first is queued, and the others overlap
        book.schedules.skip_next("job")
        clock.advance(MINUTE)
        tick(store)
    every = book.schedules.ledger("job", limit=100)
    assert {entry.reason for entry in every} == {"overlap", "skipped_by_user"}

    def listed(**wanted: Any) -> list[Any]:
        def ask(**asked: Any) -> Listing[Any]:
            return book.schedules.ledger("job", **asked)

        return [entry for page in pages(ask, limit=2, **wanted) for entry in page]

    assert listed() == list(every)
    for reason in ("overlap", "skipped_by_user", "paused"):
        assert listed(reason=reason) == [entry for entry in every if entry.reason == reason]
    since, until = BEGIN + 3 * MINUTE, BEGIN + 7 * MINUTE
    assert listed(since=since, until=until) == [
        entry for entry in every if entry.due_to >= since and entry.due_from <= until
    ]


@pytest.mark.parametrize(
    ("asked", "fields"),
    [
        ({"status": "asleep"}, {"status"}),
        (
            {"status": "asleep", "due_before": "soon", "problem": "yes"},
            {"status", "due_before", "problem"},
        ),
        ({"label": "team"}, {"label"}),
        ({"label": ":x"}, {"label"}),
        ({"label": 3}, {"label"}),
        ({"label": ["team:a", "team:b"]}, {"label"}),
        ({"text": "a b*"}, {"text"}),
        ({"text": "x" * 201}, {"text"}),
        ({"text": "a\nb"}, {"text"}),
        ({"target": "script"}, {"target"}),
        ({"target": "flow:"}, {"target"}),
        ({"target": "task:"}, {"target"}),
        ({"colour": "red"}, {"colour"}),
        ({"sort": "id; DROP TABLE runs"}, {"sort"}),
        ({"limit": 0}, {"limit"}),
        ({"limit": True}, {"limit"}),
        ({"limit": "10"}, {"limit"}),
    ],
)
def test_wrong_filters_are_all_named(book: Book, asked: dict[str, Any], fields: set[str]) -> None:
    with pytest.raises(InvalidFilter) as refused:
        book.schedules.list(**asked)
    assert set(refused.value.problems) == fields
    for field, problem in refused.value.problems.items():
        assert field in problem


def test_a_cursor_that_is_none_is_refused(mixed: Book) -> None:
    lists: list[Callable[..., Listing[Any]]] = [mixed.schedules.list, mixed.runs.list]
    texts = ["", "x", "eyJ9", "W10", "WyJhIl0", "é", "a" * 5_000, "W1tbW1tb", "WzFlOTld"]
    for cursor in (*texts, 7, b"W10"):
        for ask in lists:
            with pytest.raises(BadCursor, match="cursor"):
                ask(cursor=cursor)


def test_a_cursor_shows_nothing_of_other_namespaces(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A page by `next_due_at` may end at a row of another namespace."""
    monkeypatch.setattr(looking, "MOST_LOOKED", 2)
    hourly: dict[str, Any] = {"trigger": {"every": "1h"}, "target": {"command": ["true"]}}
    other, own = Book(store, "other"), Book(store, "own")
    foreign = [other.schedules.create(f"theirs-{n}", **hourly) for n in range(3)]
    own.schedules.create("mine", trigger={"every": "2h"}, target={"command": ["true"]})
    page = own.schedules.list(sort="next_due_at", limit=1)
    assert page == []  # it ended at a foreign row
    assert page.next_cursor is not None
    raw = urlsafe_b64decode(page.next_cursor + "=" * (-len(page.next_cursor) % 4))
    for schedule in foreign:
        assert schedule.id.encode() not in raw
        assert schedule.next_due_at is not None
        assert str(micros(schedule.next_due_at)).encode() not in raw
    assert names(own.schedules.list, sort="next_due_at") == ["mine"]


def test_a_cursor_that_was_changed_anywhere_is_refused(mixed: Book) -> None:
    cursor = mixed.schedules.list(limit=1, sort="next_due_at").next_cursor
    assert cursor is not None
    raw = urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4))
    for place in range(len(raw)):
        changed = raw[:place] + bytes([raw[place] ^ 1]) + raw[place + 1 :]
        with pytest.raises(BadCursor, match="leave it out to start from the beginning"):
            mixed.schedules.list(
                sort="next_due_at", cursor=urlsafe_b64encode(changed).decode().rstrip("=")
            )


def test_a_cursor_of_an_earlier_version_says_to_begin_again(mixed: Book) -> None:
    old = urlsafe_b64encode(b'["0123456789abcdef","etl-a"]').decode().rstrip("=")
    with pytest.raises(BadCursor, match="leave it out to start from the beginning"):
        mixed.schedules.list(cursor=old)


def test_everybody_who_opens_the_books_reads_the_same_cursors(
    mixed: Book, backend: Backend
) -> None:
    cursor = mixed.schedules.list(limit=2).next_cursor
    found = [one.name for one in Book(backend.open()).schedules.list(cursor=cursor)]
    assert found == [one.name for one in mixed.schedules.list()][2:]


def test_sql_in_filters_finds_nothing_and_does_nothing(mixed: Book) -> None:
    for text in ("x' OR '1'='1", "'; DROP TABLE schedules; --", '" OR 1=1', "%", "_", "\\"):
        assert mixed.schedules.list(label={"team": text}) == []
        assert mixed.schedules.list(label={text: "data"}) == []
        with pytest.raises(InvalidFilter):
            mixed.schedules.list(status=text)  # type: ignore[arg-type]
        with pytest.raises(InvalidFilter):
            mixed.runs.list(queue=text)
    assert mixed.schedules.list(text="_") == []
    assert len(mixed.schedules.list()) == 6


def test_a_cursor_is_good_for_the_list_that_gave_it(mixed: Book, store: Store) -> None:
    cursor = mixed.schedules.list(text="etl", limit=1).next_cursor
    assert mixed.schedules.list(text="etl", limit=3, cursor=cursor)
    for other in (
        lambda: mixed.schedules.list(cursor=cursor),
        lambda: mixed.schedules.list(text="etl", sort="-name", cursor=cursor),
        lambda: mixed.schedules.list(text="etl", sort="created_at", cursor=cursor),
        lambda: Book(store, "other").schedules.list(text="etl", cursor=cursor),
        lambda: mixed.runs.list(cursor=cursor),
    ):
        with pytest.raises(BadCursor):
            other()


def test_a_page_looks_at_a_bounded_number_of_rows(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So a page may be short, even empty, although the list continues."""
    monkeypatch.setattr(looking, "MOST_LOOKED", 4)
    book = Book(store)
    for number in range(20):
        add_schedule(store, f"job-{number:02}")
    add_schedule(store, "needle-job", target={"task": "needle"})
    for sort in SORTS:
        found = pages(book.schedules.list, target="task:needle", limit=2, sort=sort)
        assert [schedule.name for page in found for schedule in page] == ["needle-job"]
        assert len(found) > 3


def test_the_database_finds_a_text_among_all_names_and_titles(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(looking, "MOST_LOOKED", 4)
    book = Book(store)
    for number in range(20):
        add_schedule(store, f"job-{number:02}")
    add_schedule(store, "needle-job", labels={"team": "x"})
    add_schedule(store, "zz-job", title="The Needle")
    both: dict[ScheduleSort, list[str]] = {
        "name": ["needle-job", "zz-job"],
        "-name": ["zz-job", "needle-job"],
    }
    for sort, names in both.items():
        found = book.schedules.list(text="needle", sort=sort)
        assert [one.name for one in found] == names
        assert found.next_cursor is None
    assert [one.name for one in book.schedules.list(text="needle", label="team:x")]
    assert not book.schedules.list(text="needle%_\\'")


FILTERS: Final[st.SearchStrategy[dict[str, Any]]] = st.fixed_dictionaries(
    {},
    optional={
        "status": st.sampled_from(["active", "paused"]),
        "label": st.sampled_from(["team:a", "team:b", {"team": "a", "tier": "1"}]),
        "text": st.sampled_from(["1", "job-*", "job-1*", "x"]),
        "target": st.sampled_from(["task", "command"]),
    },
)


RUN_FILTERS: Final[list[dict[str, Any]]] = [
    {},
    {"status": "queued"},
    {"status": "failed"},
    {"origin": "manual", "queue": "default"},
    {"schedule": "job-0"},
    {"since": BEGIN},
]


@settings(
    max_examples=some_of(25),
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
    deadline=None,
)
@given(data=st.data())
def test_whatever_is_asked_for_each_row_comes_once(
    store: Store, clock: VirtualClock, data: st.DataObject
) -> None:
    """Even while other rows are added and removed between pages."""
    book = Book(store, f"n{clock.advance().timestamp():.0f}")
    kinds = data.draw(st.lists(st.integers(0, 15), min_size=1, max_size=12))
    clock_steps = data.draw(st.booleans())
    for number, kind in enumerate(kinds):
        labels = {"team": "ab"[kind % 2]} | ({"tier": "1"} if kind & 2 else {})
        add_schedule(
            store,
            f"job-{number}",
            book.namespace,
            labels=labels,
            target="work" if kind & 4 else {"command": ["true"]},
        )
        if kind & 8:
            book.schedules.pause(f"job-{number}")
        book.schedules.trigger(f"job-{number}")
        if clock_steps:
            clock.advance(SECOND)
    wanted, sort = data.draw(FILTERS), data.draw(st.sampled_from(SORTS))
    expected = [s.id for s in book.schedules.list(limit=1_000, sort=sort, **wanted)]
    of_runs = data.draw(st.sampled_from(RUN_FILTERS))
    runs = [run.id for run in book.runs.list(limit=1_000, **of_runs)]
    limit, extra = data.draw(st.integers(1, 5)), 0
    asked_for: list[tuple[Callable[..., Listing[Any]], list[str], dict[str, Any]]] = [
        (book.schedules.list, expected, {"sort": sort, **wanted}),
        (book.runs.list, runs, of_runs),
    ]
    for ask, those, asked in asked_for:
        seen: list[str] = []
        cursor = None
        while True:
            page = ask(limit=limit, cursor=cursor, **asked)
            seen += [row.id for row in page]
            cursor = page.next_cursor
            if cursor is None:
                break
            extra += 1
            if extra <= 10:
                name = f"{data.draw(st.sampled_from(['a', 'job-1', 'z']))}-{extra}"
                add_schedule(store, name, book.namespace, labels={"team": "a"})
                book.schedules.trigger(name)
        assert len(seen) == len(set(seen))
        assert [id_ for id_ in seen if id_ in set(those)] == those


def test_a_part_of_the_title_finds_a_schedule(store: Store) -> None:
    book = Book(store)
    add_schedule(store, "clean-1", title="Daily Cleanup")
    add_schedule(store, "clean-2", title="Ménage du soir")
    for text, found in (
        ("cleanup", ["clean-1"]),
        ("daily cl", ["clean-1"]),
        ("MÉNAGE", ["clean-2"]),
        ("clean", ["clean-1", "clean-2"]),
        ("clean*", ["clean-1", "clean-2"]),
        ("daily*", []),
        ("' OR 1=1", []),
    ):
        assert [one.name for one in book.schedules.list(text=text)] == found, text
    book.schedules.update("clean-2", title="Evening")
    assert [one.name for one in book.schedules.list(text="evening")] == ["clean-2"]
    assert not book.schedules.list(text="soir")
    with pytest.raises(InvalidFilter, match="start of a name"):
        book.schedules.list(text="Daily Cl*")
