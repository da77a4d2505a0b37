"""Schedules that are declared together, under an owner: what changes, and what stays."""

from __future__ import annotations

import threading
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from duebook.book import Book
from duebook.book.declaring import Declaring
from duebook.budget import Budget
from duebook.errors import Conflict, Invalid, NotFound, OverBudget, QuotaReached
from duebook.model.declaration import DueMove
from duebook.model.schedule import InvalidSchedule
from duebook.timetext import format_instant, parse_instant
from tests.support.builders import BEGIN, MINUTE, VirtualClock, get_ledger, tick
from tests.support.waiting import PATIENCE

if TYPE_CHECKING:
    from collections.abc import Callable

    from duebook.model.declaration import Declaration, DeclaredSchedule
    from duebook.store.base import Store
    from tests.support.backends import Backend

OWNER = "billing"


def hourly(name: str = "job", **more: Any) -> dict[str, Any]:
    anchor = format_instant(BEGIN)
    return {"name": name, "trigger": {"every": "1h", "anchor": anchor}, "target": "report", **more}


@pytest.fixture
def book(store: Store) -> Book:
    return Book(store, by="cli:alice")


def names(book: Book) -> list[str]:
    return [schedule.name for schedule in book.schedules.list()]


def told_of(declared: Declaration, name: str = "job") -> DeclaredSchedule:
    return next(one for one in declared.schedules if one.name == name)


def codes(declared: Declaration, name: str = "job") -> list[str]:
    return [note.code for note in told_of(declared, name).notes]


# ------------------------------------------------------------ what changes


def test_new_schedules_are_created_under_their_owner(book: Book) -> None:
    declared = book.schedules.declare([hourly("a"), hourly("b", enabled=False)], OWNER)
    assert (declared.created, declared.applied) == (("a", "b"), True)
    made = book.schedules.get("a")
    assert (made.owner, made.created_by, made.version) == (OWNER, "cli:alice", 1)
    assert book.schedules.get("b").status == "paused"


def test_a_second_declaration_changes_nothing(book: Book, clock: VirtualClock) -> None:
    forms = [{"name": "job", "trigger": {"every": "10m"}, "target": "report"}]
    book.schedules.declare(forms, OWNER)
    before, entries = book.schedules.get("job"), book.audit.list()
    clock.advance(MINUTE)
    again = book.schedules.declare(forms, OWNER)
    assert (again.unchanged, again.schedules, again.changes) == (("job",), (), False)
    assert book.schedules.get("job") == before
    assert book.audit.list() == entries


def test_a_dry_run_changes_nothing(book: Book) -> None:
    planned = book.schedules.declare([hourly()], OWNER, dry_run=True)
    assert (planned.created, planned.applied) == (("job",), False)
    assert names(book) == []


def test_a_change_is_told_field_by_field_without_secrets(book: Book) -> None:
    target = {"command": ["true"], "env": {"TOKEN": "one"}}
    book.schedules.declare([hourly(target=target, retry=3)], OWNER)
    other = {"command": ["true"], "env": {"TOKEN": "two"}}
    declared = book.schedules.declare([hourly(target=other, title="Job")], OWNER)
    assert declared.changed == ("job",)
    told = {change.field: (change.before, change.after) for change in told_of(declared).fields}
    hidden = {"command": ["true"], "env": {"TOKEN": "***"}}
    assert told == {
        "target": (hidden, hidden),
        "retry": ({"attempts": 3}, None),
        "title": ("", "Job"),
    }
    assert book.schedules.get("job").version == told_of(declared).version + 1  # type: ignore[operator]


def test_hidden_values_stay_as_they_are(book: Book) -> None:
    secret = {"command": ["true"], "env": {"TOKEN": "one"}}
    book.schedules.declare([hourly(target=secret)], OWNER)
    hidden = {"command": ["true"], "env": {"TOKEN": "***"}}
    assert not book.schedules.declare([hourly(target=hidden)], OWNER).changes
    with pytest.raises(InvalidSchedule, match=r"schedules\[0\]: target env .* placeholder"):
        book.schedules.declare([hourly("other", target=hidden)], OWNER)


