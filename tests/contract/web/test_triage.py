"""Failures by cause, many runs at once, time ranges, and two runs side by side."""

from __future__ import annotations

from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING

from duebook.clock import utc_now
from duebook.engine.advancer import Advancer
from duebook.model.run import LogLine
from tests.support.builders import begin, claim, settle
from tests.support.flow_builders import CHAIN, put_flow

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pytest

    from duebook.book import Book
    from duebook.model.run import Claim
    from duebook.store.base import Store, Tx
    from tests.support.pages import Browser

DAY = timedelta(days=1)


def _print(claimed: Claim, lines: list[LogLine], tx: Tx) -> None:
    tx.attempts.append_log(claimed.token, 1, lines)


def fail(book: Book, name: str, errors: Sequence[str], code: int = 4) -> list[str]:
    """A failed run of the schedule for each error, which is only in the log; returns the ids."""
    book.schedules.create(name, trigger={"cron": "@yearly"}, target={"command": ["true"]})
    failed = []
    for error in errors:
        book.schedules.trigger(name)
        (claimed,) = claim(book.store)
        lines: list[LogLine] = [
            LogLine(claimed.run.created_at, "stderr", text) for text in ("loading", error)
        ]
        lines += [LogLine(claimed.run.created_at, "stdout", "good bye")]
        book.store.transact(partial(_print, claimed, lines))
        settle(book.store, claimed.token, "failed", error=f"exit code {code}", exit_code=code)
        failed.append(claimed.run.id)
    return failed


def test_failures_are_grouped_by_schedule_and_cause(viewer: Browser, book: Book) -> None:
    begin(book.store)
    fail(book, "load", ["row 17: duplicate key", "row 99: duplicate key", "disk full"])
    fail(book, "copy", ["disk full"])
    page = viewer.ok("/failures")
    assert "4 failed runs" in page.text
    assert page.text.count("exit code 4: row #: duplicate key") == 1
    assert page.text.count("exit code 4: disk full") == 3, "in total, and of each schedule"
    assert "bulk-runs" not in page.source, "viewers change nothing"
    assert "3 failed runs" in viewer.ok("/failures", schedule="load").text
    later = f"{utc_now() + DAY:%Y-%m-%dT%H:%M}"
    assert "No failures" in viewer.ok("/failures", **{"from": later}).text
    assert viewer.get("/failures", **{"from": "noon"}).status == 422


def test_a_cause_that_schedules_share_is_retried_for_all_of_them(
    operator: Browser, book: Book
) -> None:
    begin(book.store)
    same = [*fail(book, "load", ["row 17: disk full"]), *fail(book, "copy", ["row 3: disk full"])]
    other = fail(book, "send", ["no route"])
    page = operator.ok("/failures")
    assert "Causes that several schedules share" in page.text
    (address,) = [link for link in page.links if "bulk-runs" in link and "cause=" in link][:1]
    asked = operator.ok(address)
    assert "Retry 2 runs?" in asked.text
    assert "copy (1), load (1):" in asked.text
    assert all(f'name="run" value="{id_}"' in asked.source for id_ in same)
    operator.send(asked, "/bulk-runs", run=same)
    assert [book.runs.get(id_).status for id_ in same] == ["queued"] * 2
    assert [book.runs.get(id_).status for id_ in other] == ["failed"]
    assert "Causes that several" not in operator.ok("/failures").text


def test_a_flow_fails_for_the_cause_of_its_step(viewer: Browser, book: Book) -> None:
    put_flow(book.store, CHAIN)
    begin(book.store)
    book.flows.start("chain")
    advancer = Advancer(book.store)
    advancer.step()
    (claimed,) = claim(book.store)
    settle(book.store, claimed.token, "failed", error="no such table")
    advancer.step()
    page = viewer.ok("/failures")
    assert "1 failed run in the last 24 hours;" in page.text
    assert f"{claimed.run.step}: no such table" in page.text


def test_all_runs_of_a_cause_are_retried_at_once(operator: Browser, book: Book) -> None:
    begin(book.store)
    same = fail(book, "load", ["row 17: duplicate key", "row 99: duplicate key", "disk full"])[:2]
    link = next(link for link in operator.ok("/failures").links if link.startswith("/bulk-runs"))
    asked = operator.ok(link)
    assert "Retry 2 runs?" in asked.text
    form = asked.form("/bulk-runs")["fields"]
    book.runs.retry(same[0])
    done = operator.post("/bulk-runs", **form | {"run": same})
    assert done.form("/bulk-runs")["fields"]["action"] == "cancel"
    assert "1 run queued again; 1 had changed meanwhile." in done.text
    assert {book.runs.get(run_id).status for run_id in same} == {"queued"}


