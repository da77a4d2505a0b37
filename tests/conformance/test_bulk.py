"""Many schedules at once: created together, and acted on by a filter."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from duebook.book import Book, bulk
from duebook.errors import Conflict, Invalid, QuotaReached
from duebook.model.codec import encode
from duebook.model.filters import InvalidFilter
from duebook.model.schedule import InvalidSchedule
from duebook.timetext import format_instant
from tests.support.builders import BEGIN, MINUTE, SECOND, add_schedule, get_ledger, tick

if TYPE_CHECKING:
    from duebook.store.base import Store
    from tests.support.backends import Backend
    from tests.support.builders import VirtualClock


def form(name: str, **more: Any) -> dict[str, Any]:
    return {"name": name, "cron": "*/5 * * * *", "target": "work", **more}


def names(book: Book, **wanted: Any) -> list[str]:
    return [schedule.name for schedule in book.schedules.list(limit=1_000, **wanted)]


def test_many_schedules_are_made_at_once(book: Book, store: Store, clock: VirtualClock) -> None:
    book.templates.save("nightly", trigger={"cron": "H 2 * * *"}, catchup="all")
    forms = [form(f"job-{number:03}", labels={"team": "x"}) for number in range(250)]
    forms += [
        form("asleep", enabled=False),
        {"name": "from-template", "template": "nightly", "target": {"command": ["true"]}},
        form("after", depends_on=[{"schedule": "job-001", "within": "1h"}]),
    ]
    made = book.schedules.create_many(forms, by="somebody")
    assert [schedule.name for schedule in made] == [item["name"] for item in forms]
    assert made.next_cursor is None
    for schedule in (made[0], *made[250:]):
        assert encode(book.schedules.get(schedule.id)) | {"problem": None} == encode(schedule)
        assert schedule.created_by == "somebody"
    assert made[0].next_due_at == BEGIN + 5 * MINUTE
    assert made[250].status == "paused"
    assert encode(made[250])["enabled"] is False
    assert names(book, label="team:x") == [f"job-{number:03}" for number in range(250)]
    clock.advance(5 * MINUTE)
    assert tick(store) == 250
    assert {run.trigger for run in book.runs.list(limit=1_000)} == {"schedule:*/5 * * * *"}
    assert book.schedules.resume("asleep").next_due_at == BEGIN + 10 * MINUTE


def test_one_is_made_paused_and_switched_on_and_off(book: Book) -> None:
    made = book.schedules.create("job", cron="0 * * * *", target="work", enabled=False)
    assert (made.status, made.paused_at) == ("paused", BEGIN)
    assert book.schedules.update("job", enabled=True).status == "active"
    assert book.schedules.update("job", enabled=True, description="x").version == 2
    assert book.schedules.update("job", enabled=False).status == "paused"
    with pytest.raises(InvalidSchedule, match="enabled"):
        book.schedules.update("job", enabled="yes")
    with pytest.raises(InvalidSchedule) as refused:
        book.schedules.create("other", template=None, cron="x", target="work", enabled="no")
    assert set(refused.value.problems) == {"trigger", "enabled"}


def test_all_that_is_wrong_with_any_of_them_is_named_and_none_is_made(book: Book) -> None:
    forms: list[Any] = [
        form("good"),
        form("bad", cron="61 * * * *", overlap="sometimes"),
        form("Not a name"),
        form("good"),
        "text",
        {"target": "work"},
        form("late", template="missing"),
        form("odd", template=7),
        form("switch", enabled=1),
    ]
    with pytest.raises(InvalidSchedule) as refused:
        book.schedules.create_many(forms)
    assert set(refused.value.problems) == {
        "schedules[1].trigger",
        "schedules[1].overlap",
        "schedules[2].name",
        "schedules[3].name",
        "schedules[4]",
        "schedules[5].name",
        "schedules[5].trigger",
        "schedules[6].template",
        "schedules[7].template",
        "schedules[8].enabled",
    }
    assert 'schedules[3]: name "good" is also the name of schedules[0]' in str(refused.value)
    assert book.schedules.list() == []


def test_what_only_the_books_show_is_named_as_well(book: Book) -> None:
    book.schedules.create("taken", cron="0 * * * *", target="work")
    forms = [
        form("a", depends_on=[{"schedule": "b", "within": "1h"}]),
        form("b", depends_on=[{"schedule": "a", "within": "1h"}]),
        form("taken"),
    ]
    with pytest.raises(InvalidSchedule) as refused:
        book.schedules.create_many(forms)
    assert set(refused.value.problems) == {
        "schedules[0].depends_on",
        "schedules[1].depends_on",
        "schedules[2].name",
    }
    assert names(book) == ["taken"]
    past = {"name": "past", "trigger": {"at": "2020-01-01T00:00:00Z"}, "target": "work"}
    with pytest.raises(InvalidSchedule) as refused:
        book.schedules.create_many([past])
    assert set(refused.value.problems) == {"schedules[0].trigger"}


def test_of_many_problems_a_number_is_named(book: Book) -> None:
    with pytest.raises(InvalidSchedule) as refused:
        book.schedules.create_many([form("x", cron="bad")] * 150)
    assert len(refused.value.problems) == 101
    assert refused.value.problems["schedules"] == "and 50 more problems"


@pytest.mark.parametrize("definitions", [[], {}, "text", {"name": "x"}, [{}] * 10_001])
def test_what_is_no_list_of_definitions_is_refused(book: Book, definitions: Any) -> None:
    with pytest.raises(Invalid, match="schedules"):
        book.schedules.create_many(definitions)


def test_a_name_that_somebody_takes_meanwhile_is_a_conflict(
    backend: Backend, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bulk, "_refuse_others", lambda *_: None)  # as if created after the check
    add_schedule(store, "b")
    with pytest.raises(Conflict, match='"b" already exists'):
        Book(store).schedules.create_many([form("a"), form("b")])
    assert [row[0] for row in backend.rows("SELECT name FROM schedules")] == ["b"]


@pytest.fixture
def team(store: Store, monkeypatch: pytest.MonkeyPatch) -> Book:
    """Seven schedules of a team, one of them paused, and one of another team."""
    monkeypatch.setattr(bulk, "BATCH", 3)
    book = Book(store)
    for number in range(7):
        add_schedule(store, f"job-{number}", labels={"team": "x"})
    book.schedules.pause("job-3")
    add_schedule(store, "other", labels={"team": "y"})
    add_schedule(store, "job-0", namespace="elsewhere", labels={"team": "x"})
    return book


ACTIVE = tuple(f"job-{number}" for number in (0, 1, 2, 4, 5, 6))
ALL = tuple(f"job-{number}" for number in range(7))


@pytest.mark.parametrize(
    ("action", "done"),
    [
        ("pause", ACTIVE),
        ("resume", ("job-3",)),
        ("skip_next", ACTIVE),
        ("trigger", ALL),
        ("delete", ALL),
    ],
)
def test_an_action_is_done_to_all_that_a_filter_finds(
    team: Book, store: Store, backend: Backend, action: Any, done: tuple[str, ...]
) -> None:
    states = backend.rows("SELECT schedule_id, status, next_due_at FROM schedule_state")
    tried = team.schedules.act(action, {"label": "team:x"}, dry_run=True)
    assert (tried.count, tried.names, tried.dry_run) == (len(done), done, True)
    assert sorted(states) == sorted(
        backend.rows("SELECT schedule_id, status, next_due_at FROM schedule_state")
    )
    assert team.runs.list() == []
    acted = team.schedules.act(action, {"label": "team:x"}, reason="a move")
    assert (acted.count, acted.names) == (len(done), done)
    shown = {schedule.name: schedule for schedule in team.schedules.list()}
    assert shown["other"].status == "active"
    elsewhere = Book(store, "elsewhere").schedules.get("job-0")
    assert (elsewhere.status, elsewhere.last_run) == ("active", None)
    match action:
        case "pause":
            assert {shown[name].pause_reason for name in done} == {"a move"}
            assert {shown[name].status for name in ALL} == {"paused"}
        case "resume":
            assert {schedule.status for schedule in shown.values()} == {"active"}
        case "skip_next":
            assert {shown[name].next_due_at for name in done} == {BEGIN + 2 * MINUTE}
        case "trigger":
            assert sorted(str(run.schedule) for run in team.runs.list()) == list(done)
        case "delete":
            assert list(shown) == ["other"]
    assert team.schedules.act(action, {"label": "team:x"}).count == (
        len(done) if action in ("trigger", "skip_next") else 0
    )


@pytest.mark.parametrize("action", ["pause", "resume", "delete"])
def test_an_action_takes_as_many_statements_for_many_schedules_as_for_few(
    backend: Backend, clock: VirtualClock, action: Any
) -> None:
    points = list[str]()
    book = Book(store := backend.open(points.append))
    statements = []
    for number in (2, 20):
        for copy in range(number):
            add_schedule(store, f"job-{number}-{copy}", labels={"some": str(number)})
        clock.advance(2 * MINUTE + SECOND)
        tick(store)
        wanted = {"label": f"some:{number}"}
        if action == "resume":
            book.schedules.act("pause", wanted)
        points.clear()
        assert book.schedules.act(action, wanted).count == number
        statements.append(list(points))
    assert statements[0] == statements[1]


def test_an_action_on_schedules_that_write_events_has_them_written_at_once(
    book: Book, store: Store, backend: Backend, clock: VirtualClock
) -> None:
    for name in ("a", "b"):
        add_schedule(store, name, target={"event": f"topic.{name}"})
    book.schedules.act("trigger", {"text": "*"})
    assert [run.status for run in book.runs.list()] == ["succeeded"] * 2
    clock.advance(MINUTE)
    book.schedules.act("skip_next", {"text": "*"})  # which finds due times first
    assert [run.status for run in book.runs.list()] == ["succeeded"] * 4
    assert backend.rows("SELECT count(*) FROM events WHERE topic = 'topic.a'") == [(2,)]


def test_what_was_pending_of_deleted_schedules_is_recorded(
    team: Book, store: Store, clock: VirtualClock
) -> None:
    ids = [schedule.id for schedule in team.schedules.list(label="team:x", status="active")]
    clock.advance(2 * MINUTE + SECOND)
    team.schedules.act("delete", {"label": "team:x"})
    assert [[e.reason for e in get_ledger(store, id_)] for id_ in ids] == [["deleted"]] * 6


def test_whoever_makes_or_acts_on_many_is_written_down(store: Store) -> None:
    book = Book(store, by="token:ci")
    book.schedules.create_many([form("a"), form("b")])
    assert {schedule.created_by for schedule in book.schedules.list()} == {"token:ci"}
    for action in ("skip_next", "trigger", "pause", "resume", "delete"):
        book.schedules.act(action, {"text": "*"})
    written = [(change.action, change.subject, change.by) for change in book.audit.list()]
    assert sorted(written) == [
        (action, name, "token:ci")
        for action in ("create", "delete", "pause", "resume", "skip_next", "trigger")
        for name in ("a", "b")
    ]


def test_many_are_held_to_the_quota_together(store: Store) -> None:
    book = Book(store)
    book.namespaces.limit("default", schedules=2)
    with pytest.raises(QuotaReached, match="2 schedules"):
        book.schedules.create_many([form("a"), form("b"), form("c")])
    assert book.schedules.list() == []
    book.schedules.create_many([form("a"), form("b")])


def test_an_action_only_meets_those_in_the_state_for_it(team: Book) -> None:
    assert team.schedules.act("pause", {"status": "paused"}).count == 0
    assert team.schedules.act("resume", {"status": "active"}).count == 0
    assert team.schedules.act("delete", {"status": "paused"}).names == ("job-3",)


def test_an_action_is_done_to_chosen_ones_that_are_in_the_state_for_it(team: Book) -> None:
    first, second, third, *_ = (schedule.name for schedule in team.schedules.list())
    team.schedules.pause(second)
    chosen = [third, "nobody", second, first, first]
    assert sorted(team.schedules.act_on("pause", chosen, "holiday")) == [first, third]
    assert team.schedules.get(third).pause_reason == "holiday"
    assert team.schedules.get(second).pause_reason is None
    assert team.schedules.act_on("resume", []) == []
    with pytest.raises(Invalid, match="is not one of"):
        team.schedules.act_on("stop", [first])  # type: ignore[arg-type]


def test_many_are_paused_until_a_time(team: Book, store: Store, clock: VirtualClock) -> None:
    until = clock.now + 2 * MINUTE
    acted = team.schedules.act("pause", {"label": "team:x"}, reason="a move", until=until)
    assert acted.names == ACTIVE
    assert {team.schedules.get(name).paused_until for name in ACTIVE} == {until}
    (change,) = team.audit.list(limit=1)
    assert (change.action, (change.after or {})["until"]) == ("pause", format_instant(until))
    clock.advance(2 * MINUTE)
    tick(store)
    assert {team.schedules.get(name).status for name in ACTIVE} == {"active"}
    assert team.schedules.act_on("pause", ACTIVE[:1], until=clock.now + MINUTE) == [ACTIVE[0]]
    assert team.schedules.get(ACTIVE[0]).paused_until == clock.now + MINUTE


@pytest.mark.parametrize("dry_run", [False, True])
def test_a_pause_of_many_that_would_be_over_is_refused(
    team: Book, clock: VirtualClock, dry_run: bool
) -> None:
    with pytest.raises(Invalid, match="is in the past"):
        team.schedules.act("pause", {"text": "*"}, dry_run, until=clock.now)
    with pytest.raises(Invalid, match="is in the past"):
        team.schedules.act_on("pause", list(ACTIVE), until=clock.now)
    with pytest.raises(Invalid, match="until can be used only with pause, not with resume"):
        team.schedules.act("resume", {"text": "*"}, dry_run, until=clock.now + MINUTE)
    assert team.schedules.get(ACTIVE[0]).status == "active"


def test_an_action_on_everything_has_to_be_asked_for(team: Book) -> None:
    for nothing in ({}, {"label": None}):
        with pytest.raises(Invalid, match="empty"):
            team.schedules.act("delete", nothing)
    assert team.schedules.act("delete", {"text": "*"}, dry_run=True).count == 8
    with pytest.raises(InvalidFilter, match="colour"):
        team.schedules.act("delete", {"colour": "red"})
    with pytest.raises(Invalid, match="explode"):
        team.schedules.act("explode", {"text": "*"})  # type: ignore[arg-type]
