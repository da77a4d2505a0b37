"""Calendars and maintenance windows on both databases: versions, the schedules that follow them,
and a database that passes its check."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from duebook import cron
from duebook.balance import check_books
from duebook.book import Book, calendar_changes
from duebook.book.calendar_changes import prepare
from duebook.book.calendar_days import Resolver
from duebook.book.calendar_use import resolved
from duebook.book.readiness import look
from duebook.budget import Budget
from duebook.errors import Conflict, Invalid, NotFound
from duebook.model.calendar import definition_text
from duebook.model.plan import WindowSpan
from duebook.model.schedule import InvalidSchedule
from duebook.planner import plan_edit
from duebook.store.sql.plans import Plans
from duebook.store.sql.schedules import Schedules
from duebook.timetext import format_instant
from tests.support.builders import begin, claim, get_ledger, get_runs, settle, tick

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from duebook.model.plan import Plan, Snapshot
    from duebook.store.base import Store
    from tests.support.builders import VirtualClock

HOUR = timedelta(hours=1)
DAY = timedelta(days=1)
TARGET = {"command": ["true"]}
NINE = {"daily": "09:00"}
WEEKEND: dict[str, Any] = {"weekdays": "SAT,SUN"}


@pytest.fixture(autouse=True)
def _node(store: Store) -> None:
    begin(store, lease=timedelta(days=365))


def live(store: Store, clock: VirtualClock, until: datetime, step: timedelta = 3 * HOUR) -> None:
    """Plan every few hours; runs end immediately."""
    while clock.now < until:
        clock.now = min(clock.now + step, until)
        tick(store)
        for claimed in claim(store):
            settle(store, claimed.token)


def fired(store: Store, schedule_id: str) -> list[str]:
    runs = [run.due_at for run in get_runs(store, schedule_id) if run.due_at is not None]
    return [f"{due_at:%m-%d %H:%M}" for due_at in sorted(runs)]


def recorded(store: Store, schedule_id: str) -> list[tuple[str, int, str]]:
    entries = sorted(get_ledger(store, schedule_id), key=lambda entry: entry.due_from)
    return [(f"{e.due_from:%m-%d %H:%M}", e.count, e.reason) for e in entries]


def assert_balanced(store: Store) -> None:
    found = check_books(store, deep=True).findings
    assert [finding for finding in found if finding.problem] == []


def test_a_calendar_is_stored_with_its_days_and_versions(book: Book) -> None:
    saved = book.calendars.save("weekends", **WEEKEND)
    assert (saved.version, saved.day_count, saved.created_by) == (1, 10_436, "a test")
    assert book.calendars.save("weekends", **WEEKEND).version == 1, "nothing has changed"
    assert book.calendars.days("weekends", "2026-01-01", "2026-01-10") == [
        "2026-01-03",
        "2026-01-04",
        "2026-01-10",
    ]
    changed = book.calendars.save("weekends", weekdays="SUN", version=1)
    assert (changed.version, book.calendars.get("weekends").version) == (2, 2)
    with pytest.raises(Conflict, match="has version 2, not 1"):
        book.calendars.save("weekends", version=1, weekdays="SAT")
    assert [found.name for found in book.calendars.list()] == ["weekends"]
    assert [change.action for change in book.audit.list(kind="calendar")] == [
        "update",
        "create",
    ]
    book.calendars.remove("weekends")
    with pytest.raises(NotFound):
        book.calendars.get("weekends")


def test_calendars_are_united_and_subtracted_and_follow_each_other(book: Book) -> None:
    book.calendars.save("holidays", dates=["2026-01-06", "2026-12-24/2027-01-02"])
    book.calendars.save("workdays", weekdays="MON-FRI", without={"calendars": ["holidays"]})
    book.calendars.save("special", calendars=["workdays"], dates="2026-01-11")
    week = ("2026-01-05", "2026-01-11")
    assert [day[-2:] for day in book.calendars.days("special", *week)] == [
        *("05", "07", "08", "09"),
        "11",
    ]
    book.calendars.save("holidays", dates="2026-01-07")
    assert [day[-2:] for day in book.calendars.days("special", *week)] == [
        *("05", "06", "08", "09"),
        "11",
    ]
    assert [found.version for found in book.calendars.list()] == [2, 2, 2]
    with pytest.raises(Invalid, match=r"would refer to each other: .*holidays"):
        book.calendars.save("holidays", calendars="special")
    with pytest.raises(Invalid, match='calendar "holidays" cannot refer to itself'):
        book.calendars.save("holidays", calendars="holidays")
    with pytest.raises(Conflict, match='is used by calendar "workdays"'):
        book.calendars.remove("holidays")


def test_only_the_latest_versions_of_a_calendar_are_kept(
    book: Book, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("duebook.store.sql.calendars.KEPT_VERSIONS", 2)
    for day in range(1, 5):
        book.calendars.save("holidays", dates=f"2026-01-0{day}")
    kept = book.store.read(lambda tx: tx.calendars.list_versions("default", "holidays", 10))
    assert [found.version for found in kept] == [4, 3]
    assert book.calendars.days("holidays", "2026-01-01", "2026-01-31") == ["2026-01-04"]


def test_a_list_of_calendars_has_no_texts_of_ical_files(book: Book) -> None:
    text = "BEGIN:VEVENT\nDTSTART:20260106\nEND:VEVENT\n"
    definition: dict[str, Any] = {"weekdays": ["TUE"], "without": {"ical": text}}
    book.calendars.save("file", ical=text)
    book.calendars.save("workdays", **definition)
    book.calendars.save("all", calendars=["file", "workdays"])
    book.calendars.save("file", ical=text, dates="2026-01-09")
    file, listed = (found for found in book.calendars.list() if found.name != "all")
    assert file.definition == {"ical": "", "dates": ["2026-01-09"]}
    assert listed.definition == {"weekdays": ["TUE"], "without": {"ical": ""}}
    assert book.calendars.get("workdays").definition == definition
    assert definition_text(listed.definition) == "weekdays TUE, without an iCal file"
    assert book.calendars.save("workdays", **definition).version == 1, "nothing has changed"
    assert book.calendars.days("all", "2026-01-05", "2026-01-13") == [
        "2026-01-06",
        "2026-01-09",
        "2026-01-13",
    ]
    with pytest.raises(Conflict, match='is used by calendar "all"'):
        book.calendars.remove("file")


def test_days_are_resolved_before_the_transaction_and_again_if_calendars_change_meanwhile(
    book: Book, monkeypatch: pytest.MonkeyPatch
) -> None:
    book.calendars.save("holidays", dates="2026-01-06")
    late = [lambda: book.calendars.save("holidays", dates="2026-01-07")]
    resolve = Resolver.resolve

    def resolve_and_change(*given: Any) -> Any:
        while late:
            late.pop()()
        return resolve(*given)

    monkeypatch.setattr(Resolver, "resolve", resolve_and_change)
    book.calendars.save("workdays", weekdays="TUE,WED", without={"calendars": "holidays"})
    assert book.calendars.days("workdays", "2026-01-05", "2026-01-11") == ["2026-01-06"]


def test_a_schedule_needs_a_calendar_of_its_own_namespace(book: Book) -> None:
    with pytest.raises(InvalidSchedule, match='calendar "weekends" does not exist; create it'):
        book.schedules.create("etl", trigger=NINE, target=TARGET, calendar={"except": "weekends"})
    book.calendars.save("weekends", **WEEKEND)
    made = book.schedules.create(
        "etl", trigger=NINE, target=TARGET, calendar={"except": "weekends"}
    )
    assert made.spec is not None
    assert made.spec.to_shown()["calendar"] == {"except": "weekends"}
    with pytest.raises(Conflict, match='calendar "weekends" is used by schedule "etl"'):
        book.calendars.remove("weekends")
    book.schedules.delete("etl")
    book.calendars.remove("weekends")


@pytest.mark.mostly_on_a_file
@pytest.mark.parametrize("roll", ["skip", "next", "previous"])
def test_the_books_balance_with_closed_days_and_rolls(
    book: Book, clock: VirtualClock, roll: str
) -> None:
    book.calendars.save("weekends", **WEEKEND)
    calendar = {"except": "weekends", "roll": roll}
    weekly = book.schedules.create(
        "weekly", trigger={"weekly": "SAT 09:30"}, target=TARGET, calendar=calendar
    ).id
    nine = book.schedules.create("nine", trigger=NINE, target=TARGET, calendar=calendar).id
    start = clock.now
    live(book.store, clock, start + 11.5 * DAY)
    rolled = {"skip": [], "next": ["01-12 09:30"], "previous": ["01-09 09:30", "01-16 09:30"]}
    assert fired(book.store, weekly) == rolled[roll]
    assert recorded(book.store, weekly) == [("01-10 09:30", 1, "calendar")]
    assert recorded(book.store, nine) == [("01-10 09:00", 2, "calendar")]
    book.calendars.save("weekends", weekdays="SUN")
    live(book.store, clock, start + 20 * DAY)
    assert_balanced(book.store)
    told = str(book.schedules.explain("weekly", "2026-01-10T09:30:00Z"))
    assert "calendar weekends closes 10 January" in told
    assert ("it rolled to" in told) == (roll != "skip")


def test_an_edit_of_a_calendar_shows_what_moves_and_then_moves_it(
    book: Book, clock: VirtualClock
) -> None:
    book.calendars.save("holidays", dates="2026-01-08")
    etl = book.schedules.create(
        "etl", trigger=NINE, target=TARGET, calendar={"except": "holidays", "roll": "next"}
    ).id
    shown = book.calendars.preview("holidays", dates="2026-01-07")
    assert (shown.version, shown.schedules) == (1, 1)
    assert (shown.added, shown.removed) == (("2026-01-07",), ("2026-01-08",))
    (moved,) = shown.moved
    assert [f"{at:%d}" for at in (*moved.gone, *moved.new)] == ["07", "08"]
    assert book.calendars.get("holidays").version == 1, "nothing was saved"
    book.calendars.save("holidays", dates="2026-01-07")
    assert book.schedules.get("etl").version == 2
    live(book.store, clock, clock.now + 5 * DAY)
    assert [text[:5] for text in fired(book.store, etl)] == ["01-06", "01-08", "01-09", "01-10"]
    assert recorded(book.store, etl) == [("01-07 09:00", 1, "calendar")]


FAR = "2049-12-24"


@pytest.mark.parametrize("roll", ["skip", "next", "previous"])
def test_an_edit_shows_what_moves_however_far_ahead_that_is(book: Book, roll: str) -> None:
    """Even for a schedule that is due often: only days near the changed ones are compared."""
    book.calendars.save("closed", dates="2026-01-08")
    calendar = {"except": "closed", "roll": roll}
    for name, trigger in (("daily", NINE), ("often", {"cron": "*/5 * * * *"})):
        book.schedules.create(name, trigger=trigger, target=TARGET, calendar=calendar)
    book.schedules.create("other", trigger=NINE, target=TARGET)
    shown = book.calendars.preview("closed", dates=["2026-01-08", FAR])
    assert (shown.added, shown.schedules, shown.compared) == ((FAR,), 2, 2)
    assert shown.until.year == 2099
    daily, often = shown.moved
    assert [f"{at:%Y-%m-%d %H:%M}" for at in daily.gone] == [f"{FAR} 09:00"]
    assert {f"{at:%Y-%m-%d}" for at in often.gone} == {FAR}
    assert (len(often.gone), *daily.new, *often.new) == (288,), "what rolls meets others"


@pytest.mark.parametrize(
    ("roll", "to"), [("next", "Mon 2026-01-12"), ("previous", "Fri 2026-01-09")]
)
def test_a_due_time_to_come_on_a_closed_day_says_where_it_rolls(
    book: Book, roll: str, to: str
) -> None:
    book.calendars.save("weekends", **WEEKEND)
    calendar = {"except": "weekends", "roll": roll}
    book.schedules.create("etl", trigger=NINE, target=TARGET, calendar=calendar)
    told = str(book.schedules.explain("etl", "2026-01-10T09:00:00Z"))
    closes = "skipped: calendar weekends closes 10 January"
    assert told == f"{closes}; it rolls to {to} 09:00 (UTC)"


def test_a_rolled_due_time_of_an_edit_is_new_where_it_lands(book: Book) -> None:
    book.calendars.save("closed", dates="2030-05-06")
    weekly = {"weekly": "MON 09:00"}
    calendar = {"except": "closed", "roll": "next"}
    book.schedules.create("weekly", trigger=weekly, target=TARGET, calendar=calendar)
    shown = book.calendars.preview("closed", dates=["2030-05-06/2030-05-08", "2031-05-05"])
    (moved,) = shown.moved
    assert [f"{at:%Y-%m-%d}" for at in moved.gone] == ["2030-05-07", "2031-05-05"]
    assert [f"{at:%Y-%m-%d}" for at in moved.new] == ["2030-05-09", "2031-05-06"]


def test_an_edit_says_how_far_and_of_which_schedules_it_compared(
    book: Book, monkeypatch: pytest.MonkeyPatch
) -> None:
    book.calendars.save("closed", dates="2026-01-08")
    form = {"trigger": {"cron": "* * * * *"}, "target": TARGET, "calendar": {"except": "closed"}}
    book.schedules.create_many([{"name": f"s{number}", **form} for number in range(3)])
    monkeypatch.setattr("duebook.book.calendars.MOST_PREVIEWED", 2)
    shown = book.calendars.preview("closed", weekdays="SUN")
    assert (shown.schedules, shown.compared, len(shown.moved)) == (3, 2, 2)
    assert (shown.until.year, len(shown.moved[0].new)) == (2026, 1_440)
    spent = Book(book.store, budget=Budget(0, iter(range(1_000)).__next__)).calendars
    shown = spent.preview("closed", weekdays="SUN")
    assert (shown.schedules, shown.compared, shown.moved) == (3, 0, ())


def test_schedules_follow_their_calendar_in_parts(
    book: Book, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("duebook.book.calendar_changes.AT_ONCE", 2)
    written: list[int] = []
    update = Schedules.update_schedules

    def count(self: Schedules, edits: Sequence[Any], by: str) -> None:
        written.append(len(edits))
        update(self, edits, by)

    monkeypatch.setattr(Schedules, "update_schedules", count)
    book.calendars.save("weekends", **WEEKEND)
    form = {"trigger": NINE, "target": TARGET, "calendar": {"except": "weekends"}}
    book.schedules.create_many([{"name": f"s{number}", **form} for number in range(5)])
    book.calendars.save("weekends", weekdays="SUN")
    assert written == [2, 2, 1]
    found = book.schedules.list()
    assert {(one.version, one.spec and one.spec.calendar.version) for one in found} == {(2, 2)}  # type: ignore[union-attr]


def test_how_schedules_follow_is_planned_before_they_are_locked_and_again_if_they_changed(
    book: Book, clock: VirtualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    book.calendars.save("weekends", **WEEKEND)
    calendar = {"except": "weekends", "roll": "next"}
    for name, trigger in (("a", NINE), ("b", NINE), ("c", {"daily": "23:00"})):
        book.schedules.create(name, trigger=trigger, target=TARGET, calendar=calendar)
    planned: list[str] = []
    lock = Plans.lock

    def plan(snapshot: Snapshot, *given: Any) -> Plan:
        planned.append(snapshot.name)
        return plan_edit(snapshot, *given)

    def forget(self: Plans, ids: Sequence[str]) -> None:
        planned.clear()
        lock(self, ids)

    monkeypatch.setattr(calendar_changes, "plan_edit", plan)
    monkeypatch.setattr(Plans, "lock", forget)
    book.calendars.save("weekends", weekdays="SUN")
    assert planned == [], "while they are locked"
    assert [one.version for one in book.schedules.list()] == [2, 2, 2]

    def prepare_and_change(*given: Any) -> Any:
        prepared = prepare(*given)
        book.schedules.pause("b")
        clock.now += 22 * HOUR  # 10:00 on the next day
        return prepared

    monkeypatch.setattr("duebook.book.calendars.prepare", prepare_and_change)
    book.calendars.save("weekends", weekdays="SAT")
    assert sorted(planned) == ["a", "b", "c"], "a is due, b is paused, and c was due at 23:00"
    assert [one.version for one in book.schedules.list()] == [3, 3, 3]
    assert book.schedules.get("b").status == "paused"
    live(book.store, clock, clock.now + 3 * DAY)
    assert_balanced(book.store)


def test_a_window_pauses_what_its_labels_select_and_ends_without_a_storm(
    book: Book, clock: VirtualClock
) -> None:
    hourly = cron("0 * * * *")
    labels = {"team": "x", "tier": "1"}
    mine = book.schedules.create(
        "mine", trigger=hourly, target=TARGET, catchup="all", labels=labels
    ).id
    other = book.schedules.create("other", trigger=hourly, target=TARGET, labels={"team": "y"}).id
    start = clock.now
    book.windows.add("db upgrade", start + 1.5 * HOUR, start + 4.5 * HOUR, {"team": "x"})
    due_times = [f"{due:%H:%M}" for due in book.schedules.preview("mine", 3)]
    assert due_times == ["13:00", "17:00", "18:00"]
    live(book.store, clock, start + 6 * HOUR, HOUR / 6)
    assert [text[6:] for text in fired(book.store, mine)] == ["13:00", "17:00", "18:00"]
    assert len(fired(book.store, other)) == 6
    assert recorded(book.store, mine) == [("01-05 14:00", 3, "paused")]
    told = str(book.schedules.explain("mine", "2026-01-05T15:00:00Z"))
    assert 'it fell into the maintenance window "db upgrade"' in told
    assert_balanced(book.store)


def test_what_waits_when_a_window_begins_runs_when_it_ends(book: Book, clock: VirtualClock) -> None:
    etl = book.schedules.create("etl", trigger=cron("0 * * * *"), target=TARGET, overlap="queue").id
    start = clock.now
    book.windows.add("upgrade", start + 2.5 * HOUR, start + 3.5 * HOUR)
    clock.now = start + HOUR
    tick(book.store)
    (running,) = claim(book.store)
    clock.now = start + 2 * HOUR
    tick(book.store)
    clock.now = start + 2.75 * HOUR
    settle(book.store, running.token)
    assert tick(book.store) == 0
    told = str(book.schedules.explain("etl", "2026-01-05T14:00:00Z"))
    assert told.endswith('waiting until 15:30, the end of maintenance window "upgrade"')
    live(book.store, clock, start + 4 * HOUR, HOUR / 6)
    assert [text[6:] for text in fired(book.store, etl)] == ["13:00", "14:00", "16:00"]
    assert recorded(book.store, etl) == [("01-05 15:00", 1, "paused")]


def test_labels_of_a_window_that_make_no_sense_are_refused(book: Book) -> None:
    for wrong in ("team=x", ["team"], {"team": 5}):
        with pytest.raises(Invalid, match=r"labels .* is not an object of up to 100 short strings"):
            book.windows.add("upgrade", "2030-01-01T00:00Z", "2030-01-02T00:00Z", wrong)  # type: ignore[arg-type]


def test_a_window_that_ends_early_pauses_nothing_more(book: Book, clock: VirtualClock) -> None:
    etl = book.schedules.create("etl", trigger=cron("0 * * * *"), target=TARGET).id
    start = clock.now
    book.windows.add("upgrade", start + 0.5 * HOUR, start + 9 * HOUR)
    with pytest.raises(Conflict, match="already exists"):
        book.windows.add("upgrade", start + 0.5 * HOUR, start + 9 * HOUR)
    assert "window" not in [note.code for note in look(book.store).notes]
    live(book.store, clock, start + 1.5 * HOUR, HOUR / 6)
    told = [note.message for note in look(book.store).notes if note.code == "window"]
    ends = format_instant(start + 9 * HOUR)
    assert len(told) == 1
    assert told[0].startswith(f'maintenance window "upgrade" pauses all schedules until {ends}; ')
    book.windows.remove("upgrade")
    live(book.store, clock, start + 2.5 * HOUR, HOUR / 6)
    assert recorded(book.store, etl) == [("01-05 13:00", 1, "paused")]
    assert [text[6:] for text in fired(book.store, etl)] == ["14:00"]
    with pytest.raises(Conflict, match="is over"):
        book.windows.remove("upgrade")
    book.windows.add("later", start + 30 * HOUR, start + 31 * HOUR)
    book.windows.remove("later")
    assert [window.name for window in book.windows.list()] == ["upgrade"]
    for since, until, why in (
        (2, 1, "ends before it starts"),
        (0, 367 * 24, "is longer than 366 days"),
        (-2, -1, "is over"),
    ):
        with pytest.raises(Invalid, match=why):
            book.windows.add("wrong", start + since * HOUR, start + until * HOUR)


@pytest.mark.parametrize("how", ["created", "declared"])
def test_schedules_that_were_looked_at_before_a_calendar_changed_do_not_have_its_old_days(
    book: Book, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    """Many are computed before the transaction that stores them."""
    book.calendars.save("weekends", **WEEKEND)
    form = {"trigger": NINE, "target": TARGET, "calendar": {"except": "weekends"}}
    place = "duebook.book.bulk" if how == "created" else "duebook.book.declaring"
    late = [lambda: book.calendars.save("weekends", weekdays="SUN")]

    def resolve_and_change(spec: Any, known: Any) -> Any:
        while late:
            late.pop()()
        return resolved(spec, known)

    monkeypatch.setattr(f"{place}.resolved", resolve_and_change)
    if how == "created":
        with pytest.raises(Conflict, match="a calendar has been changed in the meantime"):
            book.schedules.create_many([{"name": "job", **form}])
        book.schedules.create_many([{"name": "job", **form}])
    else:
        assert book.schedules.declare([{"name": "job", **form}], "team").applied
    (use,) = {one.spec.calendar for one in book.schedules.list() if one.spec}
    assert use is not None
    assert use.version == 2


def test_a_plan_reads_the_windows_of_its_own_namespaces_only(
    book: Book, clock: VirtualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[str] = []

    def record(name: str, *times: datetime) -> WindowSpan:
        read.append(name)
        return WindowSpan(name, *times)

    monkeypatch.setattr("duebook.store.sql.snapshots.WindowSpan", record)
    start = clock.now
    for each in (book, Book(book.store, "other")):
        each.windows.add(f"upgrade {each.namespace}", start + 5 * HOUR, start + 6 * HOUR)
    book.schedules.create("etl", trigger=cron("0 * * * *"), target=TARGET)
    clock.now += HOUR
    tick(book.store)
    assert set(read) == {"upgrade default"}


def test_a_namespace_has_so_many_calendars_windows_and_feeds(
    book: Book, clock: VirtualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    for place in ("calendar_changes.MOST_CALENDARS", "windows.MOST", "feeds.MOST_FEEDS"):
        monkeypatch.setattr(f"duebook.book.{place}", 1)
    book.calendars.save("weekends", **WEEKEND)
    book.calendars.save("weekends", weekdays="SUN")
    with pytest.raises(Invalid, match='namespace "default" would have 2, and may have at'):
        book.calendars.save("holidays", **WEEKEND)
    book.windows.add("one", clock.now, clock.now + HOUR)
    with pytest.raises(Invalid, match='namespace "default" already has 1 maintenance windows'):
        book.windows.add("two", clock.now, clock.now + HOUR)
    clock.now += 91 * DAY
    book.windows.add("two", clock.now, clock.now + HOUR)
    book.feeds.create("one")
    with pytest.raises(Invalid, match='namespace "default" already has 1 feeds'):
        book.feeds.create("two")