def test_runs_that_wait_are_cancelled_at_once(operator: Browser, book: Book) -> None:
    book.schedules.create("job", trigger={"cron": "@yearly"}, target={"command": ["true"]})
    begin(book.store)
    runs = [book.schedules.trigger("job").id for _ in range(2)]
    listed = operator.ok("/runs", status="queued", schedule="job")
    asked = operator.ok(next(link for link in listed.links if link.startswith("/bulk-runs")))
    assert "Cancel 2 runs?" in asked.text
    form = asked.form("/bulk-runs")["fields"] | {"run": runs}
    done = operator.post("/bulk-runs", **form)
    assert "2 runs cancelled" in done.text
    assert "9 runs" not in operator.ok("/runs?did=cancel&count=9&of=9").text, "nobody did that"
    assert "2 runs queued again" in operator.send(done, "/bulk-runs").text
    assert {run.status for run in book.runs.list()} == {"queued"}
    done = operator.post("/bulk-runs", **form | {"key": "another"})
    assert "2 runs cancelled" in done.text
    assert {book.runs.get(run_id).status for run_id in runs} == {"cancelled"}
    assert "No run can be cancelled" in operator.ok("/bulk-runs", action="cancel").text
    assert operator.post("/bulk-runs", **form | {"run": [], "key": "2"}).status == 422


def test_the_number_of_many_runs_is_typed(
    operator: Browser, book: Book, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("duebook.web.undoing.TYPED", 1)
    begin(book.store)
    failed = fail(book, "load", ["disk full", "disk full"])
    asked = operator.ok("/bulk-runs", action="retry")
    assert "Type 2 to confirm" in asked.text
    form = asked.form("/bulk-runs")["fields"] | {"run": failed}
    refused = operator.post("/bulk-runs", **form)
    assert refused.status == 422
    assert "Type 2 to confirm" in refused.text
    assert {book.runs.get(run_id).status for run_id in failed} == {"failed"}
    assert "2 runs queued again." in operator.post("/bulk-runs", **form | {"typed": "2"}).text


def test_two_runs_stand_side_by_side(viewer: Browser, book: Book) -> None:
    begin(book.store)
    before, after = fail(book, "load", ["disk full", "row 17"])
    page = viewer.ok(f"/runs/{after}")
    assert f"/compare?a={before}&b={after}" in page.links
    assert "row 17" in page.text
    assert f"/runs/{after}" in viewer.ok(f"/runs/{before}").links
    compared = viewer.ok("/compare", a=before, b=after)
    assert "exit code 4" in compared.text
    assert {f"/runs/{before}", f"/runs/{after}"} <= set(compared.links)
    assert viewer.get("/compare", a=before, b="nothing").status == 404
    assert "First run" in viewer.ok("/compare").text


def test_runs_of_a_time_range_and_a_flow_are_listed(viewer: Browser, book: Book) -> None:
    put_flow(book.store, CHAIN)
    begin(book.store)
    flow = book.flows.start("chain")
    assert f"/runs/{flow.id}" in viewer.ok("/runs", flow="chain").links
    assert f"/runs/{flow.id}" not in viewer.ok("/runs", flow="other").links
    page = viewer.ok("/runs")
    for words in ("Last night", "Today", "Last 7 days", "Failures by cause"):
        assert words in page.text
    later, earlier = (f"{utc_now() + days * DAY:%Y-%m-%dT%H:%M}" for days in (1, -3_650))
    assert f"/runs/{flow.id}" not in viewer.ok("/runs", **{"from": later}).links
    assert f"/runs/{flow.id}" not in viewer.ok("/runs", to=earlier).links
    assert f"/runs/{flow.id}" in viewer.ok("/runs", **{"from": earlier, "to": later}).links
    assert viewer.get("/runs", **{"from": "noon"}).status == 422


def test_the_last_error_of_a_run_is_what_it_printed_last(book: Book, store: Store) -> None:
    begin(store)
    (failed,) = fail(book, "load", ["disk full"])
    runs = [book.runs.get(failed)]
    assert book.insights.last_errors(runs) == {failed: "disk full"}
    assert book.insights.last_errors([]) == {}
