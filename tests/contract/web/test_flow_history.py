"""The run of a flow over time: its timeline, its merged log, and its steps in the last runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from duebook.engine.advancer import Advancer
from duebook.model.run import LogLine
from tests.support.builders import begin, claim, settle
from tests.support.flow_builders import CHAIN, put_flow

if TYPE_CHECKING:
    from duebook.book import Book
    from tests.support.pages import Browser


def failed_flow(book: Book) -> tuple[str, str]:
    """A run of a flow whose first step printed something and failed; returns both ids."""
    flow = book.flows.start("chain")
    advancer = Advancer(book.store)
    advancer.step()
    (claimed,) = claim(book.store)
    lines = [LogLine(claimed.run.created_at, "stderr", "no <such> table")]
    book.store.transact(lambda tx: tx.attempts.append_log(claimed.token, 1, lines))
    settle(book.store, claimed.token, "failed", error="exit code 1", exit_code=1)
    advancer.step()
    return flow.id, claimed.run.id


def test_a_flow_run_has_a_timeline_and_one_log(viewer: Browser, book: Book) -> None:
    put_flow(book.store, CHAIN)
    begin(book.store)
    flow, step = failed_flow(book)
    page = viewer.ok(f"/runs/{flow}")
    assert "Timeline" in page.text
    assert f'<a href="/runs/{step}"><rect class="run-failed"' in page.source
    assert "Log of all steps" in page.text
    assert "no <such> table" in page.text
    assert "no <such> table" not in page.source
    assert f"/runs/{step}#log" in page.links
    assert f"duebook logs {flow}" in page.text


def test_a_step_that_was_retried_has_a_bar_for_each_run(operator: Browser, book: Book) -> None:
    put_flow(book.store, CHAIN)
    begin(book.store)
    flow, step = failed_flow(book)
    book.flows.retry(flow)
    Advancer(book.store).step()
    (again,) = claim(book.store)
    settle(book.store, again.token)
    source = operator.ok(f"/runs/{flow}").source
    assert f'<a href="/runs/{step}"><rect class="run-failed"' in source
    assert f'<a href="/runs/{again.run.id}"><rect class="run-succeeded"' in source


def test_a_flow_shows_its_steps_in_its_last_runs(viewer: Browser, book: Book) -> None:
    put_flow(book.store, CHAIN)
    begin(book.store)
    first = failed_flow(book)
    assert "Steps in the last" not in viewer.ok("/flows/chain").text, "there is one run"
    second = failed_flow(book)
    page = viewer.ok("/flows/chain")
    assert "Steps in the last 2 runs" in page.text
    for _, step in (first, second):
        assert f'<a href="/runs/{step}" class="cell is-failed"' in page.source
    assert page.source.count('class="cell is-failed"') == 4, "two runs, and a step of each"