def test_due_times_of_the_next_days_appear_disappear_and_move(book: Book) -> None:
    noon: dict[str, Any] = {"trigger": {"daily": "14:00"}}
    book.schedules.declare([hourly(**noon), hourly("gone", **noon)], OWNER)
    later = [hourly(trigger={"daily": "15:00"}), hourly("new", **noon)]
    planned = book.schedules.declare(later, OWNER, prune=True, dry_run=True, days=2)
    first, second = BEGIN + timedelta(hours=2), BEGIN + timedelta(hours=26)
    hour = timedelta(hours=1)
    moves = (DueMove(first, first + hour), DueMove(second, second + hour))
    assert told_of(planned).move == moves
    assert told_of(planned, "gone").disappear == (first, second)
    assert told_of(planned, "new").appear == (first, second)
    assert planned.until == BEGIN + timedelta(days=2)


# ------------------------------------------------------------ warnings


def test_a_change_that_would_fire_at_once_says_so(book: Book, clock: VirtualClock) -> None:
    book.schedules.declare([hourly()], OWNER)
    clock.advance(timedelta(hours=1, seconds=10))
    change = [hourly(trigger={"every": "20m", "anchor": format_instant(BEGIN)}, catchup="all")]
    planned = book.schedules.declare(change, OWNER, dry_run=True)
    assert codes(planned) == ["fires_now"]
    assert told_of(planned).notes[0].message == (
        "this would fire at once: due time 2026-01-05T12:20:00Z"
    )
    book.schedules.declare(change, OWNER)
    assert tick(book.store) == 1
    (run,) = book.runs.list("job")
    assert run.due_at == BEGIN + timedelta(minutes=20), "as was said"


def test_a_change_that_drops_waiting_due_times_says_how_many(
    book: Book, clock: VirtualClock
) -> None:
    often = hourly(trigger={"every": "1m", "anchor": format_instant(BEGIN)})
    book.schedules.declare([often], OWNER)
    clock.advance(14 * MINUTE)
    rarely = [hourly(trigger={"daily": "23:00"})]
    planned = book.schedules.declare(rarely, OWNER, dry_run=True)
    assert [note.message for note in told_of(planned).notes] == ["this drops 14 waiting due times"]
    removed = book.schedules.declare([], OWNER, prune=True, dry_run=True)
    assert [note.message for note in told_of(removed).notes] == ["this drops 14 waiting due times"]
    book.schedules.declare(rarely, OWNER)
    (entry,) = get_ledger(book.store, book.schedules.get("job").id)
    assert (entry.reason, entry.count) == ("edited", 14), "as was said"


def test_a_time_that_does_not_exist_is_a_warning(book: Book) -> None:
    night: dict[str, Any] = {"trigger": {"daily": "02:30", "tz": "Europe/Brussels"}}
    planned = book.schedules.declare([hourly(**night)], OWNER, dry_run=True)
    assert "dst_gap" in codes(planned)
    assert (
        told_of(planned)
        .notes[0]
        .message.startswith("02:30 does not exist on 2026-03-29 in Europe/Brussels")
    )
    book.schedules.declare([hourly(**night)], OWNER)
    other = book.schedules.declare([hourly(**night, title="Night")], OWNER)
    assert codes(other) == [], "the times stay as they are"


# ------------------------------------------------------------ what stays


def test_pauses_skips_and_moves_stay(book: Book) -> None:
    book.schedules.declare([hourly("paused"), hourly("skipped"), hourly("moved")], OWNER)
    book.schedules.pause("paused", reason="holidays", until="2026-02-01T00:00:00Z")
    _, skipped = book.schedules.skip_next("skipped")
    book.schedules.reschedule("moved", "2026-01-05T12:30:00Z")
    changed = [hourly(name, priority=5) for name in ("paused", "skipped", "moved")]
    declared = book.schedules.declare(changed, OWNER)
    assert declared.changed == ("moved", "paused", "skipped")
    assert codes(declared, "paused") == ["paused"]
    paused = book.schedules.get("paused")
    assert (paused.status, paused.pause_reason) == ("paused", "holidays")
    assert paused.paused_until == parse_instant("2026-02-01T00:00:00Z")
    assert [e.due_at for e in book.schedules.exceptions("skipped")] == [skipped]
    assert book.schedules.get("moved").next_due_at == parse_instant("2026-01-05T12:30:00Z")


