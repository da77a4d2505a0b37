"""Events, their consumers and the dead letters."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from duebook.delivery.courier import Courier
from tests.support.event_builders import Box, join, stamp

if TYPE_CHECKING:
    from duebook.book import Book
    from tests.support.pages import Browser


@pytest.fixture
def undelivered(book: Book) -> list[str]:
    """The dead letters."""
    box = Box()
    box.refuses = {"bad", "worse"}
    courier = Courier(book.store, join(book.store, partitions=1, attempts=1), box)
    courier.share()
    ids = [
        book.events.publish("orders", {"note": f"<b>{key}", "password": "hunter2"}, key=key)
        for key in ("good", "bad", "worse")
    ]
    stamp(book.store)
    while courier.step() == 0:
        pass
    courier.close()
    return ids[1:]


@pytest.mark.usefixtures("undelivered")
def test_who_reads_the_log_and_how_far(viewer: Browser, book: Book) -> None:
    join(book.store, "hooks", topics=["parts"])
    for number in range(60):
        book.events.publish("parts", {"number": number})
    stamp(book.store)
    page = viewer.ok("/events")
    assert "billing" in page.text
    assert "hooks" in page.text
    assert "no such thing" in page.text
    assert not any("/replay" in link or "/drop" in link for link in page.links)
    assert "&lt;b&gt;" in viewer.ok("/events", topic="orders").source
    (older,) = [link for link in page.links if "cursor=" in link]
    older_page = viewer.ok(older)
    assert '"number": 9}' in older_page.text
    assert '"number": 10}' not in older_page.text
    assert viewer.get("/events", topic="a b").status == 400
    (link,) = [link for link in older_page.links if link.startswith("/events/")][-1:]
    assert "Source" in viewer.ok(link).text
    event = book.events.list("orders")[0]
    assert "hunter2" not in viewer.ok(f"/events/{event.id}").source
    assert "hunter2" not in viewer.ok("/events", topic="orders").source
    assert "Partitions" in viewer.ok("/readers/billing").text


def test_what_a_sink_asks_for_is_shown(viewer: Browser, book: Book) -> None:
    join(book.store, "failures", types="run.failed", labels={"team": "<b>data"})
    assert "run.failed, team=<b>data" in viewer.ok("/events").text
    page = viewer.ok("/readers/failures")
    assert "run.failed" in page.text
    assert "team=<b>data" in page.text
    assert "<b>data" not in page.source


def test_what_was_not_taken_is_delivered_once_more_or_given_up(
    operator: Browser, book: Book, undelivered: list[str]
) -> None:
    bad, worse = undelivered
    page = operator.ok("/readers/billing")
    (replay,) = [link for link in page.links if "replay-dead" in link and bad in link]
    asked = operator.ok(replay)
    assert "Deliver 1 event again?" in asked.text
    done = operator.send(asked, "/readers/billing/replay-dead")
    assert "will be delivered again" in done.text
    assert {le.event.id: le.again for le in book.events.dead_letters()} == {bad: True, worse: False}
    asked = operator.ok(f"/readers/billing/drop-dead?event={worse}")
    assert "cannot be undone" in asked.text
    operator.send(asked, "/readers/billing/drop-dead")
    assert [letter.event.id for letter in book.events.dead_letters()] == [bad]


@pytest.mark.usefixtures("undelivered")
def test_how_many_were_not_taken_is_not_said_to_be_fewer(
    operator: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = operator.ok("/readers/billing/drop-dead?event=gone")
    assert "no longer has these dead letters" in gone.text
    assert 'class="danger"' not in gone.source
    monkeypatch.setattr("duebook.web.routes.events.LETTERS", 1)
    assert "Deliver 1 event or more again?" in operator.ok("/readers/billing/replay-dead").text


@pytest.mark.usefixtures("undelivered")
def test_a_reader_gets_again_what_it_had(operator: Browser, viewer: Browser, book: Book) -> None:
    asked = operator.ok("/readers/billing/replay")
    wrong = operator.send(asked, "/readers/billing/replay", after="soon")
    assert (wrong.status, "not a whole number" in wrong.text) == (422, True)
    done = operator.send(asked, "/readers/billing/replay", after="0")
    assert "will be delivered again" in done.text
    assert book.events.lags()[0].behind > 0
    assert viewer.get("/readers/billing/replay").status == 403
    assert operator.get("/readers/billing/sing").status == 404
    assert operator.get("/readers/nobody").status == 404
    assert viewer.get("/events/0190b5c4-0000-7000-8000-000000000000").status == 404


def test_an_empty_log_teaches(viewer: Browser) -> None:
    page = viewer.ok("/events")
    assert "duebook events sink add" in page.text
    assert "duebook add tick --every 1m --event" in page.text


def test_dead_letters_of_one_cause_are_delivered_again_together(
    operator: Browser, viewer: Browser, book: Book, undelivered: list[str]
) -> None:
    page = operator.ok("/readers/billing")
    assert "Dead letters by cause" in page.text
    (replay,) = [link for link in page.links if "replay-dead?cause=" in link]
    assert "cause=" not in " ".join(viewer.ok("/readers/billing").links)
    assert replay in operator.ok("/events").links
    asked = operator.ok(replay)
    assert "Deliver 2 events again?" in asked.text
    assert all(f'name="event" value="{id_}"' in asked.source for id_ in undelivered)
    operator.send(asked, "/readers/billing/replay-dead", event=undelivered)
    assert [letter.again for letter in book.events.dead_letters()] == [True, True]
    unknown = operator.ok("/readers/billing/drop-dead?cause=x")
    assert "no longer has these dead letters" in unknown.text
