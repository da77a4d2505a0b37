"""The title of a schedule: one line of free text, that can do no harm where it is shown."""

from __future__ import annotations

import pytest

from duebook.model.definition import load_spec
from duebook.model.schedule import InvalidSchedule, ScheduleSpec

DAILY = {"trigger": {"daily": ["07:00"]}, "target": "clean"}


def load(title: object) -> ScheduleSpec:
    return load_spec(DAILY | {"title": title}, "clean")


@pytest.mark.parametrize("title", ["Daily Cleanup", "<b>&</b>", "Ménage du soir ✨", "x" * 200])
def test_a_title_is_kept_as_it_is(title: str) -> None:
    assert load(title).title == title
    assert load_spec(load(title).to_json(), "clean").title == title


def test_blanks_around_a_title_are_dropped() -> None:
    assert load("  Daily Cleanup ").title == "Daily Cleanup"
    assert "title" not in load("   ").to_json()


@pytest.mark.parametrize(
    "title", ["x" * 201, 7, "two\nlines", "\x1b[31mred", "a\u2028b", "gpj.\u202eexe", "nul\0"]
)
def test_what_is_no_title_is_refused(title: object) -> None:
    with pytest.raises(InvalidSchedule) as caught:
        load(title)
    assert list(caught.value.problems) == ["title"]