def test_one_that_is_no_longer_declared_stays_until_it_is_pruned(book: Book) -> None:
    book.schedules.declare([hourly("a"), hourly("b")], OWNER)
    book.schedules.declare([hourly("theirs")], "shop")
    book.schedules.create("by-hand", trigger={"every": "1h"}, target="report")
    left = book.schedules.declare([hourly("a")], OWNER)
    assert (left.left, left.changes) == (("b",), False)
    assert book.schedules.declare([hourly("a")], OWNER, prune=True).removed == ("b",)
    assert names(book) == ["a", "by-hand", "theirs"], "it prunes only its own"
    with pytest.raises(Invalid, match="prune deletes what its owner no longer declares"):
        book.schedules.declare([], prune=True)


def test_names_that_others_made_are_changed_only_with_adopt(book: Book) -> None:
    book.schedules.create("job", trigger={"every": "1h"}, target="report")
    planned = book.schedules.declare([hourly()], OWNER, dry_run=True)
    assert codes(planned) == ["adopt"]
    with pytest.raises(Conflict, match='1 schedule was not declared by "billing": job'):
        book.schedules.declare([hourly()], OWNER)
    assert book.schedules.get("job").owner == ""
    book.schedules.declare([hourly()], OWNER, adopt=True)
    adopted = book.schedules.get("job")
    assert (adopted.owner, adopted.created_by) == (OWNER, "cli:alice")
    assert not book.schedules.declare([hourly()], OWNER).changes


def test_a_schedule_of_a_flow_directory_cannot_be_adopted(book: Book) -> None:
    book.schedules.declare_one("job", "flows:etl", trigger={"every": "1h"}, target="report")
    with pytest.raises(Conflict, match='is declared by "flows:etl", a directory of flow files'):
        book.schedules.declare([hourly()], OWNER, adopt=True)


def test_a_program_does_not_change_what_was_adopted(book: Book) -> None:
    book.schedules.declare_one("job", "code:shop", trigger={"every": "1h"}, target="report")
    book.schedules.declare([hourly()], OWNER, adopt=True)
    with pytest.raises(Conflict, match='is declared by "billing", so code does not change it'):
        book.schedules.declare_one("job", "code:shop", trigger={"every": "2h"}, target="report")


# ------------------------------------------------------------ all or none


def test_one_wrong_definition_changes_nothing(book: Book) -> None:
    book.schedules.declare([hourly("a")], OWNER)
    wrong = [hourly("a", priority=3), hourly("b"), hourly("c", trigger={"cron": "61 * * * *"})]
    with pytest.raises(InvalidSchedule) as caught:
        book.schedules.declare(wrong, OWNER)
    assert list(caught.value.problems) == ["schedules[2].trigger"]
    assert names(book) == ["a"]
    assert book.schedules.get("a").version == 1


def test_schedules_that_would_wait_for_each_other_are_refused(book: Book) -> None:
    book.schedules.declare([hourly("a")], OWNER)
    first = hourly("a", depends_on=[{"schedule": "b", "within": "1h"}])
    second = hourly("b", depends_on=[{"schedule": "a", "within": "1h"}])
    with pytest.raises(InvalidSchedule, match="would depend on itself"):
        book.schedules.declare([first, second], OWNER)
    assert names(book) == ["a"]


def test_a_plan_is_refused_when_a_schedule_it_changes_has_changed(book: Book) -> None:
    book.schedules.declare([hourly("a"), hourly("b")], OWNER)
    wanted = [hourly("a", priority=1), hourly("b")]
    planned = book.schedules.declare(wanted, OWNER, dry_run=True)
    book.schedules.update("a", title="Other")
    with pytest.raises(Conflict, match="no longer as they were when this was planned"):
        book.schedules.declare(wanted, OWNER, expect=planned.fingerprint)
    renewed = book.schedules.declare(wanted, OWNER, dry_run=True)
    assert renewed.fingerprint != planned.fingerprint
    book.schedules.create("unrelated", trigger={"every": "1h"}, target="report")
    assert book.schedules.declare(wanted, OWNER, expect=renewed.fingerprint).applied


