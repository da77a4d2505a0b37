"""Calendars that are declared together: what is refused, and what changes."""

from __future__ import annotations

from typing import Any

import pytest

from duebook.book.calendar_changes import change_calendars
from duebook.book.declared_calendars import read_calendars, tell_calendar
from duebook.errors import Invalid
from duebook.model.schedule import InvalidSchedule
from tests.support.builders import BEGIN

SUNDAYS = {"name": "a", "weekdays": "SUN"}


def changes(*forms: dict[str, Any], known: Any = None) -> Any:
    return change_calendars("default", known or {}, read_calendars(forms), BEGIN, "me")


def test_every_wrong_calendar_is_named() -> None:
    with pytest.raises(InvalidSchedule) as refused:
        read_calendars([SUNDAYS, {"name": "b"}, {"weekdays": "SUN"}, SUNDAYS, 7])  # type: ignore[list-item]
    assert list(refused.value.problems) == [f"calendars[{n}]" for n in (1, 2, 3, 4)]
    assert "declared twice" in refused.value.problems["calendars[3]"]
    with pytest.raises(Invalid, match="is not a list"):
        read_calendars({"a": SUNDAYS})  # type: ignore[dict-item]


@pytest.mark.parametrize(
    ("forms", "told"),
    [
        ([{"name": "a", "calendars": ["b"]}], 'calendar "a": .*"b" does not exist'),
        ([{"name": "a", "calendars": ["a"]}], 'calendar "a" cannot refer to itself'),
        (
            [{"name": "a", "calendars": ["b"]}, {"name": "b", "without": {"calendars": ["a"]},
              "weekdays": "SUN"}],
            "refer to each other",
        ),
    ],
)  # fmt: skip
def test_what_refers_to_nothing_or_to_itself_is_refused(
    forms: list[dict[str, Any]], told: str
) -> None:
    with pytest.raises(Invalid, match=told):
        changes(*forms)


def test_a_namespace_has_not_too_many_calendars(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("duebook.book.calendar_changes.MOST_CALENDARS", 1)
    known = {"a": changes(SUNDAYS)["a"].calendar}
    assert changes(SUNDAYS | {"weekdays": "MON"}, known=known)
    with pytest.raises(Invalid, match='namespace "default" would have 2, and may have at most 1'):
        changes(SUNDAYS | {"name": "b"}, known=known)


def test_a_change_lists_the_days_and_not_the_text_of_files() -> None:
    ical = "BEGIN:VCALENDAR\nBEGIN:VEVENT\nDTSTART:20271225\nEND:VEVENT\nEND:VCALENDAR\n"
    known = {"a": changes(SUNDAYS)["a"].calendar}
    change = changes({"name": "a", "weekdays": "SUN", "ical": ical}, known=known)["a"]
    told = tell_calendar(change, BEGIN)
    assert (told.action, told.version, told.added) == ("change", 1, ("2027-12-25",))
    assert told.fields[0].after == f"an iCal file of {len(ical)} characters"
    assert changes(SUNDAYS, known=known) == {}
