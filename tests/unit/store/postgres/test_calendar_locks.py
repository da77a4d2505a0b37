"""A calendar that is changed while a schedule begins to use it: the schedule follows."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from duebook.book import Book
from duebook.book.bulk import Wanted
from duebook.model.definition import load_spec
from tests.support.builders import VirtualClock
from tests.support.postgres_stores import LOCK_WAITS, opened, query, without_waiting
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from duebook.store.base import Tx

DAILY: dict[str, Any] = {
    "trigger": {"daily": "09:00"},
    "target": "work",
    "calendar": {"except": "weekends"},
}
VERSIONS = "SELECT r.version, r.spec::json->'calendar'->'resolved'->>'version' FROM"
STORED = f"{VERSIONS} duebook.schedule_revisions AS r ORDER BY r.version"


def test_a_change_waits_for_a_schedule_that_is_being_created_and_takes_it_along(
    postgres_url: str,
) -> None:
    with opened(postgres_url, VirtualClock()) as store:
        book = Book(store)
        book.calendars.save("weekends", weekdays="SAT,SUN")
        change = threading.Thread(
            target=lambda: book.calendars.save("weekends", weekdays="SUN"), daemon=True
        )

        def create(tx: Tx) -> None:
            book.schedules._create(tx, Wanted("job", load_spec(DAILY, "job")), "")
            change.start()
            eventually(lambda: query(postgres_url, LOCK_WAITS))

        store.transact(create)
        change.join()
        assert query(postgres_url, STORED) == [(1, "1"), (2, "2")]


def test_a_schedule_waits_for_a_change_of_its_calendar_and_has_the_new_days(
    postgres_url: str,
) -> None:
    with opened(postgres_url, VirtualClock()) as store:
        book = Book(store)
        book.calendars.save("weekends", weekdays="SAT,SUN")
        creation = threading.Thread(
            target=lambda: book.schedules.create("job", **DAILY), daemon=True
        )

        def change(tx: Tx) -> None:
            tx.calendars.lock("default")
            creation.start()
            eventually(lambda: query(postgres_url, LOCK_WAITS))
            days = tx.calendars.find_calendars("default", ["weekends"])["weekends"].days
            tx.calendars.save_calendar("default", "weekends", 2, {"weekdays": "SUN"}, days, "")

        store.transact(change)
        creation.join()
        assert query(postgres_url, STORED) == [(1, "2")]


def test_a_change_waits_for_an_edit_of_a_schedule_that_uses_the_calendar(
    postgres_url: str,
) -> None:
    """Both lock the state of the schedule before the calendars."""
    with opened(postgres_url, VirtualClock()) as store:
        book = Book(store)
        book.calendars.save("weekends", weekdays="SAT,SUN")
        id_ = book.schedules.create("job", **DAILY).id
        change = threading.Thread(
            target=lambda: book.calendars.save("weekends", weekdays="SUN"), daemon=True
        )

        def edit(tx: Tx) -> None:
            tx.plans.snapshot(id_)
            change.start()
            eventually(lambda: query(postgres_url, LOCK_WAITS))
            free = "SELECT version FROM calendars FOR KEY SHARE"
            assert query(without_waiting(postgres_url), free) == [(1,)]
            book.schedules._edit(
                tx, tx.schedules.get_schedule(id_), load_spec(DAILY | {"title": "new"}, "job"), ""
            )

        store.transact(edit)
        change.join()
        assert query(postgres_url, STORED) == [(1, "1"), (2, "1"), (3, "2")]