def meanwhile(monkeypatch: pytest.MonkeyPatch, act: Callable[[], object]) -> None:
    """Another user acts once, after schedules are compared and before they are changed."""
    waiting, refuse = [act], Declaring._refuse_others

    def late(self: Declaring, *given: Any) -> None:
        refuse(self, *given)
        while waiting:
            waiting.pop()()

    monkeypatch.setattr(Declaring, "_refuse_others", late)


def test_a_schedule_that_appears_meanwhile_is_not_overwritten(
    book: Book, monkeypatch: pytest.MonkeyPatch
) -> None:
    by_hand: dict[str, Any] = {"trigger": {"every": "1h"}, "target": "report"}
    meanwhile(monkeypatch, lambda: book.schedules.create("job", **by_hand))
    with pytest.raises(Conflict, match="not declared by"):
        book.schedules.declare([hourly("other"), hourly()], OWNER)
    assert names(book) == ["job"]


def test_a_pause_that_begins_meanwhile_stays(book: Book, monkeypatch: pytest.MonkeyPatch) -> None:
    book.schedules.declare([hourly()], OWNER)
    meanwhile(monkeypatch, lambda: book.schedules.pause("job", reason="now"))
    book.schedules.declare([hourly(priority=3)], OWNER)
    paused = book.schedules.get("job")
    assert (paused.status, paused.pause_reason, paused.version) == ("paused", "now", 2)


def test_an_edit_that_happens_meanwhile_is_planned_again(
    book: Book, monkeypatch: pytest.MonkeyPatch
) -> None:
    book.schedules.declare([hourly()], OWNER)
    meanwhile(monkeypatch, lambda: book.schedules.update("job", title="Other"))
    declared = book.schedules.declare([hourly(priority=3)], OWNER)
    assert told_of(declared).version == 2
    assert book.schedules.get("job").version == 3


def test_what_was_planned_is_not_applied_when_an_edit_happens_meanwhile(
    book: Book, monkeypatch: pytest.MonkeyPatch
) -> None:
    book.schedules.declare([hourly()], OWNER)
    planned = book.schedules.declare([hourly(priority=3)], OWNER, dry_run=True)
    meanwhile(monkeypatch, lambda: book.schedules.update("job", title="Other"))
    with pytest.raises(Conflict, match="no longer as they were"):
        book.schedules.declare([hourly(priority=3)], OWNER, expect=planned.fingerprint)
    assert book.schedules.get("job").version == 2


