"""Forms that are sent twice, by a double click or a reload: they are done once, and say so."""

from __future__ import annotations

import threading
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.builders import begin, claim, settle
from tests.support.flow_builders import CHAIN, put_flow
from tests.support.pages import Browser

if TYPE_CHECKING:
    from collections.abc import Callable

    from duebook.api.app import App
    from duebook.book import Book
    from duebook.store.base import Tx
    from tests.support.pages import Page

pytestmark = pytest.mark.both_databases

TOLD = "was submitted twice, and was processed once"


@pytest.fixture(autouse=True)
def job(book: Book) -> None:
    book.schedules.create("job", trigger={"cron": "30 2 * * *"}, target={"command": ["true"]})


def send_twice(browser: Browser, page: Page, action: str, **fields: str) -> tuple[Page, Page]:
    """Send it twice; the second response redirects to the same page as the first."""
    first, second = (browser.send(page, action, **fields) for _ in range(2))
    assert (first.status, second.status) == (200, 200)
    assert TOLD not in first.text
    assert TOLD in second.text
    return first, second


def test_run_now_queues_one_run(operator: Browser, book: Book) -> None:
    action = "/schedules/job/run"
    asked = operator.ok(action)
    for page in send_twice(operator, asked, action):
        assert "Run queued" in page.text
        assert f"/runs/{book.runs.list()[0].id}" in page.links
    assert len(book.runs.list()) == 1


def test_what_was_filled_in_anew_is_another_form(operator: Browser, book: Book) -> None:
    asked = operator.ok("/schedules/job/run")
    for payload in ('{"a": 1}', '{"a": 2}'):
        done = operator.send(asked, "/schedules/job/run", payload=payload)
        assert TOLD not in done.text
    assert [run.payload for run in book.runs.list()] == [{"a": 2}, {"a": 1}]


def test_a_page_that_was_opened_anew_is_another_form(operator: Browser, book: Book) -> None:
    for _ in range(2):
        operator.send(operator.ok("/schedules/job/run"), "/schedules/job/run")
    assert len(book.runs.list()) == 2


def test_a_form_that_was_refused_may_be_sent_again(operator: Browser, book: Book) -> None:
    asked = operator.ok("/schedules/job/run")
    book.schedules.delete("job")
    assert operator.send(asked, "/schedules/job/run").status == 404
    book.schedules.create("job", trigger={"cron": "30 2 * * *"}, target={"command": ["true"]})
    assert TOLD not in operator.send(asked, "/schedules/job/run").text
    assert len(book.runs.list()) == 1


def test_a_flow_is_started_once(operator: Browser, book: Book) -> None:
    put_flow(book.store, CHAIN)
    send_twice(operator, operator.ok("/flows/chain/start"), "/flows/chain/start")
    assert len(book.flows.runs("chain")) == 1


def test_a_run_is_opened_again_once(operator: Browser, book: Book) -> None:
    begin(book.store)
    run = book.schedules.trigger("job")
    (claimed,) = claim(book.store)
    settle(book.store, claimed.token, "failed", error="boom")
    action = f"/runs/{run.id}/retry"
    send_twice(operator, operator.ok(action), action)
    assert book.runs.get(run.id).status == "queued"


def test_a_backfill_can_still_be_undone(operator: Browser, book: Book) -> None:
    first, last = (datetime.now(UTC).date() - timedelta(days=days) for days in (4, 2))
    span = {"from": f"{first}T00:00", "to": f"{last}T00:00"}
    asked = operator.ok("/schedules/job/backfill", **span)
    _, second = send_twice(operator, asked, "/schedules/job/backfill")
    assert "2 runs queued" in second.text
    assert len(book.runs.list()) == 2
    operator.send(second, "/schedules/job/undo-backfill")
    assert {run.status for run in book.runs.list()} == {"cancelled"}


def test_a_schedule_is_made_once(admin: Browser, book: Book) -> None:
    given = {"name": "new", "trigger": "@daily", "target": '{"command": ["true"]}'}
    shown = admin.send(admin.ok("/new"), "/new", step="preview", **given)
    _, second = send_twice(admin, shown, "/new", step="save")
    assert "Created" in second.text
    assert book.schedules.get("new").version == 1


def test_a_calendar_is_saved_once(operator: Browser, book: Book) -> None:
    action = "/calendars/days/edit"
    book.calendars.save("days", weekdays="SUN")
    shown = operator.send(operator.ok(action), action, weekdays="SAT", step="preview")
    _, second = send_twice(operator, shown, action, step="save")
    assert "Saved as version 2." in second.text
    assert book.calendars.get("days").version == 2


def test_a_window_is_planned_once(operator: Browser, book: Book) -> None:
    given = {"name": "w", "from": "2098-01-01T00:00", "to": "2098-01-02T00:00", "step": "save"}
    send_twice(operator, operator.ok("/windows/new"), "/windows", **given)
    assert len(book.windows.list()) == 1


def test_one_due_time_is_skipped(operator: Browser, book: Book) -> None:
    action = "/schedules/job/skip-next"
    send_twice(operator, operator.ok(action), action)
    assert len(book.schedules.exceptions("job")) == 1


def test_many_are_paused_with_an_undo(operator: Browser, book: Book) -> None:
    asked = operator.ok("/bulk?action=pause&all=1")
    _, second = send_twice(operator, asked, "/bulk")
    assert "1 schedule paused" in second.text
    operator.send(second, "/bulk")
    assert book.schedules.get("job").status == "active"


def test_more_than_one_transaction_takes_are_paused_by_either(
    operator: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("duebook.web.routes.bulk.MOST", 1)
    asked = operator.ok("/bulk?action=pause&all=1")
    assert "1 schedule paused" in operator.send(asked, "/bulk").text
    assert "0 schedules paused" in operator.send(asked, "/bulk").text


def test_ten_at_once_queue_one_run(app: App, operator: Browser, book: Book) -> None:
    asked = operator.ok("/schedules/job/run")
    told: list[bool] = []

    def send() -> None:
        told.append(TOLD in Browser(app, "operator").send(asked, "/schedules/job/run").text)

    threads = [threading.Thread(target=send) for _ in range(10)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(told) == [False] + [True] * 9
    assert len(book.runs.list()) == 1


def test_whether_somebody_may_is_asked_outside_the_transaction_of_a_form(
    operator: Browser, book: Book, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Inside it, the form would wait for a second connection while it holds the first."""
    put_flow(book.store, CHAIN)
    store, inside = book.store, list[bool]()
    transact, read = store.transact, store.read

    def guarded(work: Callable[[Tx], Any]) -> Any:
        def within(tx: Tx) -> Any:
            inside.append(True)
            try:
                return work(tx)
            finally:
                inside.pop()

        return transact(within)

    def looked(work: Callable[[Tx], Any], patient: bool = False) -> Any:
        assert not inside, "a second connection"
        return read(work, patient)

    monkeypatch.setattr(store, "transact", guarded)
    monkeypatch.setattr(store, "read", looked)
    edit, delete = "/schedules/job/edit", "/schedules/job/delete"
    named = {"target": '{"flow": "chain"}', "step": "save"}
    assert operator.send(operator.ok(edit), edit, **named).status == 200
    gone = operator.send(operator.ok(delete), delete)
    assert [form for form in gone.forms if form.get("action", "").endswith("/again")]
