"""The iCal file of a namespace: opened by the token of a feed, and by nothing else."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pytest

    from duebook.book import Book
    from tests.support.api import Api

PATH = "/api/v1/schedules.ics"


def test_a_feed_shows_due_times_and_windows_until_it_is_revoked(api: Api, book: Book) -> None:
    book.schedules.create(
        "report", trigger={"daily": "09:00"}, target="report", title="Reports; daily, all"
    )
    book.schedules.create("busy", trigger={"every": "1m"}, target="busy")
    book.windows.add("db upgrade", "2098-03-01T20:00:00Z", "2098-03-01T23:00:00Z")
    _, token = book.feeds.create("team")
    answer = api.client.get(PATH, params={"token": token})
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "text/calendar; charset=utf-8"
    lines = answer.text.split("\r\n")
    assert (lines[0], lines[-2]) == ("BEGIN:VCALENDAR", "END:VCALENDAR")
    assert max(len(line.encode()) for line in lines) <= 75
    assert lines.count("SUMMARY:Reports\\; daily\\, all") == 60
    assert "SUMMARY:Maintenance: db upgrade" in lines
    assert "SUMMARY:busy" not in lines, "it is due too often to be read"
    assert (
        api.client.get(
            "/api/v1/schedules", headers={"Authorization": f"Bearer {token}"}
        ).status_code
        == 401
    )
    book.feeds.revoke("team")
    assert api.client.get(PATH, params={"token": token}).status_code == 401


def test_a_feed_shows_only_the_schedules_with_its_labels(api: Api, book: Book) -> None:
    nine = {"trigger": {"daily": "09:00"}, "target": "report"}
    book.schedules.create("mine", labels={"team": "x"}, **nine)  # type: ignore[call-overload]
    book.schedules.create("other", **nine)  # type: ignore[call-overload]
    _, token = book.feeds.create("team", {"team": "x"})
    text = api.client.get(PATH, params={"token": token}).text
    assert "SUMMARY:mine" in text
    assert "SUMMARY:other" not in text


def test_no_other_token_opens_a_feed(api: Api) -> None:
    for token in ("", "x", f"dbk_01a1de9053bb7c3e8d5f0123456789ab_{'s' * 43}"):
        assert api.client.get(PATH, params={"token": token}).status_code == 401


def test_a_feed_shows_the_first_due_times_and_says_what_is_missing(
    api: Api, book: Book, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("a", "b", "c"):
        book.schedules.create(name, trigger={"daily": "09:00"}, target="report")
    _, token = book.feeds.create("team")
    monkeypatch.setattr("duebook.book.feeds.MOST_EVENTS", 5)
    monkeypatch.setattr("duebook.book.feeds.MOST_SCHEDULES", 2)
    lines = api.client.get(PATH, params={"token": token}).text.split("\r\n")
    assert [line[8:] for line in lines if line.startswith("SUMMARY:")] == [
        *("a", "b", "a", "b", "a"),
        "More than 5 due times\\; later ones are not shown",
        "More than 2 schedules\\; the others are not shown",
    ]