def test_programs_that_declare_at_once_create_each_schedule_once(backend: Backend) -> None:
    start, found = threading.Barrier(3), list[tuple[str, ...]]()

    def declare() -> None:
        own = Book(backend.open())
        start.wait(PATIENCE)
        found.append(own.schedules.declare([hourly("a"), hourly("b")], OWNER).created)

    threads = [threading.Thread(target=declare) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    assert sorted(found) == [(), (), ("a", "b")]


def test_more_than_ten_thousand_are_refused(book: Book) -> None:
    with pytest.raises(Invalid, match="0 to 10,000 can be declared at once, not 10,001"):
        book.schedules.declare([hourly()] * 10_001, OWNER)
    with pytest.raises(Invalid, match='invalid owner "Bad Name"'):
        book.schedules.declare([], "Bad Name")
    with pytest.raises(Invalid, match="days 400 is not a number from 0 to 366"):
        book.schedules.declare([], OWNER, days=400)


def test_a_quota_counts_what_the_declaration_leaves(book: Book) -> None:
    book.namespaces.limit("default", schedules=2)
    book.schedules.declare([hourly("a"), hourly("b")], OWNER)
    with pytest.raises(QuotaReached, match="limited to 2 schedules"):
        book.schedules.declare([hourly("a"), hourly("b"), hourly("c")], OWNER)
    book.schedules.declare([hourly("a"), hourly("c")], OWNER, prune=True)
    assert names(book) == ["a", "c"]


# ------------------------------------------------------------ what is recorded


def test_the_audit_has_each_change_and_the_declaration(book: Book) -> None:
    book.schedules.declare([hourly("a"), hourly("b")], OWNER)
    book.schedules.create("c", trigger={"every": "2h"}, target="report")
    wanted = [hourly("a", priority=1), hourly("c")]
    book.schedules.declare(wanted, OWNER, prune=True, adopt=True, by="ci")
    entries = [entry for entry in book.audit.list() if entry.by == "ci"]
    assert {(entry.action, entry.kind, entry.subject) for entry in entries} == {
        ("update", "schedule", "a"),
        ("delete", "schedule", "b"),
        ("adopt", "schedule", "c"),
        ("update", "schedule", "c"),
        ("declare", "declaration", OWNER),
    }
    (whole,) = [entry for entry in entries if entry.kind == "declaration"]
    assert whole.after == {"created": 0, "changed": 2, "removed": 1}
    assert [revision.by for revision in book.schedules.revisions("a")] == ["cli:alice", "ci"]


# ------------------------------------------------------------ create and replace


def test_create_with_replace_creates_or_replaces(book: Book) -> None:
    first = book.schedules.create(
        "job", replace=True, trigger={"every": "1h"}, target="report", priority=3
    )
    book.schedules.pause("job")
    again = book.schedules.create("job", replace=True, trigger={"every": "1h"}, target="other")
    assert (again.id, again.version, again.status) == (first.id, 2, "paused")
    assert again.spec is not None
    assert (again.spec.priority, again.spec.target.to_json()) == (0, {"task": "other"})
    same = book.schedules.create("job", replace=True, trigger={"every": "1h"}, target="other")
    assert same.version == 2, "what says nothing new changes nothing"
    with pytest.raises(Conflict, match="already exists"):
        book.schedules.create("job", trigger={"every": "1h"}, target="other")
    with pytest.raises(Invalid, match='replace "yes" is not true or false'):
        book.schedules.create("job", replace="yes", trigger="* * * * *", target="t")  # type: ignore[call-overload]
    with pytest.raises(NotFound):
        book.schedules.create("job", replace=True, template="none")


# ------------------------------------------------------------ calendars


WEEKEND = {"name": "weekend", "weekdays": "SAT-SUN"}
CLOSED = {"name": "closed", "calendars": ["weekend"], "dates": ["2026-12-25"]}


def closing(name: str = "job", **more: Any) -> dict[str, Any]:
    return hourly(name, trigger={"daily": "14:00"}, calendar={"except": "closed"}, **more)


def test_calendars_are_created_with_the_schedules_that_use_them(book: Book) -> None:
    planned = book.schedules.declare([closing()], OWNER, calendars=[CLOSED, WEEKEND], dry_run=True)
    assert [(one.name, one.action) for one in planned.calendars] == [
        ("closed", "create"),
        ("weekend", "create"),
    ]
    assert book.calendars.list() == []
    done = book.schedules.declare(
        [closing()], OWNER, calendars=[CLOSED, WEEKEND], expect=planned.fingerprint
    )
    assert (done.created, done.applied) == (("job",), True)
    use = book.schedules.get("job").spec.calendar  # type: ignore[union-attr]
    assert use is not None
    assert (use.version, use.days) == (1, book.calendars.get("closed").days)
    noted = [(one.action, one.subject) for one in book.audit.list() if one.kind == "calendar"]
    assert sorted(noted) == [("create", "closed"), ("create", "weekend")]
    again = book.schedules.declare([closing()], OWNER, calendars=[CLOSED, WEEKEND])
    assert (again.changes, again.unchanged) == (False, ("job",))


def test_schedules_of_all_owners_follow_a_calendar_that_changes(book: Book) -> None:
    book.schedules.declare([closing(), closing("edited")], OWNER, calendars=[CLOSED, WEEKEND])
    book.schedules.create(**closing("other"))
    book.schedules.pause("other")
    longer = WEEKEND | {"weekdays": "FRI-SUN"}
    forms = [closing(), closing("edited", title="Edited")]
    planned = book.schedules.declare(forms, OWNER, calendars=[longer], days=14, dry_run=True)
    assert [(one.name, one.action) for one in planned.calendars] == [
        ("closed", "follow"),
        ("weekend", "change"),
    ]
    assert (planned.changed, planned.following) == (("edited",), ("job", "other"))
    assert (planned.unchanged, len(planned.calendars[1].added)) == ((), 10)
    before = planned.fingerprint
    assert book.schedules.declare(forms, OWNER, calendars=[longer], expect=before).applied
    days = book.calendars.get("closed").days
    for name in ("job", "edited", "other"):
        use = book.schedules.get(name).spec.calendar  # type: ignore[union-attr]
        assert use is not None
        assert (use.version, use.days) == (2, days)
    assert book.schedules.get("other").status == "paused"


def test_a_change_of_only_the_calendar_tells_the_due_times_that_disappear(book: Book) -> None:
    book.calendars.save("closed", dates=["2026-01-06"])
    assert BEGIN.day == 5
    tomorrow = BEGIN + timedelta(hours=26)
    plain = closing()
    del plain["calendar"]
    book.schedules.declare([plain], OWNER)
    planned = book.schedules.declare([closing()], OWNER, dry_run=True)
    assert told_of(planned).disappear == (tomorrow,)
    book.schedules.declare([closing()], OWNER)
    moved = [{"name": "closed", "dates": ["2026-01-07"]}]
    followed = book.schedules.declare([closing()], OWNER, calendars=moved, dry_run=True)
    assert told_of(followed).action == "follow"
    assert told_of(followed).move == (DueMove(tomorrow + timedelta(days=1), tomorrow),)


def test_due_times_in_maintenance_windows_do_not_appear(book: Book) -> None:
    start = BEGIN + timedelta(hours=12)
    book.windows.add("move", start, start + timedelta(days=2), {"team": "data"})
    book.schedules.declare([hourly(trigger={"daily": "14:00"})], OWNER)
    labelled = [
        hourly(name, trigger={"daily": "14:00"}, labels={"team": "data"}) for name in ("job", "new")
    ]
    planned = book.schedules.declare(labelled, OWNER, dry_run=True, days=4)
    first, day = BEGIN + timedelta(hours=2), timedelta(days=1)
    assert told_of(planned, "new").appear == (first, first + 3 * day)
    assert told_of(planned).disappear == (first + day, first + 2 * day)


def test_a_calendar_that_others_change_meanwhile_is_looked_at_again(book: Book) -> None:
    def change_meanwhile() -> None:
        if book.calendars.get("weekend").version == 1:
            book.calendars.save("weekend", weekdays=["SUN"])

    book.schedules.declare([closing()], OWNER, calendars=[CLOSED, WEEKEND])
    other = Declaring._refuse_others

    def late(self: Declaring, difference: Any) -> None:
        change_meanwhile()
        other(self, difference)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Declaring, "_refuse_others", late)
        book.schedules.declare([closing()], OWNER, calendars=[WEEKEND | {"weekdays": "FRI-SUN"}])
    saved = book.calendars.get("weekend")
    assert (saved.version, saved.definition) == (3, {"weekdays": ["FRI", "SAT", "SUN"]})
    use = book.schedules.get("job").spec.calendar  # type: ignore[union-attr]
    assert use is not None
    assert use.days == book.calendars.get("closed").days


