"""Which due times of all schedules in a database move with other time zone data."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from duebook.book import Book
from duebook.book.zones import diff_zones
from duebook.triggers.other_zones import open_zones
from tests.support.builders import BEGIN, add_schedule
from tests.support.zone_wheels import write_wheel

if TYPE_CHECKING:
    from pathlib import Path

    from duebook.store.base import Store


def test_schedules_of_all_namespaces_are_compared_where_the_rules_differ(
    store: Store, tmp_path: Path
) -> None:
    book = Book(store)
    add_schedule(store, "daily", trigger={"daily": "09:00", "tz": "Europe/Brussels"})
    add_schedule(store, "held", "shop", trigger={"daily": "09:00", "tz": "Europe/Brussels"})
    add_schedule(store, "paris", trigger={"daily": "09:00", "tz": "Europe/Paris"})
    add_schedule(
        store,
        "days",
        trigger={"every": "2d", "tz": "Europe/Brussels", "anchor": "2025-07-01T06:00Z"},
    )
    add_schedule(store, "utc")
    Book(store, "shop").schedules.pause("held")
    was = book.schedules.get("daily")
    with open_zones(write_wheel(tmp_path, Europe__Brussels="Africa/Algiers")) as other:
        found = diff_zones(store, other, timedelta(days=90))
    assert (found.zones, found.missing, found.looked_at) == (("Europe/Brussels",), (), 5)
    moved = {one.schedule: one for one in found.schedules}
    assert moved.keys() == {"daily", "shop/held", "days"}
    (first, *_) = moved["daily"].first
    assert first.was is not None
    assert (first.was - BEGIN).days == 82, "on the last Sunday of March"
    assert first.becomes == first.was + timedelta(hours=1)
    assert moved["daily"].count == moved["shop/held"].count == 8
    (first, *_) = moved["days"].first
    assert first.was is not None
    assert first.was - BEGIN < timedelta(days=2), "its anchor was in summer"
    assert book.schedules.get("daily") == was
