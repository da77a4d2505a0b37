"""The computing time of read requests is bounded, whatever they ask for."""

from __future__ import annotations

import threading
from datetime import date, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from duebook.api.asking import Services
from duebook.api.computing import Computing
from duebook.book import Book
from duebook.targets.task import Tasks
from tests.support.api import Api, shared_app
from tests.support.waiting import PATIENCE, takes_less_than

if TYPE_CHECKING:
    from duebook.api.app import App
    from duebook.store.base import Store

FIRST = date(2020, 1, 1)
EVERY_OTHER_DAY = [str(FIRST + timedelta(days=2 * n)) for n in range(1000)]


@pytest.fixture
def app(store: Store) -> App:
    return shared_app.on(store)


def limit(app: App, store: Store, **limits: float) -> Computing:
    computing = Computing(**limits)
    app.state.services = Services(store, Tasks(), computing)
    return computing


@pytest.mark.parametrize(
    "path", ["preview?count=10000", "explain?start=2027-01-01T00:00:00Z&end=2028-01-01T00:00:00Z"]
)
def test_a_question_that_computes_for_too_long_is_refused(
    app: App, store: Store, path: str
) -> None:
    Book(store).schedules.create("job", trigger={"cron": "* * * * * *"}, target="job")
    limit(app, store, seconds=0.0)
    problem = Api(app, "viewer").refused(422, "GET", f"schedules/job/{path}")
    assert problem["code"] == "over_budget"
    assert "request fewer due times, or a shorter range" in problem["detail"]


def test_a_token_that_computes_already_is_told_to_come_back(app: App, store: Store) -> None:
    Book(store).schedules.create("job", trigger={"cron": "* * * * *"}, target="job")
    computing = limit(app, store, wait=0.0)
    with computing.turn("viewer"):
        answer = Api(app, "viewer")("GET", "schedules/job/preview")
        assert answer.status_code == 429
        assert answer.headers["retry-after"] == "1"
        assert answer.json()["code"] == "busy"
        Api(app, "viewer@default").ok("GET", "schedules/job/preview")
    Api(app, "viewer").ok("GET", "schedules/job/preview")


def test_declarations_take_turns_too(app: App, store: Store) -> None:
    computing = limit(app, store, wait=0.0)
    with computing.turn("operator"):
        Api(app, "operator").refused(429, "PUT", "declarations/billing", {"schedules": []})
    Api(app, "operator").ok("PUT", "declarations/billing", {"schedules": []})


def test_sixty_long_previews_at_once_leave_threads_for_others(app: App, store: Store) -> None:
    Book(store).schedules.create("job", trigger={"cron": "* * * * * *"}, target="job")
    computing = limit(app, store, wait=PATIENCE)
    statuses: list[int] = []

    def ask() -> None:
        answer = Api(app, "viewer")("GET", "schedules/job/preview?count=100")
        statuses.append(answer.status_code)

    threads = [threading.Thread(target=ask) for _ in range(30)]
    with computing.turn("viewer"):
        for thread in threads:
            thread.start()
        assert Api(app, "viewer").ok("GET", "schedules/job")["name"] == "job"
    for thread in threads:
        thread.join()
    assert set(statuses) <= {200, 429}
    assert 200 in statuses


def explained(book: Book) -> Any:
    return book.schedules.explain("job", start="2027-01-01T00:00:00Z", end="2028-01-01T00:00:00Z")


def test_a_thousand_excluded_ranges_cost_an_explanation_little(store: Store) -> None:
    book = Book(store)
    times: dict[str, Any] = {"trigger": {"cron": "*/5 * * * *"}, "target": "job"}
    book.schedules.create("job", exclude=EVERY_OTHER_DAY, **times)
    assert len(explained(book)) == 1000
    assert takes_less_than(1.0, lambda: explained(book))


def test_a_feed_is_read_one_request_at_a_time(app: App, store: Store, api: Api) -> None:
    feed, token = Book(store).feeds.create("team")
    computing, path = limit(app, store, wait=0.0), "/api/v1/schedules.ics"
    with computing.turn(feed.id):
        assert api.client.get(path, params={"token": token}).status_code == 429
    assert api.client.get(path, params={"token": token}).status_code == 200