def test_calendars_are_declared_within_the_budget_in_which_they_are_saved(book: Book) -> None:
    spent = Book(book.store, budget=Budget(0, iter(range(1_000_000)).__next__))
    daily: dict[str, Any] = {"rrule": ["FREQ=DAILY"] * 20}
    with pytest.raises(OverBudget):
        spent.calendars.save("days", **daily)
    with pytest.raises(OverBudget):
        spent.schedules.declare([], OWNER, calendars=[{"name": "days", **daily}])
    with pytest.raises(OverBudget):
        spent.simulate(days=1, calendars=[{"name": "days", **daily}])


def test_a_calendar_that_gets_the_same_days_in_other_words_moves_no_schedule(book: Book) -> None:
    book.schedules.declare([closing()], OWNER, calendars=[CLOSED, WEEKEND])
    words = WEEKEND | {"weekdays": ["SAT"], "rrule": "FREQ=WEEKLY;BYDAY=SU"}
    planned = book.schedules.declare([closing()], OWNER, calendars=[words])
    assert (planned.following, planned.unchanged) == ((), ("job",))
    assert [(one.name, one.action) for one in planned.calendars] == [("weekend", "change")]
    assert (book.calendars.get("weekend").version, book.schedules.get("job").version) == (2, 1)


def test_dates_that_no_calendar_can_have_are_refused_in_declarations_too(book: Book) -> None:
    with pytest.raises(InvalidSchedule, match="has no day from 2000 to 2099"):
        book.schedules.declare([], OWNER, calendars=[{"name": "far", "dates": "2150-01-01"}])
