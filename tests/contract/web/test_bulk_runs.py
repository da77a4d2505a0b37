"""Many runs at once: all that match the filters of a list, with an exact count and an undo."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.support.builders import begin, claim, settle

if TYPE_CHECKING:
    from duebook.book import Book
    from tests.support.pages import Browser, Page

TRUE = {"command": ["true"]}
ASKED = {
    "label": "team:mail",
    "node": "host-of-node-1",
    "queue": "mails",
    "schedule": "mailing",
    "from": "2020-01-01T00:00",
}


@pytest.fixture
def failed(book: Book) -> dict[str, list[str]]:
    """The ids of failed runs by schedule: two of mailing, one of etl, each on its own node."""
    begin(book.store)
    begin(book.store, "node-2")
    ids: dict[str, list[str]] = {}
    for name, team, queue in (("mailing", "mail", "mails"), ("etl", "data", "default")):
        settings: dict[str, Any] = {"labels": {"team": team}, "queue": queue, "target": TRUE}
        book.schedules.create(name, trigger={"cron": "@yearly"}, **settings)
        ids[name] = [book.schedules.trigger(name).id for _ in range(2 if name == "mailing" else 1)]
    for node, queue in (("node-1", "mails"), ("node-2", "default")):
        for _ in range(3):
            for claimed in claim(book.store, node, queue=queue):
                settle(book.store, claimed.token, "failed", error="boom")
    return ids


def states(book: Book, ids: list[str]) -> list[str]:
    return [book.runs.get(run_id).status for run_id in ids]


def asked_from(listed: Page, operator: Browser, action: str) -> Page:
    return operator.ok(next(a for a in listed.links if f"action={action}" in a))


@pytest.mark.parametrize("name", ASKED)
def test_all_failures_that_a_filter_finds_are_retried_and_taken_back(
    operator: Browser, book: Book, failed: dict[str, list[str]], name: str
) -> None:
    listed = operator.ok("/runs", **{name: ASKED[name]})
    asked = asked_from(listed, operator, "retry")
    meant = failed["mailing"] if name != "from" else [*failed["mailing"], *failed["etl"]]
    assert f"Retry {len(meant)} runs?" in asked.text
    done = operator.send(asked, "/bulk-runs", run=meant)
    assert f"{len(meant)} runs queued again." in done.text
    assert states(book, meant) == ["queued"] * len(meant)
    others = failed["etl"] if name != "from" else []
    assert states(book, others) == ["failed"] * len(others)
    assert f"{len(meant)} runs cancelled" in operator.send(done, "/bulk-runs").text
    assert states(book, meant) == ["cancelled"] * len(meant)


def test_runs_that_are_not_finished_are_cancelled_by_a_filter(
    operator: Browser, book: Book, failed: dict[str, list[str]]
) -> None:
    waiting = book.schedules.trigger("mailing").id
    asked = asked_from(operator.ok("/runs", label="team:mail"), operator, "cancel")
    assert "Cancel 1 run?" in asked.text
    operator.send(asked, "/bulk-runs", run=[waiting])
    assert states(book, [waiting, *failed["mailing"]]) == ["cancelled", "failed", "failed"]


def test_more_runs_than_a_form_names_are_counted_exactly_and_undone(
    operator: Browser, book: Book, failed: dict[str, list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    for place in ("bulk_runs.MOST_SENT", "bulk_runs.BATCH"):
        monkeypatch.setattr(f"duebook.web.routes.{place}", 1)
    monkeypatch.setattr("duebook.web.undoing.TYPED", 1)
    monkeypatch.setattr("duebook.web.run_search.AT_ONCE", 1)
    asked = operator.ok("/bulk-runs", action="retry", label="team:mail")
    assert "Type 2 to confirm" in asked.text
    assert 'name="run"' not in asked.source
    form = asked.form("/bulk-runs")["fields"]
    assert operator.post("/bulk-runs", **form).status == 422
    again = book.schedules.trigger("mailing").id
    (claimed,) = claim(book.store, queue="mails")
    settle(book.store, claimed.token, "failed", error="later")
    done = operator.post("/bulk-runs", **form | {"typed": "2"})
    assert "2 runs queued again." in done.text
    assert states(book, [again, *failed["mailing"]]) == ["failed", "queued", "queued"], (
        "what failed after the page was made is not meant"
    )
    assert "2 runs cancelled" in operator.send(done, "/bulk-runs").text


def test_more_runs_than_the_page_told_are_asked_for_again(
    operator: Browser, book: Book, failed: dict[str, list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("duebook.web.routes.bulk_runs.MOST_SENT", 1)
    asked = operator.ok("/bulk-runs", action="retry", label="team:mail")
    form = asked.form("/bulk-runs")["fields"]
    refused = operator.post("/bulk-runs", **form | {"count": "1"})
    assert refused.status == 422
    assert "2 runs match now, not 1" in refused.text
    assert operator.post("/bulk-runs", **form | {"count": "many"}).status == 422
    assert states(book, failed["mailing"]) == ["failed", "failed"]


def test_of_too_many_runs_the_newest_are_taken(
    operator: Browser, failed: dict[str, list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    for place in ("run_search", "routes.bulk_runs"):
        monkeypatch.setattr(f"duebook.web.{place}.MOST_AT_ONCE", 2)
    asked = operator.ok("/bulk-runs", action="retry")
    assert "Retry 2 runs?" in asked.text
    assert "More runs match: these are the newest 2." in asked.text
    assert failed["etl"][0] in asked.source


def test_a_failure_that_was_retried_since_is_not_cancelled(
    operator: Browser, book: Book, failed: dict[str, list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("duebook.web.routes.bulk_runs.MOST_SENT", 1)
    waiting = [book.schedules.trigger("etl").id for _ in range(2)]
    asked = operator.ok("/bulk-runs", action="cancel")
    assert "Cancel 2 runs?" in asked.text
    form = asked.form("/bulk-runs")["fields"]
    book.runs.cancel(waiting[0])
    again = failed["mailing"][0]
    book.runs.retry(again)
    assert "1 run cancelled" in operator.post("/bulk-runs", **form | {"typed": "2"}).text
    assert states(book, [*waiting, again]) == ["cancelled", "cancelled", "queued"]


def test_of_too_many_active_runs_the_newest_are_cancelled_whether_they_run_or_wait(
    operator: Browser, book: Book, failed: dict[str, list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert failed
    for place in ("run_search", "routes.bulk_runs"):
        monkeypatch.setattr(f"duebook.web.{place}.MOST_AT_ONCE", 2)
    older = [book.schedules.trigger("mailing").id for _ in range(2)]
    running = book.schedules.trigger("etl").id
    assert [claimed.run.id for claimed in claim(book.store, "node-2")] == [running]
    asked = operator.ok("/bulk-runs", action="cancel")
    assert "More runs match: these are the newest 2." in asked.text
    assert [run_id in asked.source for run_id in (*older, running)] == [False, True, True]


def test_the_schedules_of_the_newest_runs_are_paused_first(
    operator: Browser, book: Book, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("a-job", "b-job", "c-job"):
        book.schedules.create(name, trigger={"cron": "@yearly"}, target=TRUE)
        book.schedules.trigger(name)
    monkeypatch.setattr("duebook.web.routes.bulk.MOST", 2)
    asked = operator.ok("/bulk-runs", action="pause")
    assert "There may be more: these are the 2 schedules of the newest runs." in asked.text
    named = [f'value="{name}-job"' in asked.source for name in "abc"]
    assert named == [False, True, True]


@pytest.mark.usefixtures("failed")
def test_the_schedules_of_runs_are_paused(operator: Browser, book: Book) -> None:
    asked = asked_from(operator.ok("/runs", node="host-of-node-1"), operator, "pause")
    assert "Pause 1 schedule?" in asked.text
    done = operator.send(asked, "/bulk")
    assert book.schedules.get("mailing").status == "paused"
    assert book.schedules.get("etl").status == "active"
    operator.send(done, "/bulk")
    assert book.schedules.get("mailing").status == "active"


def test_a_filter_that_is_wrong_is_told(operator: Browser) -> None:
    assert operator.get("/bulk-runs", action="retry", label="team").status == 422
    assert operator.get("/bulk-runs", action="retry", status="odd").status == 422
    assert operator.get("/bulk-runs", action="cancel", schedule="nothing").status == 422
