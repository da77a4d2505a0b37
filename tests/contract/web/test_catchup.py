"""Missed due times that wait for an operator, on the dashboard."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from tests.support.held import hold

if TYPE_CHECKING:
    from datetime import datetime

    from duebook.book import Book
    from tests.support.pages import Browser

HOUR = timedelta(hours=1)


@pytest.fixture
def first(book: Book) -> datetime:
    """The first of nine hourly due times that are held."""
    hourly = {"every": "1h", "anchor": "2020-01-01T00:00:00Z"}
    book.schedules.create("job", trigger=hourly, target={"command": ["true"]})
    first = book.insights.now().replace(minute=0, second=0, microsecond=0) - 9 * HOUR
    hold(book, "job", first, HOUR, 9)
    return first


@pytest.mark.usefixtures("first")
def test_the_overview_shows_what_waits(viewer: Browser, operator: Browser, book: Book) -> None:
    page = viewer.ok("/")
    assert "Missed due times wait for approval" in page.text
    assert "9 missed due times" in page.text
    assert "/schedules/job/catchup" not in page.links
    assert "/schedules/job/catchup" in operator.ok("/").links
    assert "/schedules/job/catchup" in operator.ok("/schedules/job").links
    book.catchup.reject("job")
    assert "approval" not in operator.ok("/").text


@pytest.mark.usefixtures("first")
def test_a_choice_is_counted_before_it_is_made(operator: Browser, book: Book) -> None:
    chosen = {"decide": "approve", "newest": "2", "rest": "reject"}
    asked = operator.ok("/schedules/job/catchup", **chosen)
    assert "2 due times to run" in asked.text
    assert "7 others are rejected" in asked.text
    assert book.runs.list() == []
    done = operator.send(asked, "/schedules/job/catchup")
    assert "2 runs queued; 7 due times rejected." in done.text
    assert [run.origin for run in book.runs.list()] == ["catchup", "catchup"]
    assert book.catchup.list() == []
    undone = operator.send(done, "/schedules/job/undo-backfill")
    assert "2 runs cancelled." in undone.text


def test_a_part_can_be_rejected(operator: Browser, book: Book, first: datetime) -> None:
    span = {"from": f"{first:%Y-%m-%dT%H:%M}", "to": f"{first + 2 * HOUR:%Y-%m-%dT%H:%M}"}
    asked = operator.ok("/schedules/job/catchup", decide="reject", **span)
    assert "3 due times to reject" in asked.text
    assert "6 stay held" in asked.text
    done = operator.send(asked, "/schedules/job/catchup")
    assert "3 due times rejected." in done.text
    assert [one.count for one in book.catchup.list()] == [6]


@pytest.mark.usefixtures("first")
@pytest.mark.parametrize(
    ("given", "status", "told"),
    [
        ({"decide": "both"}, 422, "Choose approve or reject"),
        ({"decide": "approve", "newest": "many"}, 422, "Newest is not a whole number"),
        ({"decide": "approve", "newest": "0"}, 422, "not a whole number from 1"),
        ({"decide": "approve", "newest": "1", "to": "2026-01-01T00:00"}, 422, "either newest"),
        ({"decide": "reject", "newest": "1"}, 422, "Only an approval"),
        ({"decide": "reject", "from": "soon"}, 422, "soon"),
        ({"decide": "reject", "to": "2020-01-01T00:00"}, 409, "no held due times in that period"),
    ],
)
def test_an_impossible_choice_is_refused(
    operator: Browser, given: dict[str, str], status: int, told: str
) -> None:
    page = operator.get("/schedules/job/catchup", **given)
    assert page.status == status
    assert told in page.text


def test_a_choice_that_somebody_else_made_is_not_made_again(
    operator: Browser, book: Book, first: datetime
) -> None:
    asked = operator.ok("/schedules/job/catchup", decide="approve")
    book.catchup.reject("job", end=first)
    book.catchup.reject("job")
    late = operator.send(asked, "/schedules/job/catchup")
    assert late.status == 409
    assert "has no held due times" in late.text
    assert "No due times of this schedule are held." in late.text
